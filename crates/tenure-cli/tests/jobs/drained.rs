//! A leader that hands over: no new work, and what is under way may end.

use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use crate::{
    scene::{Cluster, result},
    standby::MUTATING,
};

on_both! {
    a_draining_leader_takes_results_and_nothing_else
    a_drain_ends_when_no_lease_is_open
    a_controller_that_is_told_to_stop_hands_over
}

/// Drains the leader, which has a job in flight: that lease.
async fn drain_with_a_job_in_flight(cluster: &mut Cluster, leader: usize) -> String {
    let lease = cluster.leased(leader, "in-flight", "agent").await;
    let url = format!("{}/drain", cluster.places[leader].url);
    assert_eq!(cluster.send(Method::POST, &url, None).await.unwrap().status, 202);
    cluster.waits_for_role(leader, "DRAINING").await;
    lease
}

async fn a_draining_leader_takes_results_and_nothing_else(cluster: &mut Cluster) {
    cluster.argue("--drain-grace 20s");
    let leader = cluster.controllers(2).await;
    let asked = json!({"agent": "waits", "timeout_ms": 60_000, "capabilities": ["nothing"]});
    let waits = cluster.post(leader, "/v1/leases", asked);
    let drains = async {
        let cluster: &Cluster = cluster;
        let lease = cluster.leased(leader, "in-flight", "agent").await;
        let url = format!("{}/drain", cluster.places[leader].url);
        assert_eq!(cluster.send(Method::POST, &url, None).await.unwrap().status, 202);
        cluster.waits_for_role(leader, "DRAINING").await;
        lease
    };
    let (waited, lease) = futures_util::join!(waits, drains);
    assert_eq!(waited.error(), (409, "NOT_LEADER".to_owned()), "who waits goes elsewhere");
    for (method, path) in MUTATING.into_iter().filter(|(_, path)| *path != "/v1/results") {
        let url = format!("{}{path}", cluster.places[leader].url);
        // Before anything of it is looked at.
        let body = json!({"leader_epoch": "not even a number"});
        let refused = cluster.send(method.parse().unwrap(), &url, Some(body)).await.unwrap();
        assert_eq!(refused.error(), (409, "NOT_LEADER".to_owned()), "{path}");
        let body = refused.json();
        assert_eq!(body["role"], "STANDBY");
        for field in ["leader_id", "leader_url", "leader_epoch"] {
            assert_eq!(body[field], json!(null), "{path} {field}");
        }
    }
    let read = cluster.get(leader, "/v1/jobs/in-flight").await;
    assert_eq!(read.headers["x-dspu-role"], "DRAINING");
    assert_eq!(cluster.get(leader, "/leader").await.status, 200);
    cluster.post(leader, "/v1/results", result(&lease, "in-flight", 1)).await.done();
    let (next, epoch) = cluster.leader_after(1).await;
    assert_ne!(next, leader);
    let job = cluster.job(next, "in-flight").await;
    assert_eq!((&job["state"], &job["leader_epoch"]), (&json!("succeeded"), &json!(epoch - 1)));
}

async fn a_drain_ends_when_no_lease_is_open(cluster: &mut Cluster) {
    cluster.argue("--drain-grace 1s");
    let leader = cluster.controllers(2).await;
    let lease = drain_with_a_job_in_flight(cluster, leader).await;
    // The grace ends; the agent hands in to the next leader, to whom its lease is still good.
    let (next, _) = cluster.leader_after(1).await;
    assert_ne!(next, leader);
    cluster.post(next, "/v1/results", result(&lease, "in-flight", 1)).await.done();
    assert_eq!(cluster.role_of(leader).await, "STANDBY");
    let url = format!("{}/drain", cluster.places[leader].url);
    assert_eq!(cluster.send(Method::DELETE, &url, None).await.unwrap().status, 202);
}

async fn a_controller_that_is_told_to_stop_hands_over(cluster: &mut Cluster) {
    cluster.argue("--drain-grace 10s");
    let leader = cluster.controllers(2).await;
    let lease = cluster.leased(leader, "in-flight", "agent").await;
    cluster.places[leader].signal(Signal::TERM);
    cluster.waits_for_role(leader, "DRAINING").await;
    cluster.post(leader, "/v1/results", result(&lease, "in-flight", 1)).await.done();
    assert_eq!(cluster.places[leader].code().await, Some(0));
    let (next, _) = cluster.leader_after(1).await;
    assert_eq!(cluster.job(next, "in-flight").await["state"], "succeeded");
}
