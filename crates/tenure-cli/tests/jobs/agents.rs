//! `tenure agent` against real controllers, and what controllers know of agents.

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure_testkit::{eventually, eventually_true};

use crate::scene::{Cluster, SOON};

on_both! {
    an_agent_finds_the_leader_and_does_what_it_can
    a_result_that_was_finished_during_a_failover_is_accepted_by_the_next_leader
    agents_go_stale_are_tombstoned_and_forgotten
    a_deleted_agent_is_a_tombstone_and_its_jobs_are_queued_again
    an_agent_that_is_told_to_stop_hands_in_what_it_runs
    a_job_that_outlasts_the_grace_of_its_agent_is_done_by_another
}

const OPS: &str = r#"
[ops.upper]
command = ["sh", "-c", "tr a-z A-Z"]
[ops.fail]
command = ["sh", "-c", "echo broken >&2; exit 3"]
[ops.wait]
command = ["sh", "-c", "touch begun; while ! [ -e go ]; do sleep 0.02; done; echo '\"waited\"'"]
"#;

/// Waits until a job has begun: that it is leased does not mean that its agent knows.
async fn runs(cluster: &Cluster) {
    eventually_true("a job runs", SOON, async || cluster.path("begun").exists()).await;
}

async fn an_agent_finds_the_leader_and_does_what_it_can(cluster: &mut Cluster) {
    let at = cluster.controllers(2).await;
    cluster.write("ops.toml", OPS);
    let agent = cluster.agent("worker", &["--ops", "ops.toml"]);
    for (job_id, op, payload) in [
        ("echo", "echo", json!({"a": [1, 2]})),
        ("sha", "sha256", json!({"text": "abc"})),
        ("upper", "upper", json!("x")),
        ("fail", "fail", json!(null)),
        ("nobody", "not-an-op", json!(null)),
    ] {
        cluster.submit(at, job_id, op, payload).await.done();
    }
    // The command's output is its input, which has the job.
    let upper = cluster.waits_for_state(at, "upper", "succeeded").await;
    assert_eq!(upper["result"]["JOB_ID"], "UPPER");
    assert_eq!(
        cluster.waits_for_state(at, "echo", "succeeded").await["result"],
        json!({"a": [1, 2]})
    );
    let sha = cluster.waits_for_state(at, "sha", "succeeded").await;
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha["result"]["sha256"], digest);
    let failed = cluster.waits_for_state(at, "fail", "failed").await;
    assert!(failed["error"].as_str().unwrap().contains("broken"), "{failed}");
    assert_eq!(cluster.job(at, "nobody").await["state"], "queued");
    let agents = cluster.get(at, "/v1/agents").await.done();
    assert_eq!(
        (&agents["agents"][0]["name"], &agents["agents"][0]["state"]),
        (&json!("worker"), &json!("alive"))
    );
    drop(agent);
}

async fn a_result_that_was_finished_during_a_failover_is_accepted_by_the_next_leader(
    cluster: &mut Cluster,
) {
    let at = cluster.controllers(2).await;
    cluster.write("ops.toml", OPS);
    let _agent = cluster.agent("worker", &["--ops", "ops.toml"]);
    cluster.submit(at, "job", "wait", json!(null)).await.done();
    runs(cluster).await;
    cluster.places[at].kill();
    cluster.write("go", "");
    let (next, epoch) = cluster.leader_after(1).await;
    let job = cluster.waits_for_state(next, "job", "succeeded").await;
    assert_eq!(
        (&job["job_epoch"], &job["leader_epoch"]),
        (&json!(1), &json!(epoch)),
        "done once: {job}"
    );
}

fn state_of(agents: &Value, name: &str) -> Option<String> {
    let agents = agents["agents"].as_array().unwrap();
    let agent = agents.iter().find(|agent| agent["name"] == name)?;
    Some(agent["state"].as_str().unwrap().to_owned())
}

async fn agents_go_stale_are_tombstoned_and_forgotten(cluster: &mut Cluster) {
    cluster.argue("--stale-after 500ms --tombstone-after 1500ms --forget-after 2500ms");
    let at = cluster.controllers(1).await;
    let labels = json!({"namespace": "default", "zone": "b"});
    let heartbeat = json!({"name": "a", "labels": labels, "capabilities": {"ops": ["x"]}});
    cluster.post(at, "/v1/agents/heartbeat", heartbeat.clone()).await.done();
    let mut seen = vec!["alive".to_owned()];
    while seen.last().is_some_and(|last| last != "gone") {
        let next = eventually("it ages", SOON, async || {
            let agents = cluster.get(at, "/v1/agents").await.done();
            let state = state_of(&agents, "a").unwrap_or_else(|| "gone".to_owned());
            (Some(&state) != seen.last()).then_some(state)
        });
        let next = next.await;
        seen.push(next);
    }
    assert_eq!(seen, ["alive", "stale", "tombstoned", "gone"]);
    cluster.post(at, "/v1/agents/heartbeat", heartbeat).await.done();
    let agents = cluster.get(at, "/v1/agents").await.done();
    assert_eq!(agents["agents"][0]["labels"], labels);
}

async fn a_deleted_agent_is_a_tombstone_and_its_jobs_are_queued_again(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    cluster.leased(at, "job", "gone/away").await;
    cluster.post(at, "/v1/agents/heartbeat", json!({"name": "gone/away"})).await.done();
    let url = format!("{}/v1/agents/gone%2Faway", cluster.places[at].url);
    let stale =
        cluster.send(reqwest::Method::DELETE, &format!("{url}?leader_epoch=99"), None).await;
    assert_eq!(stale.unwrap().stale(), "leader");
    for _ in 0..2 {
        let deleted = cluster.send(reqwest::Method::DELETE, &url, None).await.unwrap();
        assert_eq!(deleted.done(), json!({"ok": true, "deleted": true}));
    }
    let agents = cluster.get(at, "/v1/agents").await.done();
    assert_eq!(state_of(&agents, "gone/away").as_deref(), Some("tombstoned"));
    let job = cluster.job(at, "job").await;
    assert_eq!((&job["state"], &job["job_epoch"]), (&json!("queued"), &json!(2)));
}

async fn an_agent_that_is_told_to_stop_hands_in_what_it_runs(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    cluster.write("ops.toml", OPS);
    // With no place left it asks for nothing, so no answer is on its way when it stops.
    let mut agent = cluster.agent("worker", &["--ops", "ops.toml", "--concurrency", "1"]);
    cluster.submit(at, "job", "wait", json!(null)).await.done();
    runs(cluster).await;
    agent.signal(Signal::TERM);
    eventually_true("it has heard", SOON, async || {
        let log = std::fs::read_to_string(cluster.path("log-worker")).unwrap_or_default();
        log.contains("agent_draining")
    })
    .await;
    cluster.submit(at, "next", "wait", json!(null)).await.done();
    cluster.write("go", "");
    assert_eq!(agent.code().await, Some(0));
    assert_eq!(cluster.job(at, "job").await["result"], "waited");
    assert_eq!(cluster.job(at, "next").await["state"], "queued");
}

/// A deploy is no worse than a crash.
async fn a_job_that_outlasts_the_grace_of_its_agent_is_done_by_another(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    cluster.write("ops.toml", OPS);
    let mut agent = cluster.agent("worker", &["--ops", "ops.toml", "--grace", "100ms"]);
    let job = json!({"job_id": "job", "op": "wait", "payload": null, "max_lost_leases": 1});
    cluster.post(at, "/v1/jobs", job).await.done();
    runs(cluster).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.code().await, Some(0));
    let back = cluster.job(at, "job").await;
    assert_eq!((&back["state"], &back["job_epoch"]), (&json!("queued"), &json!(2)), "at once");
    assert_eq!((&back["lost_leases"], &back["failures"]), (&json!(0), &json!(0)));
    cluster.write("go", "");
    let mut other = cluster.agent("other", &["--ops", "ops.toml"]);
    let done = cluster.waits_for_state(at, "job", "succeeded").await;
    assert_eq!((&done["leased_by"], &done["job_epoch"]), (&json!("other"), &json!(2)));
    other.signal(Signal::TERM);
    assert_eq!(other.code().await, Some(0));
}
