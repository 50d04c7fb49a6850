//! Agents that fall silent.

use tenure_jobs::{round::Round, store::Patience};
use tenure_testkit::{eventually_true, millis, secs};

use crate::scene::{
    Backend, EVERYTHING, PATIENCE, Scene, all_that_ran_out, heartbeat, heartbeat_in, job, named,
};

const STALE: i64 = PATIENCE.stale_after.as_millis() as i64;
const TOMBSTONED: i64 = PATIENCE.tombstone_after.as_millis() as i64;
const FORGOTTEN: i64 = PATIENCE.forget_after.as_millis() as i64;
/// More than a law needs for a few calls.
const SOON: i64 = 30_000;

/// Reaps, and says whether something had run out; after that nothing has.
async fn reap(scene: &Scene<'_>) -> (bool, Vec<String>) {
    let number = scene.last_event().await;
    let has_run_out = scene.has_run_out().await;
    scene.reap().await;
    assert!(!scene.has_run_out().await, "it has been reaped");
    (has_run_out, scene.told_after(number).await)
}

fn told(what: &str) -> (bool, Vec<String>) {
    (true, vec![what.to_owned()])
}

fn nothing() -> (bool, Vec<String>) {
    (false, vec![])
}

pub async fn an_agent_ages_at_its_times_and_each_is_told_once(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat_in("b", "bob")]).await;
    assert_eq!(reap(&scene).await, nothing());
    for (silence, state, expected) in [
        (STALE - SOON, "alive", nothing()),
        (STALE, "stale", told("agent.stale by ann")),
        (TOMBSTONED - SOON, "stale", nothing()),
        (TOMBSTONED, "tombstoned", told("agent_tombstoned by ann")),
        (FORGOTTEN - SOON, "tombstoned", nothing()),
    ] {
        backend.set_silence("ann", silence).await;
        assert_eq!(reap(&scene).await, expected, "after {silence} ms");
        assert_eq!(scene.agent("ann").await.state, state);
        assert_eq!(reap(&scene).await, nothing());
    }
    backend.set_silence("ann", FORGOTTEN).await;
    assert_eq!(reap(&scene).await, told("agent_deleted by ann"));
    assert!(scene.store().agents("default").await.unwrap().is_empty());
    assert_eq!(reap(&scene).await, nothing());
    assert_eq!(scene.store().agents("b").await.unwrap()[0].state, "alive");
}

/// Nobody reaped for a while: it is told what the agent is, not what it was.
pub async fn an_agent_that_was_silent_for_long_is_a_tombstone_at_once(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat("bob"), heartbeat_in("b", "eve")]).await;
    backend.set_silence("ann", TOMBSTONED).await;
    backend.set_silence("bob", FORGOTTEN).await;
    backend.set_silence("eve", STALE).await;
    let all = ["[b] agent.stale by eve", "agent_deleted by bob", "agent_tombstoned by ann"];
    let (has_run_out, mut told) = reap(&scene).await;
    told.sort();
    assert_eq!((has_run_out, told), (true, all.map(str::to_owned).to_vec()));
}

pub async fn an_agent_ages_by_itself(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let patience = Patience {
        stale_after: millis(50),
        tombstone_after: millis(100),
        forget_after: millis(150),
        ..PATIENCE
    };
    let store = backend.another(patience);
    scene.hear([heartbeat("ann")]).await;
    let number = scene.last_event().await;
    eventually_true("it is forgotten", secs(20), async || {
        let is_due = store.has_run_out(&scene.term, EVERYTHING).await.unwrap();
        let before = scene.last_event().await;
        let reaping = all_that_ran_out().filter(|_| is_due);
        store.write(&scene.term, &Round { reaping, ..Round::default() }).await.unwrap();
        assert_eq!(is_due, scene.last_event().await > before, "something was due");
        store.agents("default").await.unwrap().is_empty()
    })
    .await;
    let told = scene.told_after(number).await;
    let ages = ["agent.stale by ann", "agent_tombstoned by ann", "agent_deleted by ann"];
    let mut rest = ages.iter();
    assert!(told.iter().all(|told| rest.any(|age| age == told)), "each once, in order: {told:?}");
    assert_eq!(told.last().map(String::as_str), Some("agent_deleted by ann"));
    assert!(!store.has_run_out(&scene.term, EVERYTHING).await.unwrap());
}

pub async fn a_tombstone_that_was_asked_for_is_forgotten_in_its_time(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann")]).await;
    scene.bury(named("ann")).await;
    for silence in [STALE, TOMBSTONED, FORGOTTEN - SOON] {
        backend.set_silence("ann", silence).await;
        assert_eq!(reap(&scene).await, nothing());
        assert_eq!(scene.agent("ann").await.state, "tombstoned");
    }
    backend.set_silence("ann", FORGOTTEN).await;
    assert_eq!(reap(&scene).await, told("agent_deleted by ann"));
}

/// Leases and agents here; the room for events is the matter of what is told.
pub async fn something_has_run_out_exactly_when_something_is_due(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    assert_eq!(reap(&scene).await, nothing());
    scene.submit([job("waiting")]).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job("b"), "ann").await;
    scene.hear([heartbeat("ann")]).await;
    assert_eq!(reap(&scene).await, nothing());
    backend.set_left("a", 0).await;
    assert_eq!(reap(&scene).await, told("job.expired a@2 by ann: lease expired"));
    backend.set_left("b", SOON).await;
    assert_eq!(reap(&scene).await, nothing());
}
