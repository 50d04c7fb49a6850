//! Workers that are killed or paused in the middle of their work.

use rustix::process::Signal;
use tenure_testkit::{eventually_true, secs};

use crate::{gateway::Gateway, scene::Scene};

#[tokio::test]
async fn the_rows_of_a_killed_worker_are_run_again_and_its_lost_attempts_are_on_record() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=3);
    let mut killed = scene.worker("killed", &["--lease", "2"]);
    gateway.has_calls(3).await;
    killed.signal(Signal::KILL);
    killed.code().await;
    gateway.let_go();
    let _other = scene.worker("other", &["--lease", "2"]);
    scene.nothing_is_pending(secs(30)).await;
    for instruction in ["i-1", "i-2", "i-3"] {
        assert_eq!(scene.attempts_of(instruction).await, ["ZOMBIE_REQUEUE", "DISPATCHED"]);
    }
    // Sent again, under the same keys.
    assert!(gateway.calls_by_key().values().all(|calls| *calls == 2));
}

#[tokio::test]
async fn a_row_that_kills_its_workers_ends_failed_at_the_ceiling() {
    let scene = Scene::new().await;
    let low = "ALTER DATABASE postgres SET symphony.outbox_retry_ceiling = 3";
    scene.admin.batch_execute(low).await.unwrap();
    // The rail ends its worker.
    scene.rails("type = 'command'\ncommand = ['sh', '-c', 'kill -9 $PPID']");
    scene.enqueue("bank-a", 1..=1);
    for round in 1..=3 {
        let mut worker = scene.worker("w", &["--lease", "1"]);
        eventually_true("it has killed its worker", secs(20), async || {
            scene.count("payment_outbox_attempts").await >= round
                || scene.count("payment_outbox_pending WHERE claimed_by IS NOT NULL").await == 1
        })
        .await;
        if round < 3 || scene.count("payment_outbox_pending").await > 0 {
            worker.code().await;
        }
    }
    let _last = scene.worker("last", &["--lease", "1"]);
    scene.nothing_is_pending(secs(20)).await;
    assert_eq!(scene.attempts_of("i-1").await, ["ZOMBIE_REQUEUE", "ZOMBIE_REQUEUE", "FAILED"]);
    let failed = "payment_outbox_attempts WHERE error_code = 'RETRY_CEILING_EXCEEDED'";
    assert_eq!(scene.count(failed).await, 1);
}

#[tokio::test]
async fn a_paused_worker_does_not_dispatch_what_it_had_claimed_before() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=10);
    let paused = scene.worker("paused", &["--lease", "2", "--concurrency", "1", "--batch", "10"]);
    gateway.has_calls(1).await;
    eventually_true("the others wait in its hands", secs(20), async || {
        scene.count("payment_outbox_pending WHERE claimed_by = 'paused'").await == 10
    })
    .await;
    paused.pause();
    gateway.let_go();
    let _other = scene.worker("other", &["--lease", "2"]);
    scene.nothing_is_pending(secs(30)).await;
    scene.assert_each_ended_once(10).await;
    let before = gateway.calls().len();

    paused.signal(Signal::CONT);
    eventually_true("it finds its claims lost", secs(20), async || {
        scene.log_of("paused").matches("outbox_claim_lost_before_dispatch").count() == 9
    })
    .await;
    assert_eq!(gateway.calls().len(), before, "nothing was called after the pause");
    // What it had begun before the pause was answered too late: refused, and told.
    eventually_true("the late outcome is told", secs(20), async || {
        scene.log_of("paused").contains("outbox_outcome_not_recorded")
    })
    .await;
    assert!(gateway.calls_by_key().values().all(|calls| *calls <= 2));
    scene.assert_each_ended_once(10).await;
}
