//! The five tests that define "done", by their names.

use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use crate::{
    scene::{Cluster, result},
    standby::MUTATING,
};

on_both! {
    standby_rejects_mutating_endpoints_with_409_not_leader
    only_one_node_can_hold_leader_lock_at_a_time
    leader_epoch_increments_on_leadership_acquisition
    old_leader_cannot_commit_results_after_losing_leadership_stale_epoch
    job_epoch_rejects_stale_work_stale_epoch
}

async fn standby_rejects_mutating_endpoints_with_409_not_leader(cluster: &mut Cluster) {
    let leader = cluster.controllers(2).await;
    let standby = 1 - leader;
    for (method, path) in MUTATING {
        let url = format!("{}{path}", cluster.places[standby].url);
        let method: Method = method.parse().unwrap();
        let answer = cluster.send(method, &url, Some(json!({}))).await.unwrap();
        assert_eq!(answer.error(), (409, "NOT_LEADER".to_owned()), "{path}: {answer:?}");
        let body = answer.json();
        assert_eq!(body["leader_id"], cluster.places[leader].name, "{path}");
        assert_eq!(body["leader_url"], cluster.places[leader].url, "{path}");
        assert_eq!(body["node_id"], cluster.places[standby].name, "{path}");
        assert_eq!(
            (&body["role"], &body["leader_epoch"]),
            (&json!("STANDBY"), &json!(1)),
            "{path}"
        );
    }
}

async fn only_one_node_can_hold_leader_lock_at_a_time(cluster: &mut Cluster) {
    let leader = cluster.controllers(3).await;
    let (mut epochs, mut leader) = (vec![1], leader);
    for _ in 0..2 {
        for at in (0..3).filter(|at| *at != leader) {
            assert_eq!(cluster.role_of(at).await, "STANDBY");
        }
        cluster.places[leader].kill();
        let (next, epoch) = cluster.leader_after(epochs[epochs.len() - 1]).await;
        cluster.start_controller(leader);
        cluster.waits_for_role(leader, "STANDBY").await;
        epochs.push(epoch);
        leader = next;
    }
    // No two nodes ever led in one term: each has one row, and the row one name.
    assert_eq!(epochs, [1, 2, 3]);
}

async fn leader_epoch_increments_on_leadership_acquisition(cluster: &mut Cluster) {
    let mut leader = cluster.controllers(2).await;
    for epoch in 1..=3 {
        let role = cluster.role(leader).await.unwrap();
        assert_eq!(role["leader_epoch"], epoch);
        let health = cluster.get(leader, "/healthz").await.done();
        assert_eq!(health["leader_epoch"], epoch);
        let job_id = format!("in-term-{epoch}");
        cluster.submit(leader, &job_id, "echo", json!(null)).await.done();
        assert_eq!(cluster.job(leader, &job_id).await["leader_epoch"], epoch);
        cluster.places[leader].signal(Signal::TERM);
        assert_eq!(cluster.places[leader].code().await, Some(0));
        let (next, led) = cluster.leader_after(epoch).await;
        assert_eq!(led, epoch + 1);
        cluster.start_controller(leader);
        cluster.waits_for_role(leader, "STANDBY").await;
        leader = next;
    }
}

async fn old_leader_cannot_commit_results_after_losing_leadership_stale_epoch(
    cluster: &mut Cluster,
) {
    let leader = cluster.controllers(2).await;
    let lease = cluster.leased(leader, "job", "an-agent").await;
    // Its gate is still open when the fence has moved on, as behind a server that ended its session.
    let burnt = cluster.tenure(&["scope", "burn-epochs", "--scope", "controller", "--by", "1"]);
    assert!(burnt.status.success(), "{burnt:?}");
    let refused = cluster.post(leader, "/v1/results", result(&lease, "job", 1)).await;
    assert_eq!(refused.stale(), "leader", "{refused:?}");
    assert_eq!(refused.json()["alias"], "STALE_LEASE");
    let again = cluster.post(leader, "/v1/results", result(&lease, "job", 1)).await;
    assert_ne!(again.status, 200, "it may lead again, but not in that term: {again:?}");
    // The work is not lost: whoever leads next takes it, if the term is not named or is the right one.
    let (next, epoch) = cluster.leader_after(1).await;
    assert!(epoch > 2, "the epoch that was burnt is nobody's: {epoch}");
    let mut named = result(&lease, "job", 1);
    named["leader_epoch"] = json!(1);
    assert_eq!(cluster.post(next, "/v1/results", named.clone()).await.stale(), "leader");
    assert_eq!(cluster.job(next, "job").await["state"], "leased");
    named["leader_epoch"] = json!(epoch);
    cluster.post(next, "/v1/results", named).await.done();
    let job = cluster.job(next, "job").await;
    assert_eq!((&job["state"], &job["leader_epoch"]), (&json!("succeeded"), &json!(epoch)));
}

async fn job_epoch_rejects_stale_work_stale_epoch(cluster: &mut Cluster) {
    let leader = cluster.controllers(1).await;
    let old = cluster.leased(leader, "job", "slow").await;
    let expired = json!({"job_id": "job", "reason": "too slow"});
    let expired = cluster.post(leader, "/v1/leases/expire", expired).await.done();
    assert_eq!(expired, json!({"ok": true, "expired": true, "job_epoch": 2}));
    let refused = cluster.post(leader, "/v1/results", result(&old, "job", 1)).await;
    assert_eq!((refused.stale().as_str(), &refused.json()["job_epoch"]), ("job", &json!(2)));
    let lease = cluster.lease(leader, "quick", 1).await;
    assert_eq!(lease["tasks"][0]["job_epoch"], 2);
    let new = lease["lease_id"].as_str().unwrap();
    let refused = cluster.post(leader, "/v1/results", result(&old, "job", 2)).await;
    assert_eq!(refused.stale(), "lease", "another agent's lease");
    let refused = cluster.post(leader, "/v1/results", result(new, "job", 1)).await;
    assert_eq!(refused.stale(), "job");
    cluster.post(leader, "/v1/results", result(new, "job", 2)).await.done();
    let job = cluster.job(leader, "job").await;
    assert_eq!((&job["leased_by"], &job["result"]["by"]), (&json!("quick"), &json!(new)));
}
