//! How an agent ends.

use serde_json::json;
use tenure_agent::{AgentError, Metrics, Ops, Settings};
use tenure_database::BootInstant;
use tenure_testkit::{eventually_true, millis, secs};
use tokio_util::sync::CancellationToken;

use crate::{
    controller::{Answer, HEARTBEAT, LEASES, Node, RESULTS},
    scene::{agent_of, is_gone, number_in, result_of, settings, shell, start, within},
};

#[tokio::test]
async fn an_agent_that_is_stopped_hands_in_what_runs_and_takes_nothing_new() {
    let node = Node::start();
    let agent = agent_of(&node);
    node.lease("l1", &[("j1", "sleep", json!({"ms": 1500}))]);
    eventually_true("it runs", secs(10), async || agent.metric("agent_jobs_running") == 1).await;
    eventually_true("it polls on", secs(10), async || node.calls(LEASES).len() == 2).await;
    agent.stop.cancel();
    let before = node.calls(HEARTBEAT).len();
    node.lease("l2", &[("j2", "echo", json!(1))]);
    assert_eq!(agent.drained().await, 0);
    assert_eq!(node.results_of("j1")[0]["status"], "succeeded");
    assert!(node.results_of("j2").is_empty());
    assert_eq!(node.calls(LEASES).len(), 2);
    // Its leases last for as long as it needs them.
    assert!(node.calls(HEARTBEAT).len() > before + 2);
}

#[tokio::test]
async fn a_job_that_outlasts_the_grace_is_killed_and_given_back() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let child = folder.path().join("child");
    let line = format!("sleep 300 & echo $! > {}; wait", child.display());
    let settings = Settings { grace: millis(300), ..settings(&[&node.url]) };
    let agent = start(settings, shell(&line, ""));
    node.lease("l", &[("j", "x", json!({})), ("k", "sleep", json!({"seconds": 300}))]);
    let pid = number_in(&child).await;
    assert_eq!(agent.drained().await, 0);
    for job in ["j", "k"] {
        let told = result_of(&node, job).await;
        assert_eq!((&told["status"], told.get("error")), (&json!("given_back"), None));
    }
    eventually_true("nobody is left", secs(10), async || is_gone(pid)).await;
}

#[tokio::test]
async fn an_agent_says_how_many_results_it_could_not_hand_in() {
    let node = Node::start();
    node.on(|call| (call.path == RESULTS).then(|| Answer::Json(503, json!({}))));
    let settings = Settings { grace: millis(100), ..settings(&[&node.url]) };
    let agent = start(settings, Ops::built_in());
    node.lease("l", &[("j1", "echo", json!(1)), ("j2", "echo", json!(2))]);
    eventually_true("both wait", secs(10), async || agent.metric("agent_results_waiting") == 2)
        .await;
    let begun = BootInstant::now();
    assert_eq!(agent.drained().await, 2);
    let took = BootInstant::now().since(begun);
    assert!((secs(5)..secs(8)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn an_agent_in_a_hurry_kills_everything_at_once() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let child = folder.path().join("child");
    let line = format!("trap : TERM; sleep 300 & echo $! > {}; wait; sleep 300", child.display());
    let agent = start(settings(&[&node.url]), shell(&line, ""));
    node.lease("l", &[("j", "x", json!({}))]);
    let pid = number_in(&child).await;
    let begun = BootInstant::now();
    agent.hurry.cancel();
    assert_eq!(within("the end", agent.task).await.unwrap().not_handed_in, 1);
    assert!(BootInstant::now().since(begun) < secs(3));
    eventually_true("nobody is left", secs(2), async || is_gone(pid)).await;
}

#[tokio::test]
async fn an_agent_that_is_dropped_leaves_nobody_behind() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let child = folder.path().join("child");
    let line = format!("sleep 300 & echo $! > {}; wait", child.display());
    let agent = start(settings(&[&node.url]), shell(&line, ""));
    node.lease("l", &[("j", "x", json!({}))]);
    let pid = number_in(&child).await;
    agent.task.abort();
    eventually_true("nobody is left", secs(10), async || is_gone(pid)).await;
}

#[tokio::test]
async fn an_idle_agent_stops_at_once() {
    let node = Node::start();
    let agent = agent_of(&node);
    eventually_true("it polls", secs(10), async || !node.calls(LEASES).is_empty()).await;
    let begun = BootInstant::now();
    assert_eq!(agent.drained().await, 0);
    assert!(BootInstant::now().since(begun) < secs(1));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_name() {
    let metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
    let never = CancellationToken::new();
    let settings = Settings { token: Some("a\nb".to_owned()), ..settings(&["http://127.0.0.1:1"]) };
    let refused = tenure_agent::run(settings, Ops::built_in(), metrics, never.clone(), never).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, AgentError::Setting { setting: "token", .. }), "{error}");
}
