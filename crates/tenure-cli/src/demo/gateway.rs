//! A gateway that remembers every key: what was asked for twice under one key has one effect.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use tenure::BootInstant;
use tokio::{net::TcpListener, task::JoinHandle};

/// One in so many attempts is turned away, so that there is something to try again.
const TURNED_AWAY: u64 = 50;

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
    /// Takes a call in; whether it took effect, now or before.
    fn call(&mut self, key: &str, epoch: i64) -> bool {
        self.first_acts.entry(epoch).or_insert_with(BootInstant::now);
        let calls = self.calls.entry(key.to_owned()).or_insert(0);
        *calls += 1;
        let intent = key.rsplit_once(':').map_or(key, |(intent, _)| intent);
        let is_taken = !is_turned_away(key);
        if is_taken && *calls == 1 {
            *self.effects.entry(intent.to_owned()).or_insert(0) += 1;
        }
        is_taken
    }
}

/// The same for every call of a key.
fn is_turned_away(key: &str) -> bool {
    let sum = key.bytes().fold(17_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    sum.is_multiple_of(TURNED_AWAY)
}

async fn answer(
    State(seen): State<Arc<Mutex<Seen>>>,
    headers: HeaderMap,
) -> (StatusCode, Json<Value>) {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let epoch = text("tenure-epoch").and_then(|epoch| epoch.parse().ok());
    let (Some(key), Some(epoch)) = (text("idempotency-key"), epoch) else {
        return (StatusCode::BAD_REQUEST, Json(json!({})));
    };
    match seen.lock().unwrap_or_else(PoisonError::into_inner).call(key, epoch) {
        true => (StatusCode::OK, Json(json!({"status": "accepted"}))),
        false => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({}))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_counts_once_per_key_and_a_second_key_is_a_duplicate() {
        let taken: Vec<_> =
            (1..).map(|n| format!("a:{n}")).filter(|key| !is_turned_away(key)).take(2).collect();
        let mut seen = Seen::default();
        assert!(seen.call(&taken[0], 1) && seen.call(&taken[0], 2));
        assert_eq!((seen.calls[&taken[0]], seen.effects["a"]), (2, 1));
        assert!(seen.call(&taken[1], 2));
        assert_eq!(seen.effects["a"], 2);
        assert!(seen.first_acts[&1] <= seen.first_acts[&2]);
    }

    #[test]
    fn what_is_turned_away_has_no_effect() {
        let key = (1..).map(|n| format!("a:{n}")).find(|key| is_turned_away(key)).unwrap();
        let mut seen = Seen::default();
        assert!(!seen.call(&key, 1));
        assert!(seen.effects.is_empty());
    }
}
