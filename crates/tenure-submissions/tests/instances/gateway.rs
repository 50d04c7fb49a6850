//! A gateway: over HTTP, and with a memory.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// One request, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub key: String,
    pub epoch: i64,
    pub body: Vec<u8>,
}

/// One webhook, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub event_id: String,
    pub event_type: String,
    pub signature: Option<String>,
    pub body: Value,
}

const PERMITS: usize = 1_000_000;

type Answers = Box<dyn Fn(&Call) -> (u16, Value) + Send + Sync>;

struct Memory {
    calls: Mutex<Vec<Call>>,
    webhooks: Mutex<Vec<Hook>>,
    /// How many webhooks may be answered.
    hook_permits: Semaphore,
    answers: Mutex<Answers>,
    /// How many requests may be answered: a gateway can be made to wait.
    permits: Semaphore,
}

/// A running gateway; it ends with the test's runtime.
#[derive(Clone)]
pub struct Gateway {
    pub url: String,
    memory: Arc<Memory>,
}

impl Gateway {
    pub async fn start() -> Self {
        let accepts: Answers = Box::new(|_| (200, json!({"status": "accepted"})));
        let memory = Arc::new(Memory {
            calls: Mutex::default(),
            webhooks: Mutex::default(),
            hook_permits: Semaphore::new(PERMITS),
            answers: Mutex::new(accepts),
            permits: Semaphore::new(PERMITS),
        });
        let routes = Router::new()
            .route("/sms/send", post(answer))
            .route("/push/send", post(answer))
            .route("/told", post(told))
            .with_state(Arc::clone(&memory));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, memory }
    }

    pub fn answers(&self, answer: impl Fn(&Call) -> (u16, Value) + Send + Sync + 'static) {
        *self.memory.answers.lock().unwrap() = Box::new(answer);
    }

    /// From now on nobody is answered, until [`Gateway::go_on`].
    pub async fn wait(&self) {
        let all = self.memory.permits.available_permits();
        self.memory.permits.acquire_many(u32::try_from(all).unwrap()).await.unwrap().forget();
    }

    pub fn go_on(&self) {
        self.memory.permits.add_permits(PERMITS);
    }

    pub fn webhooks(&self) -> Vec<Hook> {
        self.memory.webhooks.lock().unwrap().clone()
    }

    /// From now on webhooks are not answered, until [`Gateway::answer_webhooks`].
    pub async fn hold_webhooks(&self) {
        let all = self.memory.hook_permits.available_permits();
        self.memory.hook_permits.acquire_many(u32::try_from(all).unwrap()).await.unwrap().forget();
    }

    pub fn answer_webhooks(&self) {
        self.memory.hook_permits.add_permits(PERMITS);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.memory.calls.lock().unwrap().clone()
    }
}

async fn told(State(memory): State<Arc<Memory>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    memory.webhooks.lock().unwrap().push(Hook {
        event_id: text("x-setu-event-id").unwrap(),
        event_type: text("x-setu-event-type").unwrap(),
        signature: text("x-setu-signature"),
        body: serde_json::from_slice(&body).unwrap(),
    });
    let _permit = memory.hook_permits.acquire().await.unwrap();
    StatusCode::NO_CONTENT
}

async fn answer(
    State(memory): State<Arc<Memory>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let call = Call {
        key: text("idempotency-key"),
        epoch: text("tenure-epoch").parse().unwrap(),
        body: body.to_vec(),
    };
    memory.calls.lock().unwrap().push(call.clone());
    let _permit = memory.permits.acquire().await.unwrap();
    let (status, answer) = (memory.answers.lock().unwrap())(&call);
    (StatusCode::from_u16(status).unwrap(), Json(answer))
}
