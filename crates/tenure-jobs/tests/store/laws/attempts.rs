//! How often a job is tried, and until when.

use std::time::Duration;

use tenure_jobs::{
    agent::Heartbeat,
    job::{Limits, NewJob, State},
    round::{Grant, JobError, Reported, Status, Verdict},
};
use tenure_testkit::{millis, secs};

use crate::scene::{Backend, PATIENCE, Scene, grant, heartbeat, job, lease_of, recall, success};

fn limited(job_id: &str, limits: Limits) -> NewJob {
    NewJob { limits, ..job(job_id) }
}

fn told(job_id: &str, job_epoch: i64, lease_id: &str, status: Status) -> Reported {
    Reported { job_epoch, lease_id: lease_id.to_owned(), status, result: None, ..success(job_id) }
}

pub async fn a_job_that_is_given_back_is_queued_under_the_next_epoch_and_never_counts(
    backend: &dyn Backend,
) {
    let scene = Scene::begin(backend).await;
    let limits = Limits { lost_leases: Some(1), failures: Some(1), ..Limits::default() };
    let (row, _) = scene.lease(limited("a", limits), "ann").await;
    let number = scene.last_event().await;
    let back = told("a", 1, &lease_of("a"), Status::GivenBack);
    let results = vec![back.clone()];
    let written = scene.write(tenure_jobs::round::Round { results, ..Default::default() }).await;
    assert_eq!(written.verdicts, [Verdict::Accepted]);
    assert_eq!(
        written.queued.iter().map(|one| (one.row, one.job_epoch)).collect::<Vec<_>>(),
        [(row, 2)]
    );
    assert_eq!(
        scene.told_after(number).await,
        ["job.result.accepted a@1 by ann: given_back", "job.updated a@2 by ann: queued"]
    );
    let shown = scene.job("a").await;
    assert_eq!((shown.state, shown.job_epoch, shown.lease_id), (State::Queued, 2, None));
    assert_eq!((shown.lost_leases, shown.failures), (0, 0));
    assert_eq!(scene.report(back).await, Verdict::Duplicate, "who says so again is not wrong");
    let late = told("a", 1, &lease_of("a"), Status::Succeeded);
    assert_eq!(scene.report(late).await, Verdict::StaleJob { job_epoch: 2 });
    assert_eq!(scene.grant(grant("next", "bob", &[(row, 2)])).await.len(), 1);
}

pub async fn so_many_lost_leases_end_a_job_and_what_was_recalled_does_not_count(
    backend: &dyn Backend,
) {
    let scene = Scene::begin(backend).await;
    let limits = Limits { lost_leases: Some(2), ..Limits::default() };
    let (row, _) = scene.lease(limited("a", limits), "ann").await;
    scene.recall(recall("a")).await;
    scene.grant(grant("second", "ann", &[(row, 2)])).await;
    backend.set_left("a", 0).await;
    assert_eq!(scene.reap().await.queued.len(), 1);
    assert_eq!(scene.job("a").await.lost_leases, 1);
    scene.grant(grant("third", "bob", &[(row, 3)])).await;
    backend.set_left("a", 0).await;
    let number = scene.last_event().await;
    let written = scene.reap().await;
    assert_eq!((written.queued.len(), written.reaped.run_out), (0, 1));
    assert_eq!(
        scene.told_after(number).await,
        ["job.expired a@4 by bob: lease expired", "job.completed a@4 by bob: failed"]
    );
    let ended = scene.job("a").await;
    assert_eq!((ended.state, ended.lost_leases), (State::Failed, 2));
    assert_eq!(ended.lease_id.as_deref(), Some("third"), "who had it last");
    let Some(JobError::Text(why)) = ended.error else { panic!("{:?}", ended.error) };
    assert_eq!(why, "lease expired, for the 2. time");
    let late = told("a", 3, "third", Status::Succeeded);
    assert_eq!(scene.report(late).await, Verdict::StaleJob { job_epoch: 4 });
}

pub async fn a_failure_is_tried_again_after_a_pause_that_doubles(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let retry_after = Some(secs(100));
    let limits = Limits { failures: Some(3), retry_after, ..Limits::default() };
    let (row, _) = scene.lease(limited("a", limits), "ann").await;
    for (epoch, pause) in [(1, secs(100)), (2, secs(200))] {
        let lease = if epoch == 1 { lease_of("a") } else { format!("again {epoch}") };
        let failed = told("a", epoch, &lease, Status::Failed);
        assert_eq!(scene.report(failed.clone()).await, Verdict::Accepted);
        assert_eq!(scene.report(failed).await, Verdict::Duplicate);
        let shown = scene.job("a").await;
        assert_eq!((shown.state, i64::from(shown.failures)), (State::Queued, epoch));
        let left: Duration =
            shown.not_before.unwrap().duration_since(backend.now().await).try_into().unwrap();
        assert!(left <= pause && left > pause * 9 / 10, "{left:?}");
        assert!(!scene.has_run_out().await, "it waits");
        assert!(scene.store().queued(1, 0, 10).await.unwrap().is_empty());
        backend.set_pause("a", 0).await;
        assert!(scene.has_run_out().await);
        let woken = scene.reap().await.queued;
        assert_eq!((woken[0].row, woken[0].job_epoch), (row, epoch + 1));
        assert_eq!(scene.store().queued(1, 0, 10).await.unwrap(), woken);
        scene.grant(grant(&format!("again {}", epoch + 1), "ann", &[(row, epoch + 1)])).await;
    }
    let last = told("a", 3, "again 3", Status::Failed);
    assert_eq!(scene.report(last).await, Verdict::Accepted);
    assert_eq!(scene.job("a").await.state, State::Failed);
}

pub async fn a_deadline_ends_a_job_whether_or_not_somebody_has_it(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let limits = Limits { deadline: Some(secs(1_000)), ..Limits::default() };
    let at = scene.submit([limited("waits", limits), limited("late", limits)]).await;
    scene.lease(limited("runs", limits), "ann").await;
    assert!(!scene.has_run_out().await);
    for id in ["waits", "late", "runs"] {
        backend.set_deadline(id, 0).await;
    }
    assert!(scene.has_run_out().await);
    assert!(scene.grant(grant("too late", "ann", &at)).await.is_empty(), "it is not begun");
    let number = scene.last_event().await;
    assert_eq!(scene.reap().await.queued, []);
    assert_eq!(scene.told_after(number).await.len(), 6);
    for id in ["waits", "late", "runs"] {
        let ended = scene.job(id).await;
        assert_eq!(ended.state, State::Failed);
        let Some(JobError::Text(why)) = ended.error else { panic!("{:?}", ended.error) };
        assert_eq!(why, "deadline passed");
    }
    assert_eq!(scene.job("waits").await.lease_id, None, "nobody had it");
    assert!(!scene.has_run_out().await);
    assert_eq!(scene.report(success("runs")).await, Verdict::StaleJob { job_epoch: 2 });
}

pub async fn a_run_lasts_no_longer_than_it_may_whatever_is_heard(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let limits = Limits { run: Some(secs(100)), ..Limits::default() };
    scene.lease(limited("a", limits), "ann").await;
    assert!(scene.left("a").await <= secs(100));
    let names = Heartbeat { leases: Some(vec![lease_of("a")]), ..heartbeat("ann") };
    for heartbeat in [names, heartbeat("ann")] {
        assert_eq!(scene.hear([heartbeat]).await.extended, 0, "it has all that it may");
    }
    backend.set_left("a", 1_000).await;
    scene.hear([heartbeat("ann")]).await;
    assert!(scene.left("a").await <= secs(100));
    backend.set_leased("a", 100_000).await;
    backend.set_left("a", 0).await;
    let number = scene.last_event().await;
    scene.reap().await;
    assert_eq!(scene.told_after(number).await, ["job.expired a@2 by ann: run timed out"]);
}

/// Whoever does not say what it works on may have forgotten it: it comes back in the end.
pub async fn who_names_no_leases_has_them_for_ten_at_most(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job("named"), "bob").await;
    let lease = PATIENCE.job_lease.as_millis() as i64;
    let bob = Heartbeat { leases: Some(vec![lease_of("named")]), ..heartbeat("bob") };
    for (age, extends) in [(lease * 9, true), (lease * 95 / 10, true), (lease * 10, false)] {
        for id in ["a", "named"] {
            backend.set_leased(id, age).await;
            backend.set_left(id, 1_000).await;
        }
        let written = scene.hear([heartbeat("ann"), bob.clone()]).await;
        assert_eq!(written.extended, 1 + usize::from(extends), "after {age} ms");
        assert!(scene.left("named").await > PATIENCE.job_lease / 2, "who names it keeps it");
        let left = scene.left("a").await;
        assert!(left <= millis(u64::try_from(lease * 10 - age).unwrap().max(1_000)), "{left:?}");
    }
}

pub async fn a_lease_lasts_as_long_as_was_asked_for(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.submit([job("a")]).await;
    let asked = Grant { lasts: Some(secs(1_000)), ..grant("long", "ann", &at) };
    assert_eq!(scene.grant(asked).await.len(), 1);
    assert!(scene.left("a").await > secs(900));
    backend.set_left("a", 100_000).await;
    let names = Heartbeat { leases: Some(vec!["long".to_owned()]), ..heartbeat("ann") };
    assert_eq!(scene.hear([names]).await.extended, 1);
    assert!(scene.left("a").await > secs(900), "and is extended by as much");
}

pub async fn a_heartbeat_hears_which_of_its_leases_are_gone(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    for id in ["kept", "ended", "recalled", "over"] {
        scene.lease(job(id), "ann").await;
    }
    scene.lease(job("bobs"), "bob").await;
    scene.end("ended").await;
    scene.recall(recall("recalled")).await;
    backend.set_left("over", 0).await;
    let all = ["kept", "ended", "recalled", "over", "bobs", "unknown"];
    let leases = Some(all.map(lease_of).to_vec());
    let mut gone =
        scene.hear([heartbeat("eve"), Heartbeat { leases, ..heartbeat("ann") }]).await.gone;
    gone.iter_mut().for_each(|gone| gone.sort());
    let mut expected = ["ended", "recalled", "over", "bobs", "unknown"].map(lease_of).to_vec();
    expected.sort();
    assert_eq!(gone, [vec![], expected]);
}
