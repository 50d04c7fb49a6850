//! What the leader queues by, and what clients see.

use jiff::Timestamp;
use tenure_jobs::{
    job::{Filter, NewJob, State},
    round::{Grant, Reported, Round, Status},
};
use tenure_testkit::{eventually_true, secs};

use crate::scene::{
    Backend, PATIENCE, Scene, grant, heartbeat, heartbeat_in, job, job_in, json, recall, success,
};

pub async fn queued_jobs_come_by_priority_in_pages_in_the_order_of_age(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let of = |at: i16| NewJob { priority: at % 4, ..job(&format!("{at:03}")) };
    let at = scene.submit((0..100).map(of)).await;
    let pinned =
        NewJob { pinned_agent: Some("ann".to_owned()), op: "move".to_owned(), ..job_in("b", "p") };
    scene.submit([pinned]).await;
    for priority in 0..4 {
        let (mut above, mut all) = (0, Vec::new());
        loop {
            let page = scene.store().queued(priority, above, 7).await.unwrap();
            assert!(page.iter().all(|queued| queued.priority == priority));
            let Some(last) = page.last() else { break };
            assert!(page.len() == 7 || all.len() + page.len() >= 25, "pages are full");
            above = last.row;
            all.extend(page);
        }
        let rows: Vec<_> = all.iter().map(|queued| queued.row).collect();
        let expected: Vec<_> =
            at.iter().skip(priority as usize).step_by(4).map(|(row, _)| *row).collect();
        assert_eq!(rows[..25], expected, "all of them, the oldest first");
        assert_eq!(rows.len(), if priority == 1 { 26 } else { 25 });
    }
    let last = scene.store().queued(1, at[99].0, 7).await.unwrap().remove(0);
    assert_eq!((&*last.namespace, &*last.op), ("b", "move"));
    assert_eq!((last.pinned_agent.as_deref(), last.job_epoch), (Some("ann"), 1));
}

pub async fn leased_and_ended_jobs_are_not_queued(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("leased"), "ann").await;
    scene.lease(job("ended"), "ann").await;
    scene.end("ended").await;
    let (back, _) = scene.lease(job("back"), "ann").await;
    scene.recall(recall("back")).await;
    let queued = scene.store().queued(1, 0, 10).await.unwrap();
    let found: Vec<_> = queued.iter().map(|queued| (queued.row, queued.job_epoch)).collect();
    assert_eq!(found, [(back, 2)]);
}

pub async fn open_leases_are_counted(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    assert_eq!(scene.store().open_leases().await.unwrap(), 0);
    scene.submit([job("queued")]).await;
    for id in ["a", "b", "over"] {
        scene.lease(job(id), "ann").await;
    }
    backend.set_left("over", 0).await;
    scene.end("b").await;
    assert_eq!(scene.store().open_leases().await.unwrap(), 2);
    scene.reap().await;
    assert_eq!(scene.store().open_leases().await.unwrap(), 1);
}

pub async fn a_job_is_shown_with_all_that_it_has(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let before = backend.now().await;
    let payload = json("{ \"n\": 1.0 }");
    let at = scene.submit([NewJob { payload, priority: 2, ..job_in("b", "a") }]).await;
    let shown = serde_json::to_value(scene.job_in("b", "a").await).unwrap();
    let created_at: Timestamp = shown["created_at"].as_str().unwrap().parse().unwrap();
    assert!(before <= created_at && created_at <= backend.now().await);
    let epoch = scene.term.epoch().get();
    let expected = serde_json::json!({
        "job_id": "a", "namespace": "b", "op": "copy", "payload": {"n": 1.0}, "priority": 2,
        "pinned_agent": null, "state": "queued", "job_epoch": 1, "leader_epoch": epoch,
        "lease_id": null, "leased_by": null, "lease_expires_at": null, "result": null,
        "lost_leases": 0, "failures": 0, "not_before": null, "deadline_at": null, "error": null,
        "created_at": shown["created_at"], "completed_at": null,
        "duration_ms": null,
    });
    assert_eq!(shown, expected);

    scene.grant(Grant { namespace: "b".to_owned(), ..grant("lease of a", "ann", &at) }).await;
    let leased = scene.job_in("b", "a").await;
    assert_eq!((leased.duration_ms, leased.completed_at), (None, None));
    let (leased_at, patience) = (backend.now().await, PATIENCE.job_lease);
    assert!(leased.lease_expires_at.unwrap() <= leased_at + patience);
    eventually_true("a while", secs(10), async || {
        backend.now().await.duration_since(leased_at).as_millis() > 20
    })
    .await;
    scene.end("a").await;
    let ended = scene.job_in("b", "a").await;
    let took = ended.duration_ms.unwrap();
    let at_most = backend.now().await.duration_since(before).as_millis();
    assert!(took >= 20 && i128::from(took) <= at_most, "{took} ms");
    assert!(ended.completed_at.unwrap() > leased_at);
    assert_eq!(ended.created_at, created_at);
    assert!(scene.store().job("default", "a").await.unwrap().is_none());
}

pub async fn jobs_are_listed_by_each_filter_the_newest_first(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let moving = |id: &str| NewJob { op: "move".to_owned(), ..job(id) };
    scene.submit([job("a"), moving("b"), job_in("elsewhere", "x")]).await;
    scene.lease(job("c"), "ann").await;
    scene.lease(moving("d"), "bob").await;
    scene.lease(job("e"), "ann").await;
    scene.end("e").await;
    scene.lease(job("f"), "bob").await;
    let failed = Reported { status: Status::Failed, ..success("f") };
    scene.write(Round { results: vec![failed], ..Round::default() }).await;
    let since = scene.job("d").await.created_at;

    let all = || Filter {
        namespace: "default".to_owned(),
        state: None,
        agent: None,
        op: None,
        since: None,
        most: 100,
    };
    let (ann, op) = (Some("ann".to_owned()), Some("move".to_owned()));
    let leased = Some(State::Leased);
    for (filter, expected) in [
        (all(), "fedcba"),
        (Filter { most: 2, ..all() }, "fe"),
        (Filter { namespace: "elsewhere".to_owned(), ..all() }, "x"),
        (Filter { namespace: "nowhere".to_owned(), ..all() }, ""),
        (Filter { state: Some(State::Queued), ..all() }, "ba"),
        (Filter { state: leased, ..all() }, "dc"),
        (Filter { state: Some(State::Succeeded), ..all() }, "e"),
        (Filter { state: Some(State::Failed), ..all() }, "f"),
        (Filter { agent: ann.clone(), ..all() }, "ec"),
        (Filter { agent: Some("Ann".to_owned()), ..all() }, ""),
        (Filter { op: op.clone(), ..all() }, "db"),
        (Filter { since: Some(since), ..all() }, "fed"),
        (Filter { since: Some(backend.now().await), ..all() }, ""),
        (Filter { state: leased, agent: ann.clone(), ..all() }, "c"),
        (Filter { state: leased, agent: ann, op, since: Some(since), ..all() }, ""),
    ] {
        let listed = scene.store().jobs(&filter).await.unwrap();
        let ids: String = listed.iter().map(|job| job.job_id.as_str()).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    let listed = scene.store().jobs(&all()).await.unwrap();
    for one in listed {
        let alone = scene.job(&one.job_id).await;
        let shown = |view| serde_json::to_string(view).unwrap();
        assert_eq!(shown(&one), shown(&alone), "the same as alone");
    }
}

pub async fn agents_are_listed_by_namespace(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("eve"), heartbeat("Bob"), heartbeat_in("b", "ann")]).await;
    scene.hear([heartbeat("ann")]).await;
    let names = async |namespace| -> Vec<String> {
        let agents = scene.store().agents(namespace).await.unwrap();
        agents.into_iter().map(|agent| agent.name).collect()
    };
    assert_eq!(names("default").await, ["Bob", "ann", "eve"]);
    assert_eq!(names("b").await, ["ann"]);
    assert_eq!(names("nowhere").await, [""; 0]);
}
