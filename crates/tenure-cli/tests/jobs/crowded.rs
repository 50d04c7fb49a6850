//! More agents than may wait.

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
