//! Tells whoever asked for it that an intent is terminal: one POST, signed, and its result kept.
//!
//! Before it is sent, the store notes that it is about to be, through the fence. A leader that finds such a note
//! without a result does not know whether it arrived: it has failed, and is not sent again.

use std::{
    env,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{Client, header};
use serde::Serialize;
use sha2::Sha256;
use tenure::{LeaderGate, Term};
use tokio::sync::mpsc;

use crate::{
    contract::Webhook,
    intent::IntentView,
    schedule::Row,
    store::{Store, StoreError, WebhookDue},
};

const EVENT_TYPE: &str = "intent.terminal";
/// How many are taken together, and how many sent at once, at most.
const LARGEST_BATCH: usize = 100;
const AT_ONCE: usize = 16;
/// How many are read at once when a leader takes over.
const PAGE: i64 = 1_000;
const UNKNOWN: &str = "outcome unknown: the leader that sent it did not live to record it";

/// Sends webhooks, while this instance leads.
#[derive(Clone, Debug)]
pub struct Webhooks {
    queue: mpsc::UnboundedSender<(Term, Row)>,
    store: Handle,
    gate: Arc<OnceLock<LeaderGate>>,
}

#[derive(Clone)]
struct Handle(Arc<dyn Store>);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'i> {
    event_id: &'i str,
    event_type: &'static str,
    occurred_at: jiff::Timestamp,
    intent: &'i IntentView,
}

impl Webhooks {
    /// Starts the task that sends them; it ends with the last handle.
    pub fn start(store: Arc<dyn Store>, timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let (queue, queued) = mpsc::unbounded_channel();
        let gate = Arc::new(OnceLock::new());
        let sender = Sender { client, store: Arc::clone(&store), gate: Arc::clone(&gate) };
        tokio::spawn(sender.run(queued));
        Ok(Self { queue, store: Handle(store), gate })
    }

    /// The gate that is asked before anything is sent.
    pub fn behind(&self, gate: LeaderGate) {
        // The first one counts.
        let _ = self.gate.set(gate);
    }

    /// This one is to be sent in this term.
    pub fn due(&self, term: &Term, row: Row) {
        // Without its task nothing is sent, and the next leader finds it.
        let _ = self.queue.send((term.clone(), row));
    }

    /// A new leader sends what nobody began, and gives up what somebody did.
    pub(crate) async fn take_over(&self, term: &Term) -> Result<(), StoreError> {
        let mut above = 0;
        loop {
            let page = self.store.0.pending_webhooks(above, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            above = *last;
            let begun = page.iter().filter(|(_, was_attempted)| *was_attempted);
            let unknown: Vec<_> = begun.map(|(row, _)| (*row, Some(UNKNOWN.to_owned()))).collect();
            if !unknown.is_empty() {
                self.store.0.finish_webhooks(term, &unknown).await?;
            }
            for (row, _) in page.iter().filter(|(_, was_attempted)| !was_attempted) {
                self.due(term, *row);
            }
        }
    }
}

struct Sender {
    client: Client,
    store: Arc<dyn Store>,
    gate: Arc<OnceLock<LeaderGate>>,
}

impl Sender {
    async fn run(self, mut queued: mpsc::UnboundedReceiver<(Term, Row)>) {
        let mut batch = Vec::new();
        while queued.recv_many(&mut batch, LARGEST_BATCH).await > 0 {
            let Some((term, _)) = batch.last().cloned() else { continue };
            // Those of an earlier term are found by whoever took over.
            let rows: Vec<_> =
                batch.drain(..).filter(|(of, _)| *of == term).map(|(_, row)| row).collect();
            if let Err(error) = self.send_all(&term, &rows).await {
                let sql_error = tenure_database::error::chain(&error);
                tracing::warn!(target: "tenure", sql_error, "submission_webhooks_failed");
            }
        }
    }

    async fn send_all(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        let due = self.store.begin_webhooks(term, rows).await?;
        let sending =
            due.into_iter().map(|due| async move { (due.row, self.send(term, &due).await.err()) });
        let results: Vec<_> = stream::iter(sending).buffer_unordered(AT_ONCE).collect().await;
        self.store.finish_webhooks(term, &results).await
    }

    /// The error is what is kept of it.
    async fn send(&self, term: &Term, due: &WebhookDue) -> Result<(), String> {
        let event = Event {
            event_id: &due.intent.intent_id,
            event_type: EVENT_TYPE,
            occurred_at: due.occurred_at,
            intent: &due.intent,
        };
        let body = serde_json::to_vec(&event).map_err(|error| error.to_string())?;
        let mut request = self
            .client
            .post(&due.webhook.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-setu-event-type", EVENT_TYPE)
            .header("x-setu-event-id", header_value(&due.intent.intent_id)?);
        for (name, value) in headers(&due.webhook)? {
            request = request.header(name, header_value(&value)?);
        }
        if let Some(signature) = signature(&due.webhook, &body)? {
            request = request.header("x-setu-signature", signature);
        }
        let gate = self.gate.get().ok_or("this instance has never led")?;
        gate.ensure_epoch(term.epoch()).map_err(|error| error.to_string())?;
        let sent = request.body(body).send().await;
        let answer = sent.map_err(|error| tenure_database::error::chain(&error.without_url()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("webhook returned status {}", status.as_u16())),
        }
    }
}

fn header_value(value: &str) -> Result<header::HeaderValue, String> {
    header::HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| "a header cannot hold a value".to_owned())
}

/// The contract's headers, those of the environment included.
fn headers(webhook: &Webhook) -> Result<Vec<(String, String)>, String> {
    let mut headers: Vec<_> =
        webhook.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, variable) in &webhook.headers_env {
        headers.push((name.clone(), variable_named(variable)?));
    }
    Ok(headers)
}

fn variable_named(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("the variable {name} is not set"))
}

/// Lowercase hex of HMAC-SHA256 over the body; none where the registry allows that.
fn signature(webhook: &Webhook, body: &[u8]) -> Result<Option<String>, String> {
    let Some(variable) = &webhook.secret_env else { return Ok(None) };
    Ok(Some(sign(variable_named(variable)?.as_bytes(), body)))
}

fn sign(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    mac.update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_signature_is_hmac_sha256_in_lowercase_hex() {
        assert_eq!(
            sign(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let told = variable_named("TENURE_NO_SUCH_VARIABLE").unwrap_err();
        assert_eq!(told, "the variable TENURE_NO_SUCH_VARIABLE is not set");
    }
}
