//! What a node says that does not lead: reads, and the same refusal to every change.

use insta::assert_snapshot;
use reqwest::Method;
use serde_json::json;

use crate::scene::{Cluster, SOON};

/// Whatever changes something.
pub const MUTATING: [(&str, &str); 6] = [
    ("POST", "/v1/jobs"),
    ("POST", "/v1/leases"),
    ("POST", "/v1/leases/expire"),
    ("POST", "/v1/results"),
    ("POST", "/v1/agents/heartbeat"),
    ("DELETE", "/v1/agents/some-agent"),
];

on_both! {
    the_refusal_has_the_same_bytes_whatever_was_sent
    reads_are_served_hot_with_the_role_in_their_headers
    a_standby_without_a_leader_names_nobody
}

async fn the_refusal_has_the_same_bytes_whatever_was_sent(cluster: &mut Cluster) {
    let leader = cluster.controllers(2).await;
    let standby = 1 - leader;
    let (mut seen, urls) =
        (Vec::new(), [&cluster.places[leader].url, &cluster.places[standby].url]);
    for (method, path) in MUTATING {
        for body in ["", "{", "[1]", "{\"leader_epoch\": 99}", "\u{0}"] {
            let method: Method = method.parse().unwrap();
            let request = cluster.client.request(method, format!("{}{path}", urls[1]));
            let answer = request.body(body).send().await.unwrap();
            assert_eq!(answer.status(), 409, "{path} {body:?}");
            assert_eq!(answer.headers()["content-type"], "application/json");
            seen.push(answer.text().await.unwrap());
        }
    }
    let same = seen[0].clone();
    assert!(seen.iter().all(|text| *text == same));
    let names = [&cluster.places[leader].name, &cluster.places[standby].name];
    let shown = same.replace(urls[0].as_str(), "http://LEADER");
    let shown =
        shown.replace(names[0].as_str(), "LEADER").replace(names[1].as_str(), "STANDBY-NODE");
    assert_snapshot!("not_leader", shown);
}

async fn reads_are_served_hot_with_the_role_in_their_headers(cluster: &mut Cluster) {
    let leader = cluster.controllers(2).await;
    let standby = 1 - leader;
    cluster
        .submit(leader, "job", "echo", json!({"n": 12_345_678_901_234_567_890_u64}))
        .await
        .done();
    cluster.post(leader, "/v1/agents/heartbeat", json!({"name": "a"})).await.done();
    let paths = [
        ("/healthz", 200),
        ("/role", 200),
        ("/readyz", 200),
        ("/leader", 503),
        ("/metrics", 200),
        ("/openapi.json", 200),
        ("/", 200),
        ("/v1/jobs", 200),
        ("/v1/jobs/job", 200),
        ("/v1/jobs/nowhere", 404),
        ("/v1/agents", 200),
        ("/v1/nothing", 404),
        ("/nothing", 404),
    ];
    for (path, status) in paths {
        let answer = cluster.get(standby, path).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
        assert_eq!(answer.headers["x-dspu-role"], "STANDBY", "{path}");
        assert_eq!(answer.headers["x-dspu-leader-epoch"], "1", "{path}");
        assert_eq!(answer.headers["x-dspu-leader-id"], *cluster.places[leader].name, "{path}");
    }
    assert_eq!(cluster.get(leader, "/leader").await.status, 200);
    assert_eq!(cluster.get(leader, "/v1/jobs/job").await.headers["x-dspu-role"], "LEADER");
    // As soon as the leader has answered, the other node shows it.
    let (here, there) = (cluster.job(leader, "job").await, cluster.job(standby, "job").await);
    assert_eq!(here, there);
    assert_eq!(there["payload"].to_string(), r#"{"n":12345678901234567890}"#);
    assert_eq!(cluster.get(standby, "/v1/agents").await.done()["agents"][0]["name"], "a");
    let role = cluster.role(standby).await.unwrap();
    let names = (&cluster.places[leader].name, &cluster.places[leader].url);
    assert_eq!((&role["leader_id"], &role["leader_url"]), (&json!(names.0), &json!(names.1)));
    let health = cluster.get(standby, "/healthz").await.done();
    let expected = json!({"ok": true, "role": "STANDBY", "leader_epoch": 1, "leader_id": names.0});
    assert_eq!(health, expected);
}

async fn a_standby_without_a_leader_names_nobody(cluster: &mut Cluster) {
    cluster.environment.push(("MSP_LEADER_ENABLED".to_owned(), "false".to_owned()));
    let at = cluster.place();
    if cluster.postgres.is_none() {
        // A lease has no such switch: the node is drained before it can lead, and says the same.
        cluster.start_controller(at);
        cluster.waits_for_role(at, "LEADER").await;
        let url = format!("{}/drain", cluster.places[at].url);
        cluster.send(Method::POST, &url, None).await.unwrap();
        cluster.waits_for_role(at, "STANDBY").await;
    } else {
        cluster.start_controller(at);
        let up = async || cluster.role(at).await.is_some();
        tenure_testkit::eventually_true("it answers", SOON, up).await;
    }
    let refused = cluster.submit(at, "job", "echo", json!(1)).await;
    let body = refused.json();
    assert_eq!(refused.error(), (409, "NOT_LEADER".to_owned()));
    assert_eq!((&body["leader_id"], &body["leader_url"]), (&json!(null), &json!(null)));
}
