//! A leader that stops in the middle of a write, and wakes up when another leads.

use rustix::process::Signal;
use serde_json::json;
use tenure_testkit::{eventually_true, secs};

use crate::scene::{Cluster, SOON, result};

/// On Postgres its write can be held exactly between the fence and the commit.
#[tokio::test]
async fn a_leader_that_is_frozen_in_the_middle_of_a_result_commit_changes_nothing() {
    let cluster = &mut Cluster::on_postgres().await;
    let old = cluster.controllers(2).await;
    let lease = cluster.leased(old, "job", "agent").await;
    let postgres = cluster.postgres.as_ref().unwrap();
    let mut admin = postgres.connect().await.unwrap();
    // It has passed the fence, and waits for this row.
    let held = admin.transaction().await.unwrap();
    held.query("SELECT FROM tenure_job_changes FOR UPDATE", &[]).await.unwrap();
    let watcher = postgres.connect().await.unwrap();
    let cluster: &Cluster = cluster;
    let reported = cluster.post(old, "/v1/results", result(&lease, "job", 1));
    let freezes = async {
        eventually_true("the write waits", SOON, async || {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                         AND query LIKE '%tenure_job_changes FOR UPDATE%'";
            watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        cluster.freeze(old).await;
        // The other one takes over while the write is still open, and only then does the row come free.
        let next = 1 - old;
        eventually_true("the other has the lock", secs(20), async || {
            let won = "SELECT count(*) FROM msp_leader_state WHERE epoch = 2";
            watcher.query_one(won, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        held.rollback().await.unwrap();
        let (leads, epoch) = cluster.leader_after(1).await;
        assert_eq!((leads, epoch), (next, 2));
        let job = cluster.job(next, "job").await;
        assert_eq!(job["state"], "leased", "{job}");
        cluster.post(next, "/v1/results", result(&lease, "job", 1)).await.done();
        cluster.places[old].signal(Signal::CONT);
        next
    };
    let (answer, next) = futures_util::join!(reported, freezes);
    assert_ne!(answer.status, 200, "what it answers is not that it was recorded: {answer:?}");
    let job = cluster.job(next, "job").await;
    assert_eq!((&job["state"], &job["leader_epoch"]), (&json!("succeeded"), &json!(2)), "{job}");
    cluster.waits_for_role(old, "STANDBY").await;
}

on_both! {
    a_frozen_leader_wakes_up_as_a_standby_and_records_nothing
}

async fn a_frozen_leader_wakes_up_as_a_standby_and_records_nothing(cluster: &mut Cluster) {
    let old = cluster.controllers(2).await;
    let lease = cluster.leased(old, "job", "agent").await;
    cluster.freeze(old).await;
    let cluster: &Cluster = cluster;
    // It lies in the socket of the one that is frozen.
    let reported = cluster.post(old, "/v1/results", result(&lease, "job", 1));
    let thaws = async {
        let (next, _) = cluster.leader_after(1).await;
        cluster.post(next, "/v1/leases/expire", json!({"job_id": "job"})).await.done();
        cluster.places[old].signal(Signal::CONT);
        next
    };
    let (answer, next) = futures_util::join!(reported, thaws);
    assert_eq!(answer.error(), (409, "NOT_LEADER".to_owned()), "{answer:?}");
    let job = cluster.job(next, "job").await;
    assert_eq!((&job["state"], &job["job_epoch"]), (&json!("queued"), &json!(2)), "{job}");
    assert_eq!(job["result"], json!(null));
}
