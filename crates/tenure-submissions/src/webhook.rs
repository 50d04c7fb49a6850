//! Tells whoever asked for it that an intent is terminal: one POST, signed, and its result kept.
//!
//! Before it is sent, the store notes that it is about to be, through the fence. A leader that finds such a note
//! without a result does not know whether it arrived: it has failed, and is not sent again.

use std::{env, time::Duration};

use hmac::{Hmac, KeyInit, Mac};
use reqwest::{
    Client,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use serde::Serialize;
use sha2::Sha256;
use tenure::{LeaderGate, LeaderToken, NotLeader};

use tenure_http::key_for_header;

use crate::{contract::Webhook, intent::IntentView, store::WebhookDue};

const EVENT_TYPE: &str = "intent.terminal";

/// All webhooks, over one HTTP client.
#[derive(Clone, Debug)]
pub struct Webhooks {
    client: Client,
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
    /// A call is given up after `timeout`.
    pub fn new(timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client })
    }

    /// Sends it, unless the term is over at the last moment: then nothing was sent. An error is what is kept of it.
    pub async fn send(
        &self,
        gate: &LeaderGate,
        token: LeaderToken<'_>,
        due: &WebhookDue,
    ) -> Result<Option<String>, NotLeader> {
        let request = match self.request(due) {
            Ok(request) => request,
            Err(error) => return Ok(Some(error)),
        };
        gate.ensure_epoch(token.epoch)?;
        Ok(match request.send().await {
            Err(error) => Some(tenure_database::error::chain(&error.without_url())),
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("webhook returned status {}", answer.status().as_u16())),
        })
    }

    fn request(&self, due: &WebhookDue) -> Result<reqwest::RequestBuilder, String> {
        let event = Event {
            event_id: &due.intent.intent_id,
            event_type: EVENT_TYPE,
            occurred_at: due.occurred_at,
            intent: &due.intent,
        };
        let body = serde_json::to_vec(&event).map_err(|error| error.to_string())?;
        let mut all = HeaderMap::new();
        for (name, value) in headers(&due.webhook)? {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            all.insert(name, header_value(&value)?);
        }
        // Ours take the place of theirs: there is one signature.
        all.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        all.insert("x-setu-event-type", HeaderValue::from_static(EVENT_TYPE));
        all.insert("x-setu-event-id", header_value(&key_for_header(&due.intent.intent_id))?);
        all.remove("x-setu-signature");
        if let Some(signature) = signature(&due.webhook, &body)? {
            all.insert("x-setu-signature", header_value(&signature)?);
        }
        Ok(self.client.post(&due.webhook.url).headers(all).body(body))
    }
}

fn header_value(value: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| "a header cannot hold a value".to_owned())
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
    let value = env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("the variable {name} is not set"))
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
