//! Whole instances, a gateway that counts, and a database.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure::DatabaseUrl;
use tenure_submissions::{database::store, store::Store};
use tenure_testkit::{Port, eventually, eventually_true, postgres::Postgres, secs};

/// How often each key was asked for.
pub type Effects = Arc<Mutex<HashMap<String, usize>>>;

pub async fn gateway() -> (String, Effects) {
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

pub fn registry(folder: &Path, gateway: &str) {
    let target = json!({
        "submissionTarget": "otp", "gatewayType": "sms", "gatewayUrl": gateway, "policy": "max_attempts",
        "maxAttempts": 5, "terminalOutcomes": ["invalid_recipient"],
    });
    fs::write(folder.join("targets.json"), json!({"targets": [target]}).to_string()).unwrap();
}

pub fn command(folder: &Path, db: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--db", db, "submissions", "--registry", "targets.json"]).args(arguments);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A process that is killed with this value.
pub struct Running(Child);

impl Running {
    pub fn of(process: Child) -> Self {
        Self(process)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One process at a place that stays the same when it is started again.
pub struct Instance {
    process: Option<Running>,
    pub url: String,
    pub port: Port,
}

impl Instance {
    /// With kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }
}

/// Three instances on one database.
pub struct Scene {
    folder: TempDir,
    // Held for its Drop, which ends the server.
    _postgres: Option<Postgres>,
    db: String,
    pub effects: Effects,
    pub instances: Vec<Instance>,
    pub client: Client,
}

impl Scene {
    pub async fn on_postgres() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let db = postgres.url();
        Self::on(TempDir::new().unwrap(), Some(postgres), db).await
    }

    pub async fn on_sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        let data: PathBuf = folder.path().join("tenure.db");
        let db = format!("sqlite:{}", data.display());
        Self::on(folder, None, db).await
    }

    /// On any database; a server that is given ends with the scene.
    pub async fn on(folder: TempDir, postgres: Option<Postgres>, db: String) -> Self {
        let (gateway, effects) = gateway().await;
        registry(folder.path(), &gateway);
        let instances = Vec::new();
        let client = Client::new();
        let mut scene = Self { folder, _postgres: postgres, db, effects, instances, client };
        for _ in 0..3 {
            let port = Port::claim().unwrap();
            let url = format!("http://127.0.0.1:{}", port.number());
            scene.instances.push(Instance { process: None, url, port });
        }
        (0..3).for_each(|at| scene.start(at));
        scene
    }

    pub fn start(&mut self, at: usize) {
        let port = self.instances[at].port.number().to_string();
        let log = self.folder.path().join(format!("log-{at}"));
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        let settings = [
            "--http",
            &port,
            "--lease-duration",
            "3s",
            "--renew-interval",
            "500ms",
            "--gateway-timeout",
            "800ms",
            "--record-within",
            "600ms",
        ];
        let mut command = command(self.folder.path(), &self.db, &settings);
        self.instances[at].process = Some(Running::of(command.stderr(log).spawn().unwrap()));
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn store(&self) -> Arc<dyn Store> {
        let db: DatabaseUrl = self.db.parse().unwrap();
        store(&db, secs(10)).unwrap()
    }

    /// Waits until one of them leads.
    pub async fn leader(&self) -> usize {
        eventually("one of them leads", secs(30), async || {
            for (at, instance) in self.instances.iter().enumerate() {
                let asked = self.client.get(format!("{}/leader", instance.url)).send().await;
                if asked.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    /// Waits until nothing is pending; then each must be accepted, once, its attempts numbered without gaps.
    pub async fn all_were_accepted_once(&self, ids: &[String]) {
        let store = self.store();
        eventually_true("nothing is pending", secs(120), async || {
            store.rebuild().await.is_ok_and(|read| read.changes.is_empty())
        })
        .await;
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let mut statuses = BTreeMap::<_, usize>::new();
        for chunk in ids.chunks(500) {
            for found in store.find(chunk).await.unwrap() {
                *statuses.entry(found.view.status.as_str()).or_default() += 1;
                let attempts = store.attempts(&found.view.intent_id).await.unwrap();
                let numbers: Vec<_> = attempts.iter().map(|one| one.attempt_number).collect();
                assert_eq!(numbers, (1..=found.attempts).collect::<Vec<_>>(), "without gaps");
            }
        }
        assert_eq!(statuses, BTreeMap::from([("accepted", ids.len())]), "all accepted");
        let effects = self.effects.lock().unwrap().clone();
        let mut taken = HashMap::<&str, usize>::new();
        for key in effects.keys() {
            *taken.entry(key.rsplit_once(':').unwrap().0).or_default() += 1;
        }
        let twice: Vec<_> = taken.iter().filter(|(_, keys)| **keys > 1).collect();
        assert!(twice.is_empty(), "executed under two keys: {twice:?}");
        let repeats: usize = effects.values().map(|count| count - 1).sum();
        println!("{} intents, {repeats} repeats under their own key", ids.len());
    }
}

/// One try, as a client makes it. What it may try again is `None`; anything else is a failure.
pub async fn submit_once(client: &Client, url: &str, id: &str) -> Option<()> {
    let body = json!({"intentId": id, "submissionTarget": "otp", "payload": id});
    let answer = client.post(format!("{url}/v1/intents")).json(&body).send().await.ok()?;
    let status = answer.status();
    match status {
        StatusCode::OK => {
            let intent: Value = answer.json().await.ok()?;
            assert_eq!(intent["intentId"], body["intentId"]);
            Some(())
        }
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            None
        }
        other => panic!("{other}: nothing that a client would try again"),
    }
}
