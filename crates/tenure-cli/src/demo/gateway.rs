//! A gateway that remembers every key: what was asked for twice under one key has one effect.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;
use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::stream;
use serde_json::json;
use tenure::BootInstant;
use tokio::{net::TcpListener, task::JoinHandle};

/// The answer to one in so many first calls is lost after the gateway has acted, so that there is something to repeat.
const LOST: u64 = 50;

/// What a gateway has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// How often each key was asked for.
    calls: HashMap<String, u64>,
    /// Of each intent: under how many keys it took effect.
    effects: HashMap<String, u64>,
    /// When each term first acted.
    first_acts: BTreeMap<i64, BootInstant>,
}

/// A running gateway.
pub struct Gateway {
    url: String,
    seen: Arc<Mutex<Seen>>,
    serving: JoinHandle<()>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Gateway {
    pub async fn start() -> Result<Self> {
        let seen = Arc::<Mutex<Seen>>::default();
        let routes = Router::new().route("/sms/send", post(answer)).with_state(Arc::clone(&seen));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            // Serving a listener never ends by itself.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, seen, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many intents took effect.
    pub fn effects(&self) -> usize {
        self.seen().effects.len()
    }

    /// Calls under a key that was used before.
    pub fn repeats(&self) -> u64 {
        self.seen().calls.values().map(|calls| calls - 1).sum()
    }

    /// Effects beyond the first of an intent.
    pub fn duplicates(&self) -> u64 {
        self.seen().effects.values().map(|effects| effects - 1).sum()
    }

    /// When a term first acted.
    pub fn first_act(&self, epoch: i64) -> Option<BootInstant> {
        self.seen().first_acts.get(&epoch).copied()
    }

    /// When the first term above this one first acted.
    pub fn next_act(&self, epoch: i64) -> Option<BootInstant> {
        self.seen().first_acts.range(epoch + 1..).next().map(|(_, at)| *at)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Takes a call in: it has its effect, now or before. Whether the answer arrives.
    fn call(&mut self, key: &str, epoch: i64) -> bool {
        self.first_acts.entry(epoch).or_insert_with(BootInstant::now);
        let calls = self.calls.entry(key.to_owned()).or_insert(0);
        *calls += 1;
        if *calls > 1 {
            return true;
        }
        let intent = key.rsplit_once(':').map_or(key, |(intent, _)| intent);
        *self.effects.entry(intent.to_owned()).or_insert(0) += 1;
        !loses_its_answer(key)
    }
}

fn loses_its_answer(key: &str) -> bool {
    let sum = key.bytes().fold(17_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    sum.is_multiple_of(LOST)
}

async fn answer(State(seen): State<Arc<Mutex<Seen>>>, headers: HeaderMap) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let epoch = text("tenure-epoch").and_then(|epoch| epoch.parse().ok());
    let (Some(key), Some(epoch)) = (text("idempotency-key"), epoch) else {
        return (StatusCode::BAD_REQUEST, Json(json!({}))).into_response();
    };
    match seen.lock().unwrap_or_else(PoisonError::into_inner).call(key, epoch) {
        true => Json(json!({"status": "accepted"})).into_response(),
        // The connection breaks off before the answer is whole.
        false => {
            let broken = stream::once(async { Err::<&str, _>(io::Error::other("broken off")) });
            Body::from_stream(broken).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(loses: bool) -> impl Iterator<Item = String> {
        (1..).map(|n| format!("a:{n}")).filter(move |key| loses_its_answer(key) == loses)
    }

    #[test]
    fn an_effect_counts_once_per_key_and_a_second_key_is_a_duplicate() {
        let taken: Vec<_> = key(false).take(2).collect();
        let mut seen = Seen::default();
        assert!(seen.call(&taken[0], 1) && seen.call(&taken[0], 2));
        assert_eq!((seen.calls[&taken[0]], seen.effects["a"]), (2, 1));
        assert!(seen.call(&taken[1], 2));
        assert_eq!(seen.effects["a"], 2);
        assert!(seen.first_acts[&1] <= seen.first_acts[&2]);
    }

    #[test]
    fn an_answer_that_is_lost_has_its_effect_and_the_repeat_has_none() {
        let key = key(true).next().unwrap();
        let mut seen = Seen::default();
        assert!(!seen.call(&key, 1) && seen.call(&key, 1));
        assert_eq!(seen.effects["a"], 1);
    }
}
