//! Who may call what.

use serde_json::json;

use crate::{
    scene::{Cluster, result},
    standby::MUTATING,
};

const CLIENT: &str = "clients-secret-word";
const AGENT: &str = "agents-secret-word";

fn guarded(cluster: &mut Cluster) {
    cluster.write("clients", CLIENT);
    cluster.write("agents", AGENT);
    cluster.argue("--token-file clients --agent-token-file agents");
}

#[tokio::test]
async fn clients_and_agents_have_tokens_of_their_own() {
    let cluster = &mut Cluster::on_sqlite();
    guarded(cluster);
    let at = cluster.controllers(1).await;
    let call = async |method: &str, path: &str, token: Option<&str>| {
        let url = format!("{}{path}", cluster.places[at].url);
        let request = cluster.client.request(method.parse().unwrap(), url).json(&json!({}));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().await.unwrap().status().as_u16()
    };
    let of_agents = ["/v1/leases", "/v1/results", "/v1/agents/heartbeat"];
    let reads = ["/v1/jobs", "/v1/jobs/x", "/v1/agents", "/v1/events"].map(|path| ("GET", path));
    for (method, path) in MUTATING.into_iter().chain(reads) {
        let (right, wrong) = match of_agents.contains(&path) {
            true => (AGENT, CLIENT),
            false => (CLIENT, AGENT),
        };
        assert_eq!(call(method, path, None).await, 401, "{path}");
        assert_eq!(call(method, path, Some(wrong)).await, 401, "{path}");
        assert_eq!(call(method, path, Some("guessed-guessed-guessed")).await, 401, "{path}");
        assert_ne!(call(method, path, Some(right)).await, 401, "{path}");
    }
    for open in ["/healthz", "/role", "/leader", "/metrics", "/openapi.json"] {
        assert_ne!(call("GET", open, None).await, 401, "{open}");
    }
    let log = cluster.log_of(at);
    assert!(!log.contains(CLIENT) && !log.contains(AGENT));
}

#[tokio::test]
async fn an_agent_with_its_token_works_and_cannot_complete_anothers_lease() {
    let cluster = &mut Cluster::on_sqlite();
    guarded(cluster);
    let at = cluster.controllers(1).await;
    let post = async |path: &str, token: &str, body: serde_json::Value| {
        let url = format!("{}{path}", cluster.places[at].url);
        let sent = cluster.client.post(url).bearer_auth(token).json(&body).send().await.unwrap();
        (sent.status().as_u16(), sent.json::<serde_json::Value>().await.unwrap_or_default())
    };
    let job = |id: &str, op: &str| json!({"job_id": id, "op": op, "payload": 1});
    assert_eq!(post("/v1/jobs", CLIENT, job("job", "echo")).await.0, 200);
    let (_, lease) = post("/v1/leases", AGENT, json!({"agent": "mine"})).await;
    let lease = lease["lease_id"].as_str().unwrap();
    // Whoever does not know the lease's id, or says who it is, has nothing to say about it.
    assert_eq!(post("/v1/results", AGENT, result("guessed", "job", 1)).await.1["stale"], "lease");
    let mut foreign = result(lease, "job", 1);
    foreign["agent"] = json!("yours");
    assert_eq!(post("/v1/results", AGENT, foreign).await.1["stale"], "lease");
    assert_eq!(post("/v1/results", AGENT, result(lease, "job", 1)).await.0, 200);
    let _agent = cluster.agent("worker", &["--token-file", "agents"]);
    assert_eq!(post("/v1/jobs", CLIENT, job("sum", "sha256")).await.0, 200);
    let url = format!("{}/v1/jobs/sum", cluster.places[at].url);
    tenure_testkit::eventually_true("the agent works", crate::scene::SOON, async || {
        let shown = cluster.client.get(&url).bearer_auth(CLIENT).send().await.unwrap();
        shown.json::<serde_json::Value>().await.unwrap()["state"] == "failed"
    })
    .await;
}

#[tokio::test]
async fn other_machines_are_served_with_both_tokens_or_on_the_operators_word() {
    let cluster = &mut Cluster::on_sqlite();
    cluster.write("clients", CLIENT);
    cluster.write("agents", AGENT);
    let refuses = |arguments: &[&str]| {
        let all = [&["controller", "--http", "0.0.0.0:0", "--node-id", "n"], arguments].concat();
        let refused = cluster.tenure(&all);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        String::from_utf8(refused.stderr).unwrap()
    };
    for arguments in [&[][..], &["--token-file", "clients"], &["--agent-token-file", "agents"]] {
        let told = refuses(arguments);
        assert!(
            told.contains("--agent-token-file") && told.contains("--allow-unauthenticated"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_web_page_of_another_site_changes_nothing() {
    let cluster = &mut Cluster::on_sqlite();
    let at = cluster.controllers(1).await;
    let url = format!("{}/v1/jobs", cluster.places[at].url);
    let job = json!({"op": "echo", "payload": 1});
    let page = cluster.client.post(&url).header("origin", "https://evil.example").json(&job);
    assert_eq!(page.send().await.unwrap().status(), 403);
    let rebound = cluster.client.post(&url).header("host", "evil.example").json(&job);
    assert_eq!(rebound.send().await.unwrap().status(), 403);
    assert_eq!(cluster.post(at, "/v1/jobs", job).await.status, 200);
}
