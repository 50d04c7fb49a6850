//! Whoever writes jobs waits for whoever does, and reads the clock after that.

use jiff::Timestamp;
use tenure_jobs::{
    event::Span,
    job::State,
    round::{Round, Verdict, Written},
    store::Store,
};
use tenure_testkit::{eventually_true, secs};
use tokio_postgres::Client;

use super::{OnPostgres, store};
use crate::scene::{Backend, PATIENCE, Scene, all_that_ran_out, heartbeat, job, success};

/// The same lock as every change begins with.
const BEGIN: &str = "BEGIN; SELECT scope FROM tenure_job_changes FOR UPDATE;";

/// Another session in the middle of a change; one that has changed the row, or one that has only locked it.
async fn blocker(backend: &OnPostgres, changes: bool) -> Client {
    let client = backend.postgres.connect().await.unwrap();
    client.batch_execute(BEGIN).await.unwrap();
    if changes {
        let change = "UPDATE tenure_job_changes SET scope = scope";
        client.batch_execute(change).await.unwrap();
    }
    client
}

/// Until a write of the store waits for a lock.
async fn until_it_waits(backend: &OnPostgres) {
    let query = "SELECT count(*) FROM pg_stat_activity
                 WHERE usename = 'app' AND wait_event_type = 'Lock'";
    eventually_true("it waits", secs(10), async || backend.number(query).await == 1).await;
}

/// Writes a round behind a lock, while the lease of the job `a` runs out: it was open when the write was sent. Says
/// what came of it, and a moment when it waited.
async fn write_while_the_lease_runs_out(
    backend: &OnPostgres,
    scene: &Scene<'_>,
    round: Round,
    changes: bool,
) -> (Written, Timestamp) {
    let blocker = blocker(backend, changes).await;
    let (store, term) = (backend.store.clone(), scene.term.clone());
    let writing = tokio::spawn(async move { store.write(&term, &round).await });
    until_it_waits(backend).await;
    backend.set_left("a", 0).await;
    let waited = backend.now().await;
    blocker.batch_execute("COMMIT").await.unwrap();
    (writing.await.unwrap().unwrap(), waited)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_waited_until_its_lease_was_over_is_stale() {
    for changes in [false, true] {
        let backend = OnPostgres::start().await;
        let scene = Scene::begin(&backend).await;
        scene.lease(job("a"), "ann").await;
        let round = Round { results: vec![success("a")], ..Round::default() };
        let (written, _) = write_while_the_lease_runs_out(&backend, &scene, round, changes).await;
        assert_eq!(written.verdicts, [Verdict::StaleLease { job_epoch: 1 }]);
        assert_eq!(scene.job("a").await.state, State::Leased);
        assert!(backend.rows("tenure_job_results").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_waited_until_the_lease_was_over_extends_nothing() {
    for changes in [false, true] {
        let backend = OnPostgres::start().await;
        let scene = Scene::begin(&backend).await;
        scene.lease(job("a"), "ann").await;
        let round = Round { heartbeats: vec![heartbeat("ann")], ..Round::default() };
        write_while_the_lease_runs_out(&backend, &scene, round, changes).await;
        assert_eq!(scene.left("a").await, secs(0));
        assert!(scene.has_run_out().await);
        assert_eq!(scene.agent("ann").await.state, "alive");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reaping_round_that_waited_takes_back_what_ran_out_meanwhile() {
    let backend = OnPostgres::start().await;
    let scene = Scene::begin(&backend).await;
    scene.lease(job("a"), "ann").await;
    let round = Round { reaping: all_that_ran_out(), ..Round::default() };
    let (written, _) = write_while_the_lease_runs_out(&backend, &scene, round, false).await;
    assert_eq!(written.queued.len(), 1);
}

/// A lease counts from when it is handed over, however long the grant waited.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_waited_lasts_from_its_end() {
    let backend = OnPostgres::start().await;
    let scene = Scene::begin(&backend).await;
    let at = scene.submit([job("b")]).await;
    scene.lease(job("a"), "ann").await;
    let grants = vec![crate::scene::grant("l", "bob", &at)];
    let round = Round { grants, ..Round::default() };
    let (_, waited) = write_while_the_lease_runs_out(&backend, &scene, round, true).await;
    let expires_at = scene.job("b").await.lease_expires_at.unwrap();
    assert!(expires_at > waited + PATIENCE.job_lease);
}

/// A change that commits late has the lower numbers, and nobody who follows can have passed it by.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_numbered_in_the_order_of_commits() {
    let backend = OnPostgres::start().await;
    let scene = Scene::begin(&backend).await;
    let first = blocker(&backend, false).await;
    let tell = "UPDATE tenure_job_changes SET event_number = event_number + 1;
                INSERT INTO tenure_job_events (event_number, namespace, kind, leader_epoch, recorded_at)
                SELECT event_number, 'default', 'first', 1, clock_timestamp() FROM tenure_job_changes";
    first.batch_execute(tell).await.unwrap();

    let (second, term) = (store(&backend.postgres, PATIENCE), scene.term.clone());
    let round = Round { jobs: vec![job("a")], ..Round::default() };
    let writing = tokio::spawn(async move { second.write(&term, &round).await });
    until_it_waits(&backend).await;
    let seen = backend.store.span(0).await.unwrap();
    assert_eq!((seen.first, seen.last), (1, 1), "neither is there yet");
    assert_eq!(backend.store.events("default", 0, seen.last).await.unwrap().len(), 1);

    first.batch_execute("COMMIT").await.unwrap();
    writing.await.unwrap().unwrap();
    let now = backend.store.span(0).await.unwrap();
    let rest = backend.store.events("default", seen.last, now.last).await.unwrap();
    let rest: Vec<_> = rest.iter().map(|event| (event.number, event.kind.as_str())).collect();
    assert_eq!(rest, [(2, "first"), (3, "job.updated")]);
}

/// A change that is rolled back gives its numbers to the next.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_leaves_no_gap() {
    let backend = OnPostgres::start().await;
    let scene = Scene::begin(&backend).await;
    let first = blocker(&backend, false).await;
    let number = "UPDATE tenure_job_changes SET event_number = event_number + 5";
    first.batch_execute(number).await.unwrap();
    let (second, term) = (store(&backend.postgres, PATIENCE), scene.term.clone());
    let round = Round { jobs: vec![job("a")], ..Round::default() };
    let writing = tokio::spawn(async move { second.write(&term, &round).await });
    until_it_waits(&backend).await;
    first.batch_execute("ROLLBACK").await.unwrap();
    writing.await.unwrap().unwrap();
    let Span { first, last, .. } = backend.store.span(0).await.unwrap();
    assert_eq!((first, last), (1, 2));
}
