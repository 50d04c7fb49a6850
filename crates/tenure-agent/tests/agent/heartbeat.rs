//! An agent says that it is there, whatever else it does.

use serde_json::json;
use tenure_testkit::{eventually_true, millis, secs};

use crate::{
    controller::{Answer, HEARTBEAT, Node},
    scene::agent_of,
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
