//! Eight workers, killed and paused at random, until everything is done.

use axum::http::StatusCode;
use fastrand::Rng;
use rustix::process::Signal;
use serde_json::json;
use tenure_database::BootInstant;
use tenure_testkit::millis;

use crate::{
    gateway::Gateway,
    scene::{Scene, line},
};

const WORKERS: usize = 8;
const PARTICIPANTS: usize = 50;
const OPTIONS: [&str; 6] = ["--lease", "2", "--concurrency", "20", "--batch", "50"];

fn rows() -> usize {
    match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => 50_000,
        None => 4_000,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instruction_ends_once_though_workers_are_killed_and_paused_timing() {
    let seed = std::env::var("TENURE_OUTBOX_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let rows = rows();
    println!("TENURE_OUTBOX_SEED={seed}, {rows} rows (50,000 with TENURE_TEST_FULL=1)");
    let mut random = Rng::with_seed(seed);
    let scene = Scene::new().await;
    // One of twenty is busy at first, and one of a hundred refuses.
    let gateway = Gateway::answering(|call| match call.body["amount"].as_u64().unwrap() % 100 {
        7 => (StatusCode::BAD_REQUEST, json!({})),
        n if n % 20 == 0 && call.attempt == 1 => (StatusCode::SERVICE_UNAVAILABLE, json!({})),
        _ => (StatusCode::OK, json!({})),
    })
    .await
    .taking(millis(100));
    scene.http_rail(&gateway.url);
    let lines = (1..=rows).map(|n| line(&format!("bank-{}", n % PARTICIPANTS), n) + "\n");
    std::fs::write(scene.folder.path().join("in.jsonl"), lines.collect::<String>()).unwrap();
    assert!(scene.run(&["enqueue", "--file", "in.jsonl"]).status.success());

    let mut workers: Vec<_> =
        (0..WORKERS).map(|n| scene.worker(&format!("w{n}"), &OPTIONS)).collect();
    let mut asleep: [Option<BootInstant>; WORKERS] = [None; WORKERS];
    let (mut killed, mut paused) = (0, 0);
    while scene.count("payment_outbox_pending").await > 0 {
        assert!(killed + paused < 5_000, "it does not come to an end");
        let whom = random.usize(..WORKERS);
        if random.bool() {
            workers[whom] = scene.worker(&format!("w{whom}-{killed}"), &OPTIONS);
            asleep[whom] = None;
            killed += 1;
        } else if asleep[whom].is_none() {
            workers[whom].signal(Signal::STOP);
            asleep[whom] = Some(BootInstant::now() + millis(random.u64(100..4_000)));
            paused += 1;
        }
        // When a fault strikes is drawn at random.
        tokio::time::sleep(millis(random.u64(..200))).await;
        for (worker, until) in workers.iter().zip(&mut asleep) {
            if until.take_if(|until| BootInstant::now() > *until).is_some() {
                worker.signal(Signal::CONT);
            }
        }
    }
    drop(workers);
    let calls = gateway.calls();
    let repeats = gateway.calls_by_key().values().filter(|calls| **calls > 1).count();
    let lost = scene.count("payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'").await;
    println!(
        "{killed} killed, {paused} paused, {lost} attempts lost; {} calls, {repeats} keys more than once",
        calls.len()
    );
    assert!(killed + paused > 5 && lost > 0, "nothing happened to anybody");
    scene.assert_each_ended_once(rows.try_into().unwrap()).await;
    let failed = scene.count("payment_outbox_attempts WHERE state = 'FAILED'").await;
    assert_eq!(failed as usize, (1..=rows).filter(|n| n % 100 == 7).count());
    assert_eq!(gateway.calls_by_key().len(), rows, "every key reached the rail, and no other");
}
