//! The worker of the docs, in plain Python.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use tenure_testkit::secs;

use crate::scene::{Scene, Worker};

#[tokio::test]
async fn a_worker_in_plain_python_works_beside_ours() {
    let scene = Scene::new().await;
    let login = "CREATE ROLE payments_worker LOGIN IN ROLE symphony_executor";
    scene.admin.batch_execute(login).await.unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/outbox/worker.py");
    let mut python = Worker(
        Command::new("/usr/bin/python3")
            .arg(program)
            .arg(scene.postgres.url_as("payments_worker", "postgres"))
            .env("OUTBOX_WORKER_ID", "python")
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    scene.enqueue("bank-a", 1..=100);
    scene.nothing_is_pending(secs(30)).await;
    scene.assert_each_ended_once(100).await;
    assert_eq!(scene.count("payment_outbox_attempts WHERE worker_id = 'python'").await, 100);

    scene.rails("type = 'noop'");
    let _ours = scene.worker("ours", &[]);
    scene.enqueue("bank-b", 101..=2100);
    scene.nothing_is_pending(secs(30)).await;
    scene.assert_each_ended_once(2100).await;

    let without =
        "SELECT * FROM enqueue_payment_outbox('i-x', 'bank-a', 'k-x', 'card', '{\"no\": 1}')";
    drop(_ours);
    scene.admin.query(without, &[]).await.unwrap();
    scene.nothing_is_pending(secs(30)).await;
    assert_eq!(scene.attempts_of("i-x").await, ["FAILED"]);
    python.signal(Signal::TERM);
    assert_eq!(python.code().await, Some(0));
}
