//! A rail that is called over HTTP, remembers every call, and answers as a test wants it to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use tenure_testkit::{eventually_true, secs};
use tokio::sync::watch;

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: String,
    pub attempt: u32,
    pub outbox_id: String,
    pub body: Value,
}

type Answer = Arc<dyn Fn(&Call) -> (StatusCode, Value) + Send + Sync>;

/// Every call, and whether calls are answered at all.
#[derive(Clone)]
pub struct Gateway {
    pub url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    is_open: watch::Sender<bool>,
    takes: Arc<Mutex<Duration>>,
    answer: Answer,
}

impl Gateway {
    /// Takes everything.
    pub async fn willing() -> Self {
        Self::answering(|call| (StatusCode::OK, json!({"id": format!("ref-{}", call.key)}))).await
    }

    pub async fn answering(
        answer: impl Fn(&Call) -> (StatusCode, Value) + Send + Sync + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/pay", listener.local_addr().unwrap());
        let gateway = Self {
            url,
            calls: Arc::default(),
            is_open: watch::channel(true).0,
            takes: Arc::default(),
            answer: Arc::new(answer),
        };
        let routes = Router::new().route("/pay", post(pay)).with_state(gateway.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        gateway
    }

    /// So long for every call.
    pub fn taking(self, time: Duration) -> Self {
        *self.takes.lock().unwrap() = time;
        self
    }

    /// From now on calls are remembered, and wait.
    pub fn hold(&self) {
        self.is_open.send_replace(false);
    }

    pub fn let_go(&self) {
        self.is_open.send_replace(true);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// How often each key was called with.
    pub fn calls_by_key(&self) -> BTreeMap<String, usize> {
        let mut by_key = BTreeMap::new();
        for call in self.calls() {
            *by_key.entry(call.key).or_insert(0) += 1;
        }
        by_key
    }

    pub async fn has_calls(&self, count: usize) {
        eventually_true("the rail is called", secs(30), async || self.calls().len() >= count).await;
    }
}

async fn pay(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> (StatusCode, String) {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let call = Call {
        key: text("idempotency-key"),
        attempt: text("tenure-attempt").parse().unwrap(),
        outbox_id: text("tenure-outbox-id"),
        body: serde_json::from_slice(&body).unwrap(),
    };
    gateway.calls.lock().unwrap().push(call.clone());
    gateway.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
    let takes = *gateway.takes.lock().unwrap();
    tokio::time::sleep(takes).await;
    let (status, body) = (gateway.answer)(&call);
    (status, body.to_string())
}
