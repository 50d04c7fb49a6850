//! Agents that are heard, and what they work on.

use tenure_jobs::{
    agent::Heartbeat,
    round::{Round, Verdict},
};

use crate::scene::{
    Backend, PATIENCE, Scene, heartbeat, heartbeat_in, job, json, lease_of, named, success,
};

const LEASE: i64 = PATIENCE.job_lease.as_millis() as i64;

/// Names the leases of jobs that were handed over by [`Scene::lease`].
fn naming(name: &str, job_ids: &[&str]) -> Heartbeat {
    let leases = Some(job_ids.iter().map(|id| lease_of(id)).collect());
    Heartbeat { leases, ..heartbeat(name) }
}

pub async fn an_agent_that_is_heard_is_alive_and_shown_as_it_said(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let before = backend.now().await;
    let said = Heartbeat {
        labels: json("{ \"zone\" : \"\\u00e9\" }"),
        capabilities: json("[ \"copy\" ]"),
        worker_profile: json("\"big\""),
        metrics: json("{\"load\":1.50}"),
        ..heartbeat("ann")
    };
    scene.hear([said]).await;
    let ann = scene.agent("ann").await;
    assert_eq!((&*ann.namespace, &*ann.state), ("default", "alive"));
    assert_eq!(ann.labels.get(), "{ \"zone\" : \"\\u00e9\" }");
    assert_eq!(ann.capabilities.get(), "[ \"copy\" ]");
    assert_eq!((ann.worker_profile.get(), ann.metrics.get()), ("\"big\"", "{\"load\":1.50}"));
    assert_eq!(ann.first_seen_at, ann.last_seen_at);
    assert!(before <= ann.last_seen_at && ann.last_seen_at <= backend.now().await);
    assert_eq!(scene.told_after(1).await, [""; 0], "at most one small row, and nothing told");
}

pub async fn the_last_word_of_an_agent_counts(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann")]).await;
    let first = scene.agent("ann").await;
    let metrics = json("{\"load\":2}");
    scene.hear([Heartbeat { metrics, ..heartbeat("ann") }]).await;
    let second = scene.agent("ann").await;
    assert_eq!(second.metrics.get(), "{\"load\":2}");
    assert_eq!(second.first_seen_at, first.first_seen_at);
    assert!(second.last_seen_at > first.last_seen_at);
    assert_eq!(backend.rows("tenure_job_agents").await.len(), 1);
}

pub async fn a_heartbeat_extends_a_lease_when_a_third_of_it_has_passed(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    for id in ["fresh", "young", "old", "last"] {
        scene.lease(job(id), "ann").await;
    }
    backend.set_left("young", LEASE * 21 / 30).await;
    backend.set_left("old", LEASE * 19 / 30).await;
    backend.set_left("last", LEASE / 30).await;
    let (fresh, young) = (scene.job("fresh").await, scene.job("young").await);
    scene.hear([heartbeat("ann"), heartbeat("bob")]).await;
    assert_eq!(scene.job("fresh").await.lease_expires_at, fresh.lease_expires_at);
    assert_eq!(scene.job("young").await.lease_expires_at, young.lease_expires_at);
    for id in ["old", "last"] {
        let left = scene.left(id).await;
        assert!(left <= PATIENCE.job_lease && left > PATIENCE.job_lease * 9 / 10, "{left:?}");
    }
    assert_eq!(scene.job("old").await.job_epoch, 1);
}

pub async fn a_heartbeat_that_names_its_leases_extends_only_those(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    for (id, agent) in [("a", "ann"), ("b", "ann"), ("c", "ann"), ("bobs", "bob")] {
        scene.lease(job(id), agent).await;
        backend.set_left(id, LEASE / 10).await;
    }
    let before = backend.rows("tenure_jobs").await;
    scene.hear([naming("ann", &[])]).await;
    scene.hear([naming("eve", &["a"])]).await;
    scene.hear([naming("ann", &["bobs", "unknown"])]).await;
    assert_eq!(backend.rows("tenure_jobs").await, before, "it has none of those");
    scene.hear([naming("ann", &["a", "c"]), naming("eve", &[])]).await;
    let tenth = PATIENCE.job_lease / 10;
    for (id, is_extended) in [("a", true), ("b", false), ("c", true), ("bobs", false)] {
        assert_eq!(scene.left(id).await > tenth, is_extended, "{id}");
    }
    scene.hear([naming("bob", &[]), heartbeat("ann")]).await;
    assert!(scene.left("b").await > tenth, "who names none has all in its name");
    assert!(scene.left("bobs").await <= tenth);
}
pub async fn what_another_agent_names_is_not_extended(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    backend.set_left("a", LEASE / 10).await;
    let before = backend.rows("tenure_jobs").await;
    scene.hear([naming("ann", &[]), naming("eve", &["a"])]).await;
    assert_eq!(backend.rows("tenure_jobs").await, before);
}

pub async fn a_heartbeat_does_not_extend_what_has_expired(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    backend.set_left("a", 0).await;
    let before = backend.rows("tenure_jobs").await;
    scene.hear([heartbeat("ann")]).await;
    assert_eq!(backend.rows("tenure_jobs").await, before);
    assert_eq!(scene.report(success("a")).await, Verdict::StaleLease { job_epoch: 1 });
}

pub async fn a_heartbeat_does_not_extend_anothers_lease(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job("ended"), "ann").await;
    backend.set_left("a", LEASE / 10).await;
    scene.end("ended").await;
    let before = backend.rows("tenure_jobs").await;
    scene.hear([heartbeat("bob"), heartbeat("Ann"), heartbeat_in("b", "ann")]).await;
    assert_eq!(backend.rows("tenure_jobs").await, before);
}

pub async fn a_heartbeat_comes_before_the_results_of_its_round(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job("b"), "ann").await;
    backend.set_left("b", LEASE / 10).await;
    let (heartbeats, results) = (vec![heartbeat("ann")], vec![success("a")]);
    let written = scene.write(Round { heartbeats, results, ..Round::default() }).await;
    assert_eq!(written.verdicts, [Verdict::Accepted]);
    assert!(scene.left("b").await > PATIENCE.job_lease * 9 / 10);
    assert_eq!(scene.agent("ann").await.state, "alive");
}

pub async fn a_stale_agent_and_a_tombstone_are_alive_when_they_are_heard(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat("bob")]).await;
    backend.set_silence("ann", PATIENCE.stale_after.as_millis() as i64).await;
    scene.reap().await;
    scene.bury(named("bob")).await;
    assert_eq!(scene.agent("ann").await.state, "stale");
    assert_eq!(scene.agent("bob").await.state, "tombstoned");
    scene.hear([heartbeat("ann"), heartbeat("bob")]).await;
    for name in ["ann", "bob"] {
        let agent = scene.agent(name).await;
        assert_eq!(agent.state, "alive");
        assert!(agent.last_seen_at > agent.first_seen_at);
    }
    let before = scene.everything().await;
    scene.reap().await;
    assert_eq!(scene.everything().await, before, "they are counted from now");
}
