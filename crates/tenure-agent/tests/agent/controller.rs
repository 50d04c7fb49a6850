//! A controller that answers as it is told: a leader that takes everything, unless its script says otherwise.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tenure_database::BootInstant;
use tokio::{net::TcpListener, runtime::Runtime, sync::Notify};

pub const LEASES: &str = "/v1/leases";
pub const RESULTS: &str = "/v1/results";
pub const HEARTBEAT: &str = "/v1/agents/heartbeat";

/// What was asked.
#[derive(Clone, Debug)]
pub struct Call {
    pub path: String,
    pub body: Value,
    /// The body as it came.
    pub text: String,
    pub authorization: Option<String>,
    pub at: BootInstant,
}

/// What is answered.
pub enum Answer {
    Json(u16, Value),
    With(u16, &'static str, String),
    Never,
}

type Script = Box<dyn FnMut(&Call) -> Option<Answer> + Send>;

/// One node, with a runtime of its own: stopped, it drops every connection as a dead process does.
pub struct Node {
    pub url: String,
    address: SocketAddr,
    desk: Arc<Desk>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct Desk {
    calls: Mutex<Vec<Call>>,
    leases: Mutex<VecDeque<Value>>,
    leased: Notify,
    script: Mutex<Option<Script>>,
}

impl Node {
    pub fn start() -> Self {
        let mut node = Self::down();
        node.resume();
        node
    }

    /// A node that is not there; its port is its own all the same.
    pub fn down() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self { url: format!("http://{address}"), address, desk: Arc::default(), runtime: None }
    }

    pub fn resume(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let app = Router::new().fallback(take).with_state(Arc::clone(&self.desk));
        let (bound, is_bound) = std::sync::mpsc::channel();
        let address = self.address;
        runtime.spawn(async move {
            let listener = TcpListener::bind(address).await.unwrap();
            bound.send(()).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        is_bound.recv().unwrap();
        self.runtime = Some(runtime);
    }

    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// What it says to a call instead of taking it; `None` takes it.
    pub fn on(&self, script: impl FnMut(&Call) -> Option<Answer> + Send + 'static) {
        *self.desk.script.lock().unwrap() = Some(Box::new(script));
    }

    /// Does not lead, and says who does.
    pub fn names(&self, leader_url: Option<&str>) {
        let answer = json!({"error": "NOT_LEADER", "leader_url": leader_url, "role": "STANDBY"});
        self.on(move |_| Some(Answer::Json(409, answer.clone())));
    }

    /// Hands jobs out, each an id, an op and a payload, all under their first epoch.
    pub fn lease(&self, lease_id: &str, jobs: &[(&str, &str, Value)]) {
        let task = |(job_id, op, payload): &(&str, &str, Value)| {
            let (job_epoch, pinned_agent) = (1, Value::Null);
            json!({
                "job_id": job_id, "job_epoch": job_epoch, "op": op, "payload": payload,
                "pinned_agent": pinned_agent,
            })
        };
        let tasks: Vec<_> = jobs.iter().map(task).collect();
        self.lease_of(json!({"lease_id": lease_id, "leader_epoch": 7, "tasks": tasks}));
    }

    pub fn lease_of(&self, lease: Value) {
        self.desk.leases.lock().unwrap().push_back(lease);
        self.desk.leased.notify_one();
    }

    /// How many leases nobody has asked for yet.
    pub fn leases_left(&self) -> usize {
        self.desk.leases.lock().unwrap().len()
    }

    pub fn calls(&self, path: &str) -> Vec<Call> {
        let calls = self.desk.calls.lock().unwrap();
        calls.iter().filter(|call| call.path == path).cloned().collect()
    }

    pub fn call_count(&self) -> usize {
        self.desk.calls.lock().unwrap().len()
    }

    /// Every result of a job that was ever handed in, whatever the answer.
    pub fn results_of(&self, job_id: &str) -> Vec<Value> {
        let of = |call: Call| call.body["results"].as_array().cloned().unwrap_or_default();
        let all = self.calls(RESULTS).into_iter().flat_map(of);
        all.filter(|result| result["job_id"] == job_id).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn take(
    State(desk): State<Arc<Desk>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let authorization = headers.get(header::AUTHORIZATION);
    let call = Call {
        path: uri.path().to_owned(),
        body: serde_json::from_slice(&body).unwrap(),
        text: String::from_utf8(body.to_vec()).unwrap(),
        authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
        at: BootInstant::now(),
    };
    desk.calls.lock().unwrap().push(call.clone());
    let told = desk.script.lock().unwrap().as_mut().and_then(|script| script(&call));
    match told {
        Some(Answer::Json(status, body)) => (code(status), body.to_string()).into_response(),
        Some(Answer::With(status, name, value)) => (code(status), [(name, value)]).into_response(),
        Some(Answer::Never) => std::future::pending().await,
        None if call.path == LEASES => lease(&desk, &call).await,
        None if call.path == RESULTS => accepted(&call).to_string().into_response(),
        None => json!({"ok": true}).to_string().into_response(),
    }
}

/// What a leader says to results that it accepts.
pub fn accepted(call: &Call) -> Value {
    let results = call.body["results"].as_array().unwrap().iter();
    let results: Vec<_> =
        results.map(|result| json!({"job_id": result["job_id"], "ok": true})).collect();
    json!({"ok": true, "results": results})
}

async fn lease(desk: &Desk, call: &Call) -> Response {
    let patience =
        tokio::time::sleep(Duration::from_millis(call.body["timeout_ms"].as_u64().unwrap()));
    tokio::pin!(patience);
    loop {
        if let Some(lease) = desk.leases.lock().unwrap().pop_front() {
            return lease.to_string().into_response();
        }
        tokio::select! {
            () = desk.leased.notified() => {}
            () = &mut patience => return StatusCode::NO_CONTENT.into_response(),
        }
    }
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}
