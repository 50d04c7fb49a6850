//! Terms that are over, and the mark that each leaves on what it writes.

use serde_json::Value;
use tenure::fence::FenceError;
use tenure_jobs::{job::NewJob, round::Round, store::StoreError};

use crate::scene::{
    Backend, PATIENCE, Scene, all_that_ran_out, emptied, grant, heartbeat, job, lease_of, named,
    recall, strays, success,
};

/// A round for each kind of request, all of which have something to change.
async fn rounds(scene: &Scene<'_>) -> Vec<(&'static str, Round)> {
    scene.hear([heartbeat("ann"), heartbeat("silent")]).await;
    for id in ["a", "b", "over"] {
        scene.lease(job(id), "ann").await;
    }
    scene.lease(job("lost"), "eve").await;
    let at = scene.submit([job("queued")]).await;
    scene.backend.set_left("over", 0).await;
    scene.backend.set_silence("silent", PATIENCE.stale_after.as_millis() as i64).await;
    let none = Round::default;
    vec![
        ("heartbeats", Round { heartbeats: vec![heartbeat("ann")], ..none() }),
        ("results", Round { results: vec![success("a")], ..none() }),
        ("recalls", Round { recalls: vec![recall("b")], ..none() }),
        ("strays", Round { reaping: strays(&["lease of lost"]), ..none() }),
        ("burials", Round { burials: vec![named("ann"), named("eve")], ..none() }),
        ("emptied", Round { reaping: emptied(&named("ann")), ..none() }),
        ("reaping", Round { reaping: all_that_ran_out(), ..none() }),
        ("jobs", Round { jobs: vec![job("new")], ..none() }),
        ("grants", Round { grants: vec![grant("l", "bob", &at)], ..none() }),
    ]
}

fn is_refused<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fence(FenceError::Refused { .. })))
}

pub async fn a_term_that_is_over_changes_nothing(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    let rounds = rounds(&scene).await;
    let old = scene.term.clone();
    scene.next_term().await;
    let before = scene.everything().await;
    for (kind, round) in &rounds {
        let answer = scene.store().write(&old, round).await;
        assert!(is_refused(&answer), "{kind}: {answer:?}");
        assert_eq!(scene.everything().await, before, "{kind}");
    }
    for (kind, round) in rounds {
        let before = scene.everything().await;
        scene.write(round).await;
        assert_ne!(scene.everything().await, before, "{kind} has something to change");
    }
}

pub async fn a_term_that_is_over_does_not_take_over(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    rounds(&scene).await;
    let missed = scene.next_term().await;
    let old = scene.term.clone();
    scene.next_term().await;
    let before = scene.everything().await;
    let url = Some("http://old");
    let answer = scene.store().take_over(&old, url).await;
    assert!(is_refused(&answer), "{answer:?}");
    assert_eq!(scene.everything().await, before);
    scene.take_over(url).await;
    let leaders = backend.rows("tenure_job_leaders").await;
    assert!(leaders.iter().all(|leader| leader["leader_epoch"] != missed), "{leaders:?}");
}

/// What a row of a table is stamped with.
async fn stamp(scene: &Scene<'_>, table: &str, (column, value): (&str, &str)) -> i64 {
    let rows = scene.backend.rows(table).await;
    let row = rows.iter().find(|row| row[column] == value);
    row.and_then(|row| row["leader_epoch"].as_i64()).unwrap()
}

/// Each step is another term's, so that no stamp can be an older one's.
pub async fn every_change_is_stamped_with_its_term(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    let leaders = backend.rows("tenure_job_leaders").await;
    assert_eq!(leaders[0]["leader_epoch"], scene.term.epoch().get());
    let (jobs, agents) = ("tenure_jobs", "tenure_job_agents");
    let named_job = |id| ("job_id", id);
    let named_agent = |name| ("name", name);

    let epoch = scene.next_term().await;
    let at = scene.submit(["a", "b", "c", "d", "waits"].map(job)).await;
    assert_eq!(stamp(&scene, jobs, named_job("a")).await, epoch, "submit");
    assert_eq!(scene.job("a").await.leader_epoch, epoch);

    let granted = scene.next_term().await;
    for (id, at) in ["a", "b", "c", "d"].iter().zip(&at) {
        scene.grant(grant(&lease_of(id), "ann", &[*at])).await;
    }
    assert_eq!(stamp(&scene, jobs, named_job("a")).await, granted, "grant");
    let lease = ("lease_id", "lease of a");
    assert_eq!(stamp(&scene, "tenure_job_leases", lease).await, granted, "grant");

    let heard = scene.next_term().await;
    backend.set_left("a", 30_000).await;
    scene.hear(["ann", "bob", "eve"].map(heartbeat)).await;
    assert_eq!(stamp(&scene, jobs, named_job("a")).await, heard, "hear");
    assert_eq!(stamp(&scene, jobs, named_job("b")).await, granted, "it was not extended");
    assert_eq!(stamp(&scene, agents, named_agent("ann")).await, heard, "hear");
    assert_eq!(scene.agent("ann").await.leader_epoch, heard);

    let recorded = scene.next_term().await;
    scene.end("a").await;
    assert_eq!(stamp(&scene, jobs, named_job("a")).await, recorded, "record");
    let result = ("lease_id", "lease of a");
    assert_eq!(stamp(&scene, "tenure_job_results", result).await, recorded, "record");

    let recalled = scene.next_term().await;
    scene.recall(recall("b")).await;
    assert_eq!(stamp(&scene, jobs, named_job("b")).await, recalled, "recall");

    let reaped = scene.next_term().await;
    backend.set_left("c", 0).await;
    backend.set_silence("bob", PATIENCE.stale_after.as_millis() as i64).await;
    backend.set_silence("eve", PATIENCE.tombstone_after.as_millis() as i64).await;
    scene.reap().await;
    assert_eq!(stamp(&scene, jobs, named_job("c")).await, reaped, "reap");
    assert_eq!(stamp(&scene, agents, named_agent("bob")).await, reaped, "stale");
    assert_eq!(stamp(&scene, agents, named_agent("eve")).await, reaped, "tombstone");
    assert_eq!(stamp(&scene, agents, named_agent("ann")).await, heard, "it has not aged");

    let led = scene.next_term().await;
    scene.take_over(None).await;
    assert_eq!(stamp(&scene, jobs, named_job("d")).await, granted, "it is not touched");
    assert_eq!(stamp(&scene, agents, named_agent("ann")).await, heard, "it is not touched");

    let buried = scene.next_term().await;
    scene.bury(named("ann")).await;
    assert_eq!(stamp(&scene, jobs, named_job("d")).await, buried, "bury");
    assert_eq!(stamp(&scene, agents, named_agent("ann")).await, buried, "bury");
    assert_eq!(stamp(&scene, jobs, named_job("waits")).await, epoch, "it never changed");

    let forgot = scene.next_term().await;
    backend.set_silence("eve", PATIENCE.forget_after.as_millis() as i64).await;
    scene.reap().await;
    assert_eq!(
        stamps_of_events(&backend.rows("tenure_job_events").await),
        [
            (1, "role.changed", 1),
            (epoch, "job.updated", 5),
            (granted, "job.leased", 4),
            (recorded, "job.result.accepted", 1),
            (recorded, "job.completed", 1),
            (recalled, "job.expired", 1),
            (reaped, "job.expired", 1),
            (reaped, "agent.stale", 1),
            (reaped, "agent_tombstoned", 1),
            (led, "role.changed", 1),
            (buried, "agent_tombstoned", 1),
            (buried, "job.expired", 1),
            (forgot, "agent_deleted", 1),
        ]
    );
}

/// Which terms told what, and how often in a row.
fn stamps_of_events(events: &[Value]) -> Vec<(i64, &str, usize)> {
    let of = |event: &'_ Value| event["leader_epoch"].as_i64().unwrap();
    let mut stamps: Vec<(i64, &str, usize)> = Vec::new();
    for event in events {
        let (epoch, kind) = (of(event), event["kind"].as_str().unwrap());
        match stamps.last_mut() {
            Some(last) if (last.0, last.1) == (epoch, kind) => last.2 += 1,
            _ => stamps.push((epoch, kind, 1)),
        }
    }
    stamps
}

/// Its last statement is refused by the database: what came before it is undone, numbers of events too.
pub async fn a_round_that_fails_changes_nothing(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let rounds = rounds(&scene).await;
    let before = scene.everything().await;
    let mut all = Round { jobs: vec![NewJob { priority: 9, ..job("wrong") }], ..Round::default() };
    for (_, round) in rounds {
        all.heartbeats.extend(round.heartbeats);
        all.results.extend(round.results);
        all.recalls.extend(round.recalls);
        all.burials.extend(round.burials);
        all.reaping = all.reaping.or(round.reaping);
    }
    let answer = scene.store().write(&scene.term, &all).await;
    assert!(answer.is_err() && !is_refused(&answer), "{answer:?}");
    assert_eq!(scene.everything().await, before);
    all.jobs = vec![job("right")];
    scene.write(all).await;
    assert_ne!(scene.everything().await, before);
}
