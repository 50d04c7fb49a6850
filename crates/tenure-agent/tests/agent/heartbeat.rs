//! An agent says that it is there, whatever else it does.

use serde_json::json;
use tenure_testkit::{eventually_true, millis, secs};

use crate::{
    controller::{Answer, HEARTBEAT, Node},
    scene::{agent_of, is_gone, number_in, settings, shell, start, within},
};

#[tokio::test]
async fn heartbeats_begin_at_once_and_go_on_while_a_job_runs() {
    let node = Node::start();
    let agent = agent_of(&node);
    eventually_true("the first", secs(5), async || !node.calls(HEARTBEAT).is_empty()).await;
    let expected = json!({
        "name": "a",
        "labels": {"namespace": "default"},
        "capabilities": {"ops": ["echo", "sha256", "sleep"]},
        "worker_profile": {"concurrency": 4, "version": env!("CARGO_PKG_VERSION")},
        "leases": [], "metrics": {"running": 0, "waiting_results": 0},
    });
    assert_eq!(node.calls(HEARTBEAT)[0].body, expected);
    node.lease("l", &[("j", "sleep", json!({"seconds": 300}))]);
    eventually_true("three that tell of the job", secs(10), async || {
        let calls = node.calls(HEARTBEAT);
        calls.iter().filter(|call| call.body["metrics"]["running"] == 1).count() >= 3
    })
    .await;
    let calls = node.calls(HEARTBEAT);
    let took = calls[calls.len() - 1].at.since(calls[0].at);
    assert!(took >= millis(150) * (calls.len() as u32 - 1), "{} in {took:?}", calls.len());
    agent.hurry.cancel();
    assert_eq!(agent.task.await.unwrap().not_handed_in, 1);
}

#[tokio::test]
async fn jobs_of_a_lease_that_is_gone_are_ended_and_nothing_is_reported() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let child = folder.path().join("child");
    let line = format!("sleep 300 & echo $! > {}; wait", child.display());
    let agent = start(settings(&[&node.url]), shell(&line, ""));
    node.lease("gone", &[("j", "x", json!({}))]);
    node.lease("kept", &[("k", "x", json!({}))]);
    let pid = number_in(&child).await;
    node.on(|call| {
        let is_gone = call.path == HEARTBEAT && call.body["leases"] == json!(["gone", "kept"]);
        is_gone.then(|| Answer::Json(200, json!({"ok": true, "gone": ["gone"]})))
    });
    eventually_true("the other goes on", secs(10), async || {
        agent.metric("agent_jobs_running") == 1
            && node.calls(HEARTBEAT).last().unwrap().body["leases"] == json!(["kept"])
    })
    .await;
    assert!(node.results_of("j").is_empty());
    agent.hurry.cancel();
    let drained = within("the end", agent.task).await.unwrap();
    assert_eq!(drained.not_handed_in, 1, "it was in a hurry");
    eventually_true("nobody is left", secs(10), async || is_gone(pid)).await;
}

#[tokio::test]
async fn a_missed_heartbeat_is_not_fatal() {
    let node = Node::start();
    let mut left = 3;
    node.on(move |call| {
        let is_missed = call.path == HEARTBEAT && left > 0;
        left -= i32::from(is_missed);
        is_missed.then(|| Answer::Json(500, json!({})))
    });
    let agent = agent_of(&node);
    eventually_true("one is heard", secs(20), async || agent.metric("agent_heartbeats_total") > 0)
        .await;
    assert_eq!(agent.drained().await, 0);
}
