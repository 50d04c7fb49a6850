//! A result is handed in until somebody accepts it, or until it is worth nothing any more.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tenure_agent::{Ops, Settings};
use tenure_testkit::{eventually, eventually_true, secs};

use crate::{
    controller::{Answer, Call, Node, RESULTS, accepted},
    scene::{Running, agent_of, result_of, settings, start},
};

fn count_of(call: &Call) -> usize {
    call.body["results"].as_array().unwrap().len()
}

/// Takes nothing until so many results come in one request, which is then answered by `script`, as all others are.
fn gather(node: &Node, count: usize, mut script: impl FnMut(&Call) -> Answer + Send + 'static) {
    let mut has_begun = false;
    node.on(move |call| {
        if call.path != RESULTS {
            return None;
        }
        has_begun |= count_of(call) == count;
        Some(if has_begun { script(call) } else { Answer::Json(503, json!({})) })
    });
}

/// The jobs of one lease, all quick.
fn lease(node: &Node, job_ids: &[&str]) {
    let jobs: Vec<_> = job_ids.iter().map(|job_id| (*job_id, "echo", json!(job_id))).collect();
    node.lease("l", &jobs);
}

/// The fate of everything that was handed in is known. A result is counted before it is handed in.
async fn nothing_waits(node: &Node, agent: &Running) {
    eventually_true("nothing waits", secs(20), async || {
        !node.calls(RESULTS).is_empty() && agent.metric("agent_results_waiting") == 0
    })
    .await;
}

#[tokio::test]
async fn a_result_is_kept_until_somebody_who_leads_accepts_it() {
    let (node, gone) = (Node::start(), Node::down());
    let stale = json!({"job_id": "j", "ok": false, "error": "STALE_EPOCH", "stale": "leader"});
    let mut answers = VecDeque::from([
        Answer::Json(503, json!({})),
        Answer::Json(500, json!({})),
        Answer::Json(409, json!({"error": "NOT_LEADER", "leader_url": null})),
        Answer::Json(409, json!({"error": "NOT_LEADER", "leader_url": gone.url})),
        Answer::Json(409, json!({"error": "STALE_EPOCH", "stale": "leader"})),
        Answer::Json(200, json!({"ok": false, "results": [stale]})),
        Answer::Json(200, json!({"ok": true})),
        Answer::Json(404, json!("no such page")),
    ]);
    let count = answers.len();
    node.on(move |call| (call.path == RESULTS).then(|| answers.pop_front()).flatten());
    let agent = agent_of(&node);
    lease(&node, &["j"]);
    eventually_true("all answers were given", secs(60), async || {
        node.results_of("j").len() == count + 1
    })
    .await;
    assert_eq!(agent.drained().await, 0);
    let told = json!({"job_id": "j", "job_epoch": 1, "status": "succeeded", "result": "j"});
    assert!(node.results_of("j").iter().all(|result| *result == told));
    let body = &node.calls(RESULTS)[0].body;
    assert_eq!(body, &json!({"lease_id": "l", "agent": "a", "results": [told]}));
}

#[tokio::test]
async fn a_result_outlives_the_controller() {
    let mut node = Node::start();
    let agent = agent_of(&node);
    node.lease("l", &[("j", "sleep", json!({"ms": 500}))]);
    eventually_true("it runs", secs(10), async || agent.metric("agent_jobs_running") == 1).await;
    node.stop();
    eventually_true("it waits", secs(10), async || agent.metric("agent_results_waiting") == 1)
        .await;
    node.resume();
    assert_eq!(result_of(&node, "j").await["status"], "succeeded");
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_mixed_answer_decides_on_each_result_by_itself() {
    let node = Node::start();
    let mut is_first = true;
    gather(&node, 4, move |call| {
        if !std::mem::take(&mut is_first) {
            return Answer::Json(200, accepted(call));
        }
        let fate = |result: &Value| match result["job_id"].as_str().unwrap() {
            "j1" => json!({"job_id": "j1", "ok": true}),
            "j2" => json!({"job_id": "j2", "ok": false, "error": "STALE_EPOCH", "stale": "job"}),
            "j3" => json!({"job_id": "j3", "ok": false, "error": "STALE_EPOCH", "stale": "lease"}),
            _ => json!({"job_id": "j4", "ok": false, "error": "STALE_EPOCH", "stale": "leader"}),
        };
        let fates: Vec<_> = call.body["results"].as_array().unwrap().iter().map(fate).collect();
        Answer::Json(200, json!({"ok": false, "results": fates}))
    });
    let agent = agent_of(&node);
    lease(&node, &["j1", "j2", "j3", "j4"]);
    let last = eventually("the last result alone", secs(30), async || {
        let last = node.calls(RESULTS).pop()?;
        (count_of(&last) == 1
            && last.body["results"][0]["job_id"] == "j4"
            && agent.metric("agent_results_accepted_total") == 2)
            .then_some(last)
    })
    .await;
    assert_eq!(last.body["results"][0]["result"], "j4");
    nothing_waits(&node, &agent).await;
    assert_eq!(agent.metric(r#"agent_results_dropped_total{reason="stale_job"}"#), 1);
    assert_eq!(agent.metric(r#"agent_results_dropped_total{reason="stale_lease"}"#), 1);
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_handed_in_in_parts() {
    let node = Node::start();
    gather(&node, 4, |call| match count_of(call) {
        1 => Answer::Json(200, accepted(call)),
        _ => Answer::Json(413, json!({})),
    });
    let agent = agent_of(&node);
    lease(&node, &["j1", "j2", "j3", "j4"]);
    eventually_true("all were accepted", secs(30), async || {
        agent.metric("agent_results_accepted_total") == 4
    })
    .await;
    let sizes: Vec<_> = node.calls(RESULTS).iter().map(count_of).collect();
    let begun = sizes.iter().position(|size| *size == 4).unwrap();
    assert_eq!(sizes[begun..begun + 3], [4, 2, 1]);
    assert_eq!(agent.metric(r#"agent_results_dropped_total{reason="refused"}"#), 0);
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_result_that_is_refused_becomes_a_failure_that_says_why() {
    let node = Node::start();
    node.on(|call| {
        let is_refused = call.path == RESULTS && call.body["results"][0]["status"] == "succeeded";
        is_refused.then(|| Answer::Json(422, json!({"error": "NO_SUCH_LUCK"})))
    });
    let agent = agent_of(&node);
    lease(&node, &["j"]);
    nothing_waits(&node, &agent).await;
    let told = node.results_of("j");
    assert_eq!((told.len(), &told[1]["status"]), (2, &json!("failed")));
    assert!(told[1]["error"].as_str().unwrap().contains("NO_SUCH_LUCK"), "{told:?}");
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn what_is_refused_in_any_form_is_dropped() {
    let node = Node::start();
    node.on(|call| (call.path == RESULTS).then(|| Answer::Json(400, json!({}))));
    let agent = agent_of(&node);
    lease(&node, &["j"]);
    nothing_waits(&node, &agent).await;
    assert_eq!(node.results_of("j").len(), 2);
    assert_eq!(agent.metric(r#"agent_results_dropped_total{reason="refused"}"#), 1);
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn results_of_one_lease_do_not_wait_for_those_of_another() {
    let node = Node::start();
    node.on(|call| {
        let is_stuck = call.path == RESULTS && call.body["lease_id"] == "stuck";
        is_stuck.then_some(Answer::Never)
    });
    let agent = agent_of(&node);
    node.lease("stuck", &[("j1", "echo", json!(1))]);
    result_of(&node, "j1").await;
    node.lease("l", &[("j2", "echo", json!(2))]);
    eventually_true("the other is accepted", secs(5), async || {
        agent.metric("agent_results_accepted_total") == 1
    })
    .await;
    agent.hurry.cancel();
    assert_eq!(agent.task.await.unwrap().not_handed_in, 1);
}

#[tokio::test]
async fn a_refused_token_keeps_the_result() {
    let node = Node::start();
    let is_right = Arc::new(Mutex::new(false));
    node.on({
        let is_right = Arc::clone(&is_right);
        move |call| {
            let is_refused = call.path == RESULTS && !*is_right.lock().unwrap();
            is_refused.then(|| Answer::Json(401, json!({})))
        }
    });
    let agent = agent_of(&node);
    lease(&node, &["j"]);
    eventually_true("it was refused", secs(10), async || !node.results_of("j").is_empty()).await;
    *is_right.lock().unwrap() = true;
    eventually_true("it is accepted", secs(20), async || {
        agent.metric("agent_results_accepted_total") == 1
    })
    .await;
    let calls = node.calls(RESULTS);
    assert_eq!(calls.len(), 2);
    assert!(calls[1].at.since(calls[0].at) >= secs(4));
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_controller_that_takes_no_results_is_asked_for_no_more_jobs() {
    let node = Node::start();
    node.on(|call| (call.path == RESULTS).then(|| Answer::Json(503, json!({}))));
    let agent = start(Settings { concurrency: 64, ..settings(&[&node.url]) }, Ops::built_in());
    for lease in 0..20 {
        let ids: Vec<_> = (0..16).map(|job| format!("{lease}-{job}")).collect();
        let jobs: Vec<_> = ids.iter().map(|id| (id.as_str(), "echo", json!(1))).collect();
        node.lease(&lease.to_string(), &jobs);
    }
    eventually_true("enough wait", secs(20), async || agent.metric("agent_results_waiting") >= 64)
        .await;
    eventually_true("all that it took have ended", secs(20), async || {
        agent.metric("agent_jobs_running") == 0
    })
    .await;
    assert!(node.leases_left() > 0);
    node.on(|_| None);
    eventually_true("all are accepted", secs(30), async || {
        agent.metric("agent_results_accepted_total") == 320
    })
    .await;
    assert_eq!(agent.drained().await, 0);
}
