//! Stopping a worker, and work that takes longer than a lease.

use rustix::process::Signal;
use tenure_testkit::{eventually_true, millis, postgres::Stop, secs};

use crate::{gateway::Gateway, scene::Scene};

#[tokio::test]
async fn a_worker_that_is_told_to_stop_records_what_it_began_and_gives_back_the_rest() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=20);
    let mut worker = scene.worker("w", &["--concurrency", "2", "--batch", "20"]);
    gateway.has_calls(2).await;
    worker.signal(Signal::TERM);
    eventually_true("the rest is given back", secs(20), async || {
        scene.count("payment_outbox_pending WHERE claimed_by IS NULL").await == 18
    })
    .await;
    gateway.let_go();
    assert_eq!(worker.code().await, Some(0));
    assert_eq!(scene.count("payment_outbox_attempts").await, 2);
    assert_eq!(scene.count("payment_outbox_attempts WHERE state = 'DISPATCHED'").await, 2);
    assert_eq!(gateway.calls().len(), 2);
    assert_eq!(scene.count("payment_outbox_pending WHERE claimed_by IS NULL").await, 18);
}

#[tokio::test]
async fn work_that_takes_longer_than_a_lease_is_still_this_workers() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=3);
    let _long = scene.worker("long", &["--lease", "2", "--concurrency", "3"]);
    gateway.has_calls(3).await;
    // Somebody who would take them.
    let _other = scene.worker("other", &["--lease", "2"]);
    let extended =
        "payment_outbox_pending WHERE lease_expires_at > claimed_at + interval '4 seconds'";
    eventually_true("they are extended", secs(20), async || scene.count(extended).await == 3).await;
    gateway.let_go();
    scene.nothing_is_pending(secs(20)).await;
    assert_eq!(gateway.calls().len(), 3);
    assert_eq!(scene.count("payment_outbox_attempts WHERE worker_id = 'long'").await, 3);
    scene.assert_each_ended_once(3).await;
}

#[tokio::test]
async fn what_cannot_be_recorded_before_the_end_is_told_and_the_end_is_no_success() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=5);
    let mut worker = scene.worker("w", &["--concurrency", "1"]);
    gateway.has_calls(1).await;
    scene.postgres.stop(Stop::Fast).await.unwrap();
    worker.signal(Signal::TERM);
    gateway.let_go();
    assert_eq!(worker.code().await, Some(1));
    let log = scene.log_of("w");
    assert!(log.contains("outbox_outcome_not_recorded") && log.contains("ref-k-1"), "{log}");
    assert!(log.contains("not everything was recorded or given back"), "{log}");
}

#[tokio::test]
async fn a_worker_outlives_its_database() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await.taking(millis(20));
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=500);
    let mut worker = scene.worker("w", &["--lease", "2"]);
    for stop in [Stop::Immediate, Stop::Fast] {
        let before = gateway.calls().len();
        gateway.has_calls(before + 20).await;
        scene.postgres.restart(stop).await.unwrap();
    }
    let admin = scene.postgres.connect().await.unwrap();
    eventually_true("nothing is pending", secs(60), async || {
        let left = "SELECT count(*) FROM payment_outbox_pending";
        admin.query_one(left, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    worker.signal(Signal::TERM);
    assert_eq!(worker.code().await, Some(0));
    Scene { admin, ..scene }.assert_each_ended_once(500).await;
}

#[tokio::test]
async fn a_second_signal_ends_a_worker_at_once() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=2);
    let mut worker = scene.worker("w", &["--concurrency", "1"]);
    gateway.has_calls(1).await;
    worker.signal(Signal::TERM);
    eventually_true("the other is given back", secs(20), async || {
        scene.count("payment_outbox_pending WHERE claimed_by IS NULL").await == 1
    })
    .await;
    worker.signal(Signal::TERM);
    assert_eq!(worker.code().await, Some(1));
}
