//! What agents report.

use serde_json::Value;
use tenure_jobs::{
    job::{JobView, State},
    round::{Grant, JobError, Reported, Round, Status, Verdict},
};

use crate::scene::{Backend, Scene, grant, job, job_in, json, lease_of, recall, success};

/// The error that a job shows.
fn said(job: &JobView) -> Option<Value> {
    job.error.as_ref().map(|error| serde_json::to_value(error).unwrap())
}

fn failure(job_id: &str, error: &str) -> Reported {
    let error = Some(JobError::Text(error.to_owned()));
    Reported { status: Status::Failed, result: None, error, ..success(job_id) }
}

/// Reports what must be refused: then nothing changes but that it is told.
async fn refuse(scene: &Scene<'_>, reported: Reported, verdict: Verdict, told: &str) {
    let (mut before, number) = (scene.everything().await, scene.last_event().await);
    assert_eq!(scene.report(reported.clone()).await, verdict, "{reported:?}");
    assert_eq!(scene.told_after(number).await, [told]);
    let mut after = scene.everything().await;
    for table in ["tenure_job_events", "tenure_job_changes"] {
        before.remove(table);
        after.remove(table);
    }
    assert_eq!(after, before, "{reported:?}");
}

pub async fn a_result_ends_its_job(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    let asked = Reported { agent: Some("ann".to_owned()), ..success("a") };
    assert_eq!(scene.report(asked).await, Verdict::Accepted);
    let ended = scene.job("a").await;
    assert_eq!((ended.state, ended.job_epoch), (State::Succeeded, 1));
    assert_eq!(ended.result.unwrap().get(), "1");
    assert!(ended.error.is_none() && ended.lease_expires_at.is_none());
    assert!(ended.completed_at.is_some());
    assert_eq!(ended.lease_id.as_deref(), Some("lease of a"), "it says under which it was done");
    assert_eq!(ended.leased_by.as_deref(), Some("ann"), "and by whom");
    let results = backend.rows("tenure_job_results").await;
    assert_eq!((results.len(), &results[0]["lease_id"]), (1, &"lease of a".into()));
    assert_eq!((&results[0]["job_epoch"], &results[0]["status"]), (&1.into(), &"succeeded".into()));
}

pub async fn a_failure_ends_its_job(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    assert_eq!(scene.report(failure("a", "no disk")).await, Verdict::Accepted);
    let ended = scene.job("a").await;
    assert_eq!((ended.state, said(&ended)), (State::Failed, Some("no disk".into())));
    assert!(ended.result.is_none());
}

pub async fn result_and_error_are_kept_byte_for_byte(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let result = "{ \"b\" : 1.00, \"a\":\t\"\\u0000\\u00e9é🦀\", \"b\": 1e400 }";
    let error = " é\n\t'quoted' \\n \u{1}🦀 ";
    scene.lease(job("a"), "ann").await;
    let both = Reported { result: Some(json(result)), ..failure("a", error) };
    assert_eq!(scene.report(both.clone()).await, Verdict::Accepted);
    let ended = scene.job("a").await;
    assert_eq!(ended.result.as_ref().unwrap().get(), result);
    assert_eq!(said(&ended), Some(error.into()));
    assert_eq!(scene.report(both).await, Verdict::Duplicate);
}

pub async fn the_same_result_again_is_a_duplicate(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let bare = Reported { result: None, ..success("c") };
    for (one, told) in [
        (success("a"), "job.result.duplicate a@1 by ann: succeeded"),
        (failure("b", "why"), "job.result.duplicate b@1 by ann: failed"),
        (bare, "job.result.duplicate c@1 by ann: succeeded"),
    ] {
        scene.lease(job(&one.job_id), "ann").await;
        assert_eq!(scene.report(one.clone()).await, Verdict::Accepted);
        refuse(&scene, one.clone(), Verdict::Duplicate, told).await;
        refuse(&scene, one, Verdict::Duplicate, told).await;
    }
    assert_eq!(backend.rows("tenure_job_results").await.len(), 3);
}

pub async fn another_result_for_a_job_that_ended_is_stale(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.end("a").await;
    let (stale, told) =
        (Verdict::StaleLease { job_epoch: 1 }, "job.result.rejected a@1 by ann: stale_lease");
    for other in [
        Reported { result: Some(json("2")), ..success("a") },
        Reported { result: Some(json("1.0")), ..success("a") },
        Reported { result: None, ..success("a") },
        Reported { error: Some(JobError::Text(String::new())), ..success("a") },
        Reported { status: Status::Failed, ..success("a") },
        Reported { lease_id: "another".to_owned(), ..success("a") },
        Reported { agent: Some("bob".to_owned()), ..success("a") },
    ] {
        // Where the namespace is named, the lease need not tell it.
        let other = Reported { namespace: Some("default".to_owned()), ..other };
        refuse(&scene, other, stale, told).await;
    }
}

pub async fn a_result_for_another_epoch_is_stale(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let (row, _) = scene.lease(job("a"), "ann").await;
    scene.recall(recall("a")).await;
    assert_eq!(scene.grant(grant("second", "bob", &[(row, 2)])).await.len(), 1);
    let (stale, told) =
        (Verdict::StaleJob { job_epoch: 2 }, "job.result.rejected a@2 by bob: stale_job");
    for job_epoch in [0, 1, 3] {
        let asked = Reported { job_epoch, lease_id: "second".to_owned(), ..success("a") };
        refuse(&scene, asked, stale, told).await;
    }
}

pub async fn a_result_under_another_lease_is_stale(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job("b"), "ann").await;
    let (stale, told) =
        (Verdict::StaleLease { job_epoch: 1 }, "job.result.rejected a@1 by ann: stale_lease");
    for lease_id in [lease_of("b"), "LEASE OF A".to_owned(), String::new()] {
        refuse(&scene, Reported { lease_id, ..success("a") }, stale, told).await;
    }
}

pub async fn a_result_of_another_agent_is_stale(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    let asked = Reported { agent: Some("bob".to_owned()), ..success("a") };
    let told = "job.result.rejected a@1 by ann: stale_lease";
    refuse(&scene, asked, Verdict::StaleLease { job_epoch: 1 }, told).await;
}

/// Whether or not anybody has taken it back yet.
pub async fn a_lease_that_is_over_by_the_databases_clock_records_nothing(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    backend.set_left("a", 0).await;
    let told = "job.result.rejected a@1 by ann: stale_lease";
    refuse(&scene, success("a"), Verdict::StaleLease { job_epoch: 1 }, told).await;
    assert_eq!(scene.job("a").await.state, State::Leased);
}

pub async fn a_job_that_is_queued_takes_no_result(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.submit([job("a")]).await;
    let told = "job.result.rejected a@1: stale_lease";
    refuse(&scene, success("a"), Verdict::StaleLease { job_epoch: 1 }, told).await;
    let named = Reported { agent: Some("ann".to_owned()), ..success("a") };
    refuse(&scene, named, Verdict::StaleLease { job_epoch: 1 }, told).await;
}

pub async fn a_result_for_a_job_that_was_handed_on_is_stale(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let (row, _) = scene.lease(job("a"), "ann").await;
    scene.recall(recall("a")).await;
    let (stale, told) = (Verdict::StaleJob { job_epoch: 2 }, "job.result.rejected a@2: stale_job");
    refuse(&scene, success("a"), stale, told).await;
    assert_eq!(scene.grant(grant("second", "bob", &[(row, 2)])).await.len(), 1);
    let told = "job.result.rejected a@2 by bob: stale_job";
    refuse(&scene, success("a"), stale, told).await;
    let second = Reported { lease_id: "second".to_owned(), job_epoch: 2, ..success("a") };
    assert_eq!(scene.report(second).await, Verdict::Accepted);
    refuse(&scene, success("a"), stale, told).await;
    let results = backend.rows("tenure_job_results").await;
    assert_eq!((results.len(), &results[0]["job_epoch"]), (1, &2.into()));
}

pub async fn a_job_that_is_not_there_is_not_found(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job_in("b", "only there"), "ann").await;
    let before = scene.everything().await;
    for asked in [
        Reported { job_id: "z".to_owned(), ..success("a") },
        Reported { job_id: "only there".to_owned(), ..success("a") },
    ] {
        assert_eq!(scene.report(asked.clone()).await, Verdict::NotFound, "{asked:?}");
    }
    assert_eq!(scene.everything().await, before, "nor is anything told");
}

pub async fn the_lease_tells_the_namespace_when_none_is_named(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    let at = scene.submit([job_in("b", "a")]).await;
    let there = Grant { namespace: "b".to_owned(), ..grant("there", "ann", &at) };
    assert_eq!(scene.grant(there).await.len(), 1);
    let asked = Reported { lease_id: "there".to_owned(), ..success("a") };
    assert_eq!(scene.report(asked).await, Verdict::Accepted);
    assert_eq!(scene.job_in("b", "a").await.state, State::Succeeded);
    assert_eq!(scene.job("a").await.state, State::Leased);
    let named = Reported { namespace: Some("default".to_owned()), ..success("a") };
    assert_eq!(scene.report(named).await, Verdict::Accepted);
    assert_eq!(scene.job("a").await.state, State::Succeeded);
}

pub async fn every_result_of_a_round_has_its_own_verdict(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    for id in ["a", "b", "c", "d"] {
        scene.lease(job(id), "ann").await;
    }
    scene.end("c").await;
    let number = scene.last_event().await;
    let results = vec![
        success("d"),
        Reported { job_id: "z".to_owned(), ..success("a") },
        Reported { job_epoch: 2, ..success("b") },
        success("c"),
        failure("a", "why"),
    ];
    let written = scene.write(Round { results, ..Round::default() }).await;
    let stale = Verdict::StaleJob { job_epoch: 1 };
    let expected =
        [Verdict::Accepted, Verdict::NotFound, stale, Verdict::Duplicate, Verdict::Accepted];
    assert_eq!(written.verdicts, expected);
    assert_eq!(
        scene.told_after(number).await,
        [
            "job.result.accepted d@1 by ann: succeeded",
            "job.completed d@1 by ann: succeeded",
            "job.result.rejected b@1 by ann: stale_job",
            "job.result.duplicate c@1 by ann: succeeded",
            "job.result.accepted a@1 by ann: failed",
            "job.completed a@1 by ann: failed",
        ]
    );
    assert_eq!(scene.job("b").await.state, State::Leased);
}

pub async fn an_error_of_any_form_is_kept_as_it_was_sent(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    for (at, text) in [r#"{"code": 7, "why": ["a" ]}"#, "[1, 2]", "17", "true"].iter().enumerate() {
        let id = at.to_string();
        scene.lease(job(&id), "ann").await;
        let error = Some(JobError::Value(json(text)));
        let failed = Reported { error, ..failure(&id, "") };
        assert_eq!(scene.report(failed.clone()).await, Verdict::Accepted);
        assert_eq!(scene.report(failed).await, Verdict::Duplicate);
        let Some(JobError::Value(kept)) = scene.job(&id).await.error else { panic!("{text}") };
        assert_eq!(kept.get(), *text);
        let other = Reported { error: Some(JobError::Value(json("0"))), ..failure(&id, "") };
        assert_eq!(scene.report(other).await, Verdict::StaleLease { job_epoch: 1 });
    }
}

/// A lease that nobody granted, or another namespace's, is stale whatever job is named.
pub async fn a_lease_that_nobody_knows_is_stale_and_not_the_job_unknown(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job_in("b", "there"), "ann").await;
    let strange = Reported { lease_id: "never granted".to_owned(), ..success("no job") };
    assert_eq!(scene.report(strange.clone()).await, Verdict::StaleLease { job_epoch: 0 });
    let named = Reported { namespace: Some("b".to_owned()), ..strange };
    assert_eq!(scene.report(named).await, Verdict::StaleLease { job_epoch: 0 });
    let foreign = Reported { namespace: Some("b".to_owned()), ..success("a") };
    assert_eq!(scene.report(foreign).await, Verdict::StaleLease { job_epoch: 0 });
    let unknown = Reported { job_id: "no job".to_owned(), ..success("a") };
    assert_eq!(scene.report(unknown).await, Verdict::NotFound);
}
