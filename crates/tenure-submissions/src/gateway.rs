//! Hands a submission to a gateway.

use std::time::Duration;

use bytes::BytesMut;
use reqwest::{Client, Response, StatusCode, header};
use serde::Deserialize;
use tenure::{LeaderGate, LeaderToken, NotLeader};
use tenure_http::key_for_header;

use crate::{object::Object, policy::Outcome, store::Reservation};

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 64 * 1024;
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const EPOCH: &str = "tenure-epoch";

/// All gateways, over one HTTP client.
#[derive(Clone, Debug)]
pub struct Gateway {
    client: Client,
    timeout: Duration,
}

#[derive(Deserialize)]
struct Answer {
    status: Option<String>,
    reason: Option<String>,
}

impl Gateway {
    /// A call is given up after `timeout`.
    pub fn new(timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .timeout(timeout)
            // Where a gateway is, its target says; nobody sends it elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client, timeout })
    }

    /// How long a call may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes the call, unless the term is over at the last moment. The key lets a gateway tell a repeat from a
    /// new attempt; the epoch lets it refuse whoever led before.
    pub async fn submit(
        &self,
        gate: &LeaderGate,
        token: LeaderToken<'_>,
        reservation: &Reservation,
    ) -> Result<Outcome, NotLeader> {
        let contract = &reservation.contract;
        let url = format!("{}{}", contract.gateway_url, contract.gateway_type.path());
        let key = key(&reservation.intent_id, reservation.key_number());
        let request = self
            .client
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, key_for_header(&key))
            .header(EPOCH, token.epoch.get())
            .body(reservation.payload.clone());
        gate.ensure_epoch(token.epoch)?;
        Ok(match request.send().await {
            Ok(answer) => outcome(answer).await,
            Err(error) => {
                let was_sent = !error.is_connect() && !error.is_builder();
                let error = format!("gateway call failed: {}", told(error));
                Outcome::Failed { status: None, error, may_have_acted: was_sent }
            }
        })
    }
}

/// What a gateway tells a repeat by.
#[must_use]
pub fn key(intent_id: &str, number: i32) -> String {
    format!("{intent_id}:{number}")
}

/// It was heard, and what it did is not known.
fn failed(status: Option<String>, error: String) -> Outcome {
    Outcome::Failed { status, error, may_have_acted: true }
}

/// Whether a gateway that answers so has not acted: it did not like the request. One that gave up waiting for it, or a
/// proxy that did, says nothing of the kind.
fn did_not_look(status: StatusCode) -> bool {
    status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT
}

/// Without the URL, which may hold a password, and with what caused it.
fn told(error: reqwest::Error) -> String {
    tenure_database::error::chain(&error.without_url())
}

async fn outcome(answer: Response) -> Outcome {
    let status = answer.status();
    if !status.is_success() {
        let error = format!("gateway returned status {}", status.as_u16());
        return Outcome::Failed { status: None, error, may_have_acted: !did_not_look(status) };
    }
    let body = match read(answer).await {
        Ok(body) => body,
        Err(error) => return failed(None, format!("decode gateway response: {error}")),
    };
    let answer: Answer = match serde_json::from_slice(&body) {
        Ok(Object(answer)) => answer,
        Err(error) => return failed(None, format!("decode gateway response: {error}")),
    };
    let present = |text: Option<String>| text.filter(|text| !text.is_empty());
    let reason = present(answer.reason);
    match (present(answer.status), reason) {
        (None, _) => failed(None, "gateway response has no status".to_owned()),
        (Some(status), reason) => match (status.as_str(), reason) {
            ("accepted", reason) => Outcome::Accepted { reason },
            ("rejected", Some(reason)) => Outcome::Rejected { reason },
            ("rejected", None) => {
                failed(Some(status), "gateway rejected without a reason".to_owned())
            }
            _ => {
                let error = format!("gateway returned the unknown status {status:?}");
                failed(Some(status), error)
            }
        },
    }
}

async fn read(mut answer: Response) -> Result<BytesMut, String> {
    let mut body = BytesMut::new();
    while let Some(part) = answer.chunk().await.map_err(told)? {
        if body.len() + part.len() > LARGEST_ANSWER {
            return Err(format!("more than {LARGEST_ANSWER} bytes"));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}
