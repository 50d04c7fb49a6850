//! More agents than may wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tenure_testkit::eventually_true;

use crate::scene::{Cluster, SOON};

on_both! {
    whoever_comes_when_enough_wait_is_told_to_come_again
}

async fn whoever_comes_when_enough_wait_is_told_to_come_again(cluster: &mut Cluster) {
    cluster.argue("--most-waiting 2");
    let leader = cluster.controllers(1).await;
    let cluster: &Cluster = cluster;
    let poll = |agent: &str, timeout_ms: u32| {
        let asked = json!({"agent": agent, "timeout_ms": timeout_ms});
        cluster.post(leader, "/v1/leases", asked)
    };
    let crowd = async {
        eventually_true("two wait", SOON, async || {
            let metrics = cluster.get(leader, "/metrics").await.text;
            metrics.lines().any(|line| line == "tenure_jobs_polls_waiting 2")
        })
        .await;
        let refused = poll("third", 60_000).await;
        assert_eq!(refused.error(), (503, "UNAVAILABLE".to_owned()), "{refused:?}");
        assert_eq!(refused.headers["retry-after"], "1");
        assert_eq!(poll("fourth", 0).await.status, 204, "whoever does not wait is not in the way");
        cluster.submit(leader, "one", "echo", json!(1)).await.done();
        cluster.submit(leader, "two", "echo", json!(2)).await.done();
    };
    let (first, second, ()) =
        futures_util::join!(poll("first", 60_000), poll("second", 60_000), crowd);
    let mut jobs = [first, second].map(|leased| leased.done()["tasks"][0]["job_id"].to_string());
    jobs.sort();
    assert_eq!(jobs, ["\"one\"", "\"two\""]);
    // There is room again.
    assert_eq!(poll("third", 1).await.status, 204);
}

/// Whatever there is to take back comes back in rounds that each are written in time.
#[tokio::test(flavor = "multi_thread")]
async fn leases_that_run_out_all_at_once_keep_nobody_from_being_served() {
    const MANY: i64 = 64_000;
    let mut cluster = Cluster::on_postgres().await;
    cluster.argue("--takeover-window 1s");
    let leader = cluster.controllers(1).await;
    let client = cluster.postgres.as_ref().unwrap().connect().await.unwrap();
    let fill = format!(
        "INSERT INTO tenure_jobs (namespace, job_id, op, payload, content_hash, priority, state, leader_epoch,
             lease_id, leased_by, leased_at, lease_expires_at, created_at)
         SELECT 'default', 'lost ' || n, 'lost', '1', sha256('1'), 0, 'leased', 1, 'lease ' || n, 'gone',
             clock_timestamp(), clock_timestamp(), clock_timestamp()
         FROM generate_series(1, {MANY}) AS n"
    );
    client.batch_execute(&fill).await.unwrap();
    let left = async || {
        let query =
            "SELECT count(*) FROM tenure_jobs WHERE state = 'leased' AND leased_by = 'gone'";
        client.query_one(query, &[]).await.unwrap().get::<_, i64>(0)
    };
    let served = AtomicUsize::new(0);
    eventually_true("all are queued again", SOON, async || {
        let id = format!("between {}", served.fetch_add(1, Ordering::Relaxed));
        cluster.leased(leader, &id, "me").await;
        left().await == 0
    })
    .await;
    assert!(served.into_inner() > 1, "others were served meanwhile");
    let metrics = cluster.get(leader, "/metrics").await.text;
    assert!(metrics.lines().any(|line| line == "tenure_jobs_rounds_failed_total 0"), "{metrics}");
    let again = client.query_one("SELECT count(*) FROM tenure_jobs WHERE job_epoch = 2", &[]).await;
    assert_eq!(again.unwrap().get::<_, i64>(0), MANY);
}
