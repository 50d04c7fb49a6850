//! `tenure submissions` with whole processes: the leader killed, and every intent accepted once.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::{Port, eventually, eventually_true, postgres::Postgres, secs};

/// How often each key was asked for.
type Effects = Arc<Mutex<HashMap<String, usize>>>;

async fn gateway() -> (String, Effects) {
    let effects = Effects::default();
    let answer = async |State(effects): State<Effects>, headers: HeaderMap| {
        let key = headers["idempotency-key"].to_str().unwrap().to_owned();
        *effects.lock().unwrap().entry(key).or_insert(0) += 1;
        Json(json!({"status": "accepted"}))
    };
    let routes = Router::new().route("/sms/send", post(answer)).with_state(Arc::clone(&effects));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, effects)
}

struct Instance {
    process: Child,
    url: String,
    _port: Port,
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn registry(folder: &Path, gateway: &str) {
    let target = json!({
        "submissionTarget": "otp", "gatewayType": "sms", "gatewayUrl": gateway, "policy": "max_attempts",
        "maxAttempts": 5, "terminalOutcomes": ["invalid_recipient"],
    });
    fs::write(folder.join("targets.json"), json!({"targets": [target]}).to_string()).unwrap();
}

fn command(folder: &Path, db: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--db", db, "submissions", "--registry", "targets.json"]).args(arguments);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn start(folder: &Path, db: &str) -> Instance {
    let port = Port::claim().unwrap();
    let log = fs::File::create(folder.join(format!("log-{}", port.number()))).unwrap();
    let address = port.number().to_string();
    let arguments = [
        "--http",
        &address,
        "--lease-duration",
        "3s",
        "--renew-interval",
        "500ms",
        "--gateway-timeout",
        "500ms",
        "--record-within",
        "500ms",
    ];
    let process = command(folder, db, &arguments).stderr(log).spawn().unwrap();
    Instance { process, url: format!("http://127.0.0.1:{address}"), _port: port }
}

async fn leader(instances: &[Instance]) -> usize {
    let client = Client::new();
    eventually("one of them leads", secs(30), async || {
        for (at, instance) in instances.iter().enumerate() {
            let asked = client.get(format!("{}/leader", instance.url)).send().await;
            if asked.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                return Some(at);
            }
        }
        None
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_intent_is_accepted_once_though_leaders_are_killed() {
    let postgres = Postgres::start().await.unwrap();
    let (folder, (gateway, effects)) = (TempDir::new().unwrap(), gateway().await);
    registry(folder.path(), &gateway);
    let mut instances: Vec<_> = (0..3).map(|_| start(folder.path(), &postgres.url())).collect();
    let client = Client::new();
    let mut number = 0;
    for _ in 0..2 {
        let leads = leader(&instances).await;
        let ready = client.get(format!("{}/readyz", instances[leads].url)).send().await.unwrap();
        let ready = ready.text().await.unwrap();
        assert!(
            ready.starts_with("mode=leader holder_id=") && ready.contains("lease_expires_at=2"),
            "{ready}"
        );
        for at in 0..100 {
            if at == 50 {
                drop(instances.remove(leads));
            }
            submit(&client, &instances, number).await;
            number += 1;
        }
        instances.push(start(folder.path(), &postgres.url()));
    }
    let database = postgres.connect().await.unwrap();
    eventually_true("all are accepted", secs(60), async || {
        let query = "SELECT count(*) FROM submission_intents WHERE status = 'accepted'";
        database.query_one(query, &[]).await.unwrap().get::<_, i64>(0) == 200
    })
    .await;
    let effects = effects.lock().unwrap().clone();
    assert_eq!(effects.len(), 200, "each under one key");
    let repeats: usize = effects.values().map(|count| count - 1).sum();
    println!("200 intents, {repeats} repeats under their own key");
    let gaps = "SELECT count(*) FROM submission_intents AS i WHERE attempt_count <>
                (SELECT count(*) FROM submission_attempts AS a WHERE a.intent_id = i.intent_id)";
    assert_eq!(database.query_one(gaps, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// As a client would: to whoever answers, and again until one does.
async fn submit(client: &Client, instances: &[Instance], number: usize) {
    let body =
        json!({"intentId": format!("i-{number}"), "submissionTarget": "otp", "payload": number});
    eventually("an instance takes it", secs(20), async || {
        let url = &instances[fastrand::usize(..instances.len())].url;
        let answer = client.post(format!("{url}/v1/intents")).json(&body).send().await.ok()?;
        let taken = answer.status() == StatusCode::OK;
        let intent: Value = answer.json().await.ok()?;
        (taken && intent["intentId"] == body["intentId"]).then_some(())
    })
    .await;
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    registry(folder.path(), "http://gateway");
    let refused = |arguments: &[&str]| -> String {
        let db = "postgres://nobody@127.0.0.1:1/none";
        let Output { status, stderr, .. } = command(folder.path(), db, arguments).output().unwrap();
        assert!(!status.success(), "{arguments:?}");
        String::from_utf8(stderr).unwrap()
    };
    for (arguments, told) in [
        (
            &["--http", "0", "--renew-interval", "60s"][..],
            "renew interval 60s must be below the lease of 60s (--renew-interval, --lease-duration)",
        ),
        (&["--http", "0", "--lease-name", " "], "--lease-name (SM_LEASE_NAME)"),
        (&["--http", "0", "--lease-name", &"x".repeat(65)], "may have 64 at most"),
        (&["--http", "0", "--holder-id", &"x".repeat(129)], "--holder-id (SM_HOLDER_ID)"),
        (&["--http", "0", "--gateway-timeout", "50s"], "--gateway-timeout, --lease-duration"),
        (&["--http", "0.0.0.0:0"], "--token-file, or say --allow-unauthenticated"),
        (&["--http", "nowhere"], "is no address"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(told), "{arguments:?}: {message}");
    }
    fs::write(folder.path().join("targets.json"), "{\"targets\": [{}]}").unwrap();
    assert!(refused(&["--http", "0"]).contains("targets[0]"));
}
