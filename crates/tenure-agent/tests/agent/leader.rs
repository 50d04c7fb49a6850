//! Whoever leads is found, and nobody is asked too often on the way.

use serde_json::json;
use tenure_agent::{Ops, Settings};
use tenure_testkit::{eventually_true, millis, secs};

use crate::{
    controller::{Answer, HEARTBEAT, LEASES, Node, RESULTS},
    scene::{agent_of, result_of, settings, start},
};

#[tokio::test]
async fn a_leader_that_is_named_is_gone_to_and_stayed_with() {
    let (standby, leader) = (Node::start(), Node::start());
    standby.names(Some(&leader.url));
    let settings = Settings { token: Some("s3cret".to_owned()), ..settings(&[&standby.url]) };
    let agent = start(settings, Ops::built_in());
    for (lease, job) in [("l1", "j1"), ("l2", "j2"), ("l3", "j3")] {
        leader.lease(lease, &[(job, "echo", json!(job))]);
        assert_eq!(result_of(&leader, job).await["result"], job);
    }
    // The poll and the heartbeat may both have asked before one of them knew.
    assert!(standby.call_count() <= 2, "{}", standby.call_count());
    let calls = leader.calls(LEASES);
    assert!(calls.iter().all(|call| call.authorization.as_deref() == Some("Bearer s3cret")));
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn two_standbys_that_name_each_other_are_asked_less_and_less() {
    let (one, two) = (Node::start(), Node::start());
    one.names(Some(&two.url));
    two.names(Some(&one.url));
    let settings = Settings { heartbeat: secs(5), ..settings(&[&one.url, &two.url]) };
    let agent = start(settings, Ops::built_in());
    eventually_true("both were asked", secs(10), async || {
        one.call_count() > 0 && two.call_count() > 0
    })
    .await;
    // That is what is measured, not waited for: how often they are asked in two seconds.
    tokio::time::sleep(secs(2)).await;
    let count = one.call_count() + two.call_count();
    assert!(count < 120, "{count} calls");
    // And one of them becomes the leader.
    two.on(|_| None);
    two.lease("l", &[("j", "echo", json!(1))]);
    result_of(&two, "j").await;
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_chain_of_standbys_is_followed_for_three_hops() {
    let nodes: Vec<_> = (0..5).map(|_| Node::start()).collect();
    for pair in nodes.windows(2) {
        pair[0].names(Some(&pair[1].url));
    }
    let agent = agent_of(&nodes[0]);
    eventually_true("the fourth is asked again and again", secs(20), async || {
        nodes[3].calls(LEASES).len() > 2
    })
    .await;
    assert_eq!(nodes[4].call_count(), 0);
    drop(agent);
}

#[tokio::test]
async fn a_leader_that_is_not_there_is_looked_for_where_it_was_configured() {
    let (standby, gone) = (Node::start(), Node::down());
    standby.names(Some(&gone.url));
    let agent = agent_of(&standby);
    eventually_true("it came back to ask", secs(20), async || standby.calls(LEASES).len() > 1)
        .await;
    standby.on(|_| None);
    standby.lease("l", &[("j", "echo", json!(1))]);
    result_of(&standby, "j").await;
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_poll_does_not_wait_for_a_dead_leader_once_another_is_known() {
    let (dead, leader) = (Node::start(), Node::start());
    let leader_url = leader.url.clone();
    let mut has_polled = false;
    dead.on(move |call| {
        has_polled |= call.path == LEASES;
        match has_polled && call.path == HEARTBEAT {
            true => {
                Some(Answer::Json(409, json!({"error": "NOT_LEADER", "leader_url": leader_url})))
            }
            false => Some(Answer::Never).filter(|_| call.path == LEASES),
        }
    });
    let agent = agent_of(&dead);
    leader.lease("l", &[("j", "echo", json!(1))]);
    // A poll alone would take forty seconds to give up.
    eventually_true("the next poll", secs(6), async || !leader.calls(LEASES).is_empty()).await;
    result_of(&leader, "j").await;
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn endpoints_are_tried_in_turn() {
    let (gone, leader) = (Node::down(), Node::start());
    let agent = start(settings(&[&gone.url, &leader.url]), Ops::built_in());
    leader.lease("l", &[("j", "echo", json!(1))]);
    result_of(&leader, "j").await;
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn an_http_redirect_is_not_followed() {
    let (node, elsewhere) = (Node::start(), Node::start());
    let to = format!("{}/v1/leases", elsewhere.url);
    node.on(move |_| Some(Answer::With(307, "location", to.clone())));
    let _agent = agent_of(&node);
    eventually_true("it was asked again", secs(20), async || node.calls(LEASES).len() > 2).await;
    assert_eq!(elsewhere.call_count(), 0);
}

#[tokio::test]
async fn a_controller_that_does_not_wait_makes_no_busy_loop() {
    let node = Node::start();
    node.on(|call| (call.path == LEASES).then_some(Answer::With(204, "x", String::new())));
    let _agent = agent_of(&node);
    eventually_true("it goes on", secs(30), async || node.calls(LEASES).len() >= 4).await;
    let calls = node.calls(LEASES);
    let took = calls[3].at.since(calls[0].at);
    assert!(took >= secs(1), "four polls in {took:?}, with half a second between them");
}

#[tokio::test]
async fn retry_after_is_waited_for() {
    let node = Node::start();
    node.on(|call| {
        (call.path == LEASES).then_some(Answer::With(503, "retry-after", "1".to_owned()))
    });
    let agent = agent_of(&node);
    eventually_true("three polls", secs(20), async || node.calls(LEASES).len() > 2).await;
    for pair in node.calls(LEASES).windows(2) {
        assert!(pair[1].at.since(pair[0].at) >= millis(990));
    }
    assert!(agent.metric(r#"agent_polls_total{outcome="failed"}"#) >= 2);
}

#[tokio::test]
async fn a_poll_asks_for_as_many_jobs_as_places_are_free_and_names_its_leases() {
    let node = Node::start();
    let agent = start(Settings { concurrency: 3, ..settings(&[&node.url]) }, Ops::built_in());
    let asked = || {
        let calls = node.calls(LEASES);
        calls.iter().map(|call| call.body["max_tasks"].clone()).collect::<Vec<_>>()
    };
    eventually_true("all places", secs(10), async || asked() == [3]).await;
    let long = json!({"seconds": 60});
    node.lease("l1", &[("j1", "sleep", long.clone())]);
    eventually_true("the others", secs(10), async || asked() == [3, 2]).await;
    // More than it asked for: what it has no place for is left to others.
    node.lease(
        "l2",
        &[("j2", "sleep", long.clone()), ("j3", "sleep", long.clone()), ("j4", "sleep", long)],
    );
    eventually_true("three run", secs(10), async || agent.metric("agent_jobs_running") == 3).await;
    let calls = node.calls(LEASES);
    let expected = json!({
        "agent": "a", "namespace": "default", "max_tasks": 3, "timeout_ms": 30_000,
        "capabilities": {"ops": ["echo", "sha256", "sleep"]}, "leases": [],
    });
    assert_eq!(calls[0].body, expected);
    assert_eq!(calls[1].body["leases"], json!(["l1"]), "what it works on");
    assert!(node.calls(RESULTS).is_empty());
    agent.hurry.cancel();
    assert_eq!(agent.task.await.unwrap().not_handed_in, 3);
    assert_eq!(node.calls(LEASES).len(), 2);
}
