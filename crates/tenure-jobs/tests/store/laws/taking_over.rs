//! The first change of a term.

use tenure_http::KnownLeader;
use tenure_jobs::{
    job::State,
    round::{OpenLease, Round},
    store::{StoreError, Takeover},
};

use crate::scene::{
    Backend, PATIENCE, SCOPE, Scene, grant, heartbeat, heartbeat_in, job, job_in, lease_of, named,
    recall, success,
};

const WINDOW: i64 = PATIENCE.takeover_window.as_millis() as i64;

pub async fn nobody_has_led_an_empty_database(backend: &dyn Backend) {
    assert_eq!(backend.store().leader().await.unwrap(), None);
    backend.term_of(SCOPE).await;
    assert_eq!(backend.store().leader().await.unwrap(), None, "it has not taken over yet");
}

pub async fn the_last_leader_and_where_it_is_are_known(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    for url in [Some("http://b:1"), None, Some("http://c")] {
        let epoch = scene.next_term().await;
        let number = scene.last_event().await;
        let leader_url = url.map(str::to_owned);
        scene.take_over(&Takeover { leader_url: leader_url.clone(), dead_agent: None }).await;
        let id = scene.term.holder().as_str().to_owned();
        let told = match url {
            Some(url) => format!("[all] role.changed by {id}: {url}"),
            None => format!("[all] role.changed by {id}"),
        };
        assert_eq!(scene.told_after(number).await, [told]);
        let known = KnownLeader { epoch: scene.term.epoch(), id, url: leader_url };
        assert_eq!(scene.store().leader().await.unwrap(), Some(known));
        assert_eq!(backend.rows("tenure_job_leaders").await.last().unwrap()["leader_epoch"], epoch);
    }
    assert_eq!(backend.rows("tenure_job_leaders").await.len(), 4);
    assert_eq!(backend.rows("tenure_job_changes").await[0]["scope"], SCOPE);
}

pub async fn open_leases_last_for_the_window_and_never_get_shorter(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    scene.submit([job("queued")]).await;
    for id in ["long", "short", "over", "ended"] {
        scene.lease(job(id), "ann").await;
    }
    scene.end("ended").await;
    backend.set_left("long", WINDOW * 2).await;
    backend.set_left("short", WINDOW / 10).await;
    backend.set_left("over", -WINDOW).await;
    let before: Vec<_> = backend.rows("tenure_jobs").await;
    let long = scene.job("long").await;
    scene.next_term().await;
    scene.take_over(&Takeover::default()).await;
    assert_eq!(scene.job("long").await.lease_expires_at, long.lease_expires_at);
    for id in ["short", "over"] {
        let left = scene.left(id).await;
        let window = PATIENCE.takeover_window;
        assert!(left <= window && left > window * 9 / 10, "{id}: {left:?}");
        assert_eq!(scene.job(id).await.job_epoch, 1);
    }
    let after = backend.rows("tenure_jobs").await;
    let is_open = |job: &&serde_json::Value| job["state"] == "leased";
    let others = |rows: &[serde_json::Value]| -> Vec<_> {
        rows.iter().filter(|job| !is_open(job)).cloned().collect()
    };
    assert_eq!(others(&after), others(&before), "what is not leased is not touched");
    let results = vec![success("over"), success("short"), success("long")];
    let written = scene.write(Round { reaps: true, results, ..Round::default() }).await;
    assert!(written.queued.is_empty(), "what was finished meanwhile comes first");
    assert_eq!(scene.store().open_leases().await.unwrap(), 0);
}

pub async fn agents_that_are_alive_are_counted_from_now(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat("stale"), heartbeat("buried")]).await;
    let stale_after = PATIENCE.stale_after.as_millis() as i64;
    backend.set_silence("stale", stale_after).await;
    scene.reap().await;
    scene.bury(named("buried")).await;
    let before = (scene.agent("stale").await, scene.agent("buried").await);
    backend.set_silence("ann", 10 * stale_after).await;
    scene.next_term().await;
    let began = backend.now().await;
    scene.take_over(&Takeover::default()).await;
    assert!(scene.agent("ann").await.last_seen_at >= began);
    assert!(!scene.store().has_run_out().await.unwrap());
    let after = (scene.agent("stale").await, scene.agent("buried").await);
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        assert_eq!((after.state, after.last_seen_at), (before.state, before.last_seen_at));
    }
}

pub async fn what_the_dead_agent_had_is_queued_in_every_namespace(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat_in("b", "ann")]).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job_in("b", "there"), "ann").await;
    scene.lease(job("bobs"), "bob").await;
    scene.lease(job("ended"), "ann").await;
    scene.end("ended").await;
    scene.next_term().await;
    let number = scene.last_event().await;
    let dead_agent = Some("ann".to_owned());
    scene.take_over(&Takeover { leader_url: None, dead_agent }).await;
    let (why, leader) = ("the agent's node leads now", scene.term.holder());
    assert_eq!(
        scene.told_after(number).await,
        [
            format!("[all] role.changed by {leader}"),
            format!("job.expired a@2 by ann: {why}"),
            format!("[b] job.expired there@2 by ann: {why}"),
        ]
    );
    for (namespace, id) in [("default", "a"), ("b", "there")] {
        let back = scene.job_in(namespace, id).await;
        assert_eq!((back.state, back.job_epoch, back.lease_id), (State::Queued, 2, None));
    }
    let bobs = scene.job("bobs").await;
    assert_eq!((bobs.state, bobs.lease_id), (State::Leased, Some(lease_of("bobs"))));
    assert_eq!(scene.job("ended").await.state, State::Succeeded);
}

pub async fn open_leases_of_earlier_terms_are_inherited(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    assert!(scene.store().inherited(&scene.term).await.unwrap().is_empty());
    let both = scene.submit([job("one"), job("two")]).await;
    scene.grant(grant("of both", "ann", &both)).await;
    for id in ["ended", "back"] {
        scene.lease(job(id), "ann").await;
    }
    scene.lease(job_in("b", "there"), "bob").await;
    scene.end("ended").await;
    scene.recall(recall("back")).await;
    assert!(scene.store().inherited(&scene.term).await.unwrap().is_empty(), "they are this term's");
    for _ in 0..2 {
        scene.next_term().await;
        scene.take_over(&Takeover::default()).await;
        scene.hear([heartbeat("ann")]).await;
        scene.lease(job(&format!("of term {}", scene.term.epoch().get())), "ann").await;
    }
    let mut inherited = scene.store().inherited(&scene.term).await.unwrap();
    inherited.sort_by(|one, other| one.lease_id.cmp(&other.lease_id));
    let open = |lease_id: &str, namespace: &str, agent: &str| {
        let [lease_id, namespace, agent] = [lease_id, namespace, agent].map(str::to_owned);
        OpenLease { lease_id, namespace, agent }
    };
    assert_eq!(
        inherited,
        [
            open("lease of of term 2", "default", "ann"),
            open("lease of there", "b", "bob"),
            open("of both", "default", "ann"),
        ]
    );
}

pub async fn a_leader_of_another_scope_is_refused_and_changes_nothing(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.hear([heartbeat("ann")]).await;
    let before = scene.everything().await;
    let other = backend.term_of("others").await;
    let takeover =
        Takeover { leader_url: Some("http://b".to_owned()), dead_agent: Some("ann".to_owned()) };
    let refused = scene.store().take_over(&other, &takeover).await;
    let Err(StoreError::OtherScope { theirs, ours }) = refused else { panic!("{refused:?}") };
    assert_eq!((&*theirs, &*ours), (SCOPE, "others"));
    assert_eq!(scene.everything().await, before);
    scene.submit([job("b")]).await;
}
