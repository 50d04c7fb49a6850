//! Leases that end without a result.

use tenure_jobs::{
    job::{NewJob, State},
    queue::Queued,
    round::{AgentName, Grant, Recall, Recalled, Round, Verdict},
    store::Patience,
};
use tenure_testkit::{eventually_true, millis, secs};

use crate::scene::{
    Backend, EVERYTHING, PATIENCE, Scene, all_that_ran_out, emptied, grant, heartbeat,
    heartbeat_in, job, job_in, lease_of, named, recall, strays, success,
};

/// The job is queued again, under its second epoch, with nothing left of its lease.
async fn is_back(scene: &Scene<'_>, namespace: &str, job_id: &str) {
    let back = scene.job_in(namespace, job_id).await;
    assert_eq!((back.state, back.job_epoch), (State::Queued, 2), "{namespace} {job_id}");
    assert_eq!((back.lease_id, back.leased_by, back.lease_expires_at), (None, None, None));
    let rows = scene.backend.rows("tenure_jobs").await;
    let is_this =
        |row: &&serde_json::Value| row["job_id"] == job_id && row["namespace"] == namespace;
    assert!(rows.iter().find(is_this).unwrap()["leased_at"].is_null());
}

pub async fn a_job_that_is_recalled_is_queued_under_the_next_epoch(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let asked = NewJob { priority: 2, pinned_agent: Some("ann".to_owned()), ..job("a") };
    let (row, _) = scene.lease(asked.clone(), "ann").await;
    scene.lease(job("b"), "ann").await;
    let number = scene.last_event().await;
    let why = Recall { reason: "it is too slow".to_owned(), ..recall("a") };
    let written = scene.recall(why).await;
    assert_eq!(written.queued, [Queued { job_epoch: 2, ..Queued::of(&asked, row) }]);
    assert_eq!(scene.told_after(number).await, ["job.expired a@2 by ann: it is too slow"]);
    is_back(&scene, "default", "a").await;
    assert_eq!(scene.job("b").await.state, State::Leased);
    assert_eq!(scene.grant(grant("l", "ann", &[(row, 2)])).await.len(), 1);
}

pub async fn what_is_not_leased_is_not_taken_back(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.submit([job("queued")]).await;
    scene.lease(job("ended"), "ann").await;
    scene.end("ended").await;
    let before = scene.everything().await;
    for id in ["queued", "ended", "unknown"] {
        assert_eq!(scene.recall(recall(id)).await.queued, []);
    }
    let written = scene.bury(named("ann")).await;
    assert_eq!((written.queued, written.buried), (vec![], vec![]), "nobody heard of it");
    assert_eq!(scene.reap().await.queued, []);
    assert_eq!(scene.everything().await, before);
}

pub async fn a_stray_lease_is_taken_back_and_no_other(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.submit([job("a"), job("b")]).await;
    scene.grant(grant("stray", "ann", &at[..1])).await;
    scene.grant(grant("known", "ann", &at[1..])).await;
    let reaping = strays(&["stray", "never granted"]);
    let written = scene.write(Round { reaping, ..Round::default() }).await;
    assert_eq!(written.queued, [Queued { job_epoch: 2, ..Queued::of(&job("a"), at[0].0) }]);
    is_back(&scene, "default", "a").await;
    assert_eq!(scene.job("b").await.state, State::Leased);
}

pub async fn a_recall_is_for_one_namespace(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    let at = scene.submit([job_in("b", "a")]).await;
    scene.grant(Grant { namespace: "b".to_owned(), ..grant("there", "ann", &at) }).await;
    let written = scene.recall(Recall { namespace: "b".to_owned(), ..recall("a") }).await;
    assert_eq!(written.queued.len(), 1);
    is_back(&scene, "b", "a").await;
    assert_eq!(scene.job("a").await.state, State::Leased);
}

pub async fn a_burial_takes_back_all_that_the_agent_has(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat("bob")]).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job("b"), "bob").await;
    scene.lease(job("c"), "ann").await;
    scene.lease(job("d"), "ann").await;
    scene.end("d").await;
    let number = scene.last_event().await;
    let written = scene.bury(named("ann")).await;
    assert_eq!(written.buried, [named("ann")]);
    assert_eq!(written.queued.len(), 2);
    let why = "the agent was deleted";
    assert_eq!(
        scene.told_after(number).await,
        [
            "agent_tombstoned by ann: asked".to_owned(),
            format!("job.expired a@2 by ann: {why}"),
            format!("job.expired c@2 by ann: {why}"),
        ]
    );
    is_back(&scene, "default", "a").await;
    is_back(&scene, "default", "c").await;
    assert_eq!(scene.job("b").await.state, State::Leased);
    assert_eq!(scene.job("d").await.state, State::Succeeded);
    assert_eq!(scene.agent("ann").await.state, "tombstoned");
    assert_eq!(scene.agent("bob").await.state, "alive");
}

pub async fn a_burial_leaves_an_agent_of_that_name_elsewhere_alone(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat_in("b", "ann")]).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job_in("b", "there"), "ann").await;
    let there = AgentName { namespace: "b".to_owned(), name: "ann".to_owned() };
    let written = scene.bury(there.clone()).await;
    assert_eq!((written.buried, written.queued.len()), (vec![there], 1));
    is_back(&scene, "b", "there").await;
    assert_eq!(scene.job("a").await.state, State::Leased);
    assert_eq!(scene.agent("ann").await.state, "alive");
    assert_eq!(scene.store().agents("b").await.unwrap()[0].state, "tombstoned");
}

/// What it has is taken back all the same: it may have leased again without a heartbeat.
pub async fn an_agent_is_buried_once(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann")]).await;
    assert_eq!(scene.bury(named("ann")).await.buried, [named("ann")]);
    scene.lease(job("a"), "ann").await;
    let number = scene.last_event().await;
    let written = scene.bury(named("ann")).await;
    assert_eq!((written.buried, written.queued.len()), (vec![], 1));
    let told = ["job.expired a@2 by ann: the agent was deleted"];
    assert_eq!(scene.told_after(number).await, told);
}

pub async fn an_expired_lease_is_taken_back_when_it_is_reaped(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let (row, _) = scene.lease(job("a"), "ann").await;
    scene.lease(job("b"), "ann").await;
    backend.set_left("a", 0).await;
    let number = scene.last_event().await;
    let written = scene.reap().await;
    assert_eq!(written.queued, [Queued { job_epoch: 2, ..Queued::of(&job("a"), row) }]);
    assert_eq!(scene.told_after(number).await, ["job.expired a@2 by ann: lease expired"]);
    is_back(&scene, "default", "a").await;
    assert_eq!(scene.job("b").await.state, State::Leased, "it has not run out");
    assert_eq!(scene.reap().await.queued, []);
}

pub async fn a_short_lease_runs_out_by_itself(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.submit([job("a")]).await;
    let store = backend.another(Patience { job_lease: millis(30), ..PATIENCE });
    let grants = vec![grant("lease of a", "ann", &at)];
    store.write(&scene.term, &Round { grants, ..Round::default() }).await.unwrap();
    eventually_true("it runs out", secs(10), async || {
        store.has_run_out(&scene.term, EVERYTHING).await.unwrap()
    })
    .await;
    assert_eq!(scene.report(success("a")).await, Verdict::StaleLease { job_epoch: 1 });
    assert_eq!(scene.reap().await.queued.len(), 1);
    is_back(&scene, "default", "a").await;
    assert!(!store.has_run_out(&scene.term, EVERYTHING).await.unwrap());
}

pub async fn a_job_with_two_reasons_to_come_back_moves_on_by_one_epoch(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann")]).await;
    scene.lease(job("a"), "ann").await;
    backend.set_left("a", 0).await;
    let number = scene.last_event().await;
    let written = scene
        .write(Round {
            recalls: vec![recall("a"), recall("a")],
            burials: vec![named("ann")],
            reaping: all_that_ran_out(),
            ..Round::default()
        })
        .await;
    assert_eq!(written.queued.len(), 1);
    is_back(&scene, "default", "a").await;
    let told = ["job.expired a@2 by ann: asked", "agent_tombstoned by ann: asked"];
    assert_eq!(scene.told_after(number).await, told);
}

pub async fn a_result_comes_before_a_recall_of_its_round(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    let (results, recalls) = (vec![success("a")], vec![recall("a")]);
    let reaping = all_that_ran_out();
    let written = scene.write(Round { results, recalls, reaping, ..Round::default() }).await;
    assert_eq!((written.verdicts, written.queued), (vec![Verdict::Accepted], vec![]));
    assert_eq!(scene.job("a").await.state, State::Succeeded);
}

pub async fn a_recall_that_means_another_epoch_or_lease_takes_nothing(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let (row, _) = scene.lease(job("a"), "ann").await;
    scene.recall(recall("a")).await;
    scene.grant(grant("second", "bob", &[(row, 2)])).await;
    let before = scene.everything().await;
    let old_epoch = Recall { job_epoch: Some(1), ..recall("a") };
    assert_eq!(scene.recalled(old_epoch).await, Recalled::StaleJob { job_epoch: 2 });
    let old_lease = Recall { lease_id: Some(lease_of("a")), ..recall("a") };
    assert_eq!(scene.recalled(old_lease).await, Recalled::StaleLease { job_epoch: 2 });
    assert_eq!(scene.recalled(recall("unknown")).await, Recalled::NotFound);
    assert_eq!(scene.everything().await, before);
    let meant = Recall { job_epoch: Some(2), lease_id: Some("second".to_owned()), ..recall("a") };
    assert_eq!(scene.recalled(meant).await, Recalled::Back { job_epoch: 3 });
    assert_eq!(scene.recalled(recall("a")).await, Recalled::NotLeased { job_epoch: 3 });
}

pub async fn no_more_is_taken_back_at_once_than_may_be(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    for id in 0..7 {
        scene.lease(job(&format!("{id}")), "ann").await;
    }
    for id in 0..5 {
        backend.set_left(&format!("{id}"), 0).await;
    }
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let reaping = all_that_ran_out();
        let written = scene.write(Round { reaping, most: 2, ..Round::default() }).await;
        rounds.push((written.queued.len(), written.reaped.run_out));
    }
    assert_eq!(rounds, [(2, 2), (2, 2), (1, 1)]);
    let reaping = emptied(&named("ann"));
    let some = Round { reaping, most: 1, ..Round::default() };
    assert_eq!(scene.write(some.clone()).await.reaped.emptied, 1);
    assert_eq!(scene.write(some.clone()).await.reaped.emptied, 1);
    assert_eq!(scene.write(some).await.reaped.emptied, 0);
}
