//! A rail that takes instructions by HTTP POST.

use std::env;

use async_trait::async_trait;
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tenure_http::key_for_header;

use super::{
    DISPATCH_ERROR, INVALID_PAYLOAD, Outcome, Rail, State,
    settings::{Body, HttpSettings, Refused, StatusPattern},
};
use crate::claim::Claim;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const OUTBOX_ID: &str = "tenure-outbox-id";
const ATTEMPT: &str = "tenure-attempt";
/// The most that is read of an answer.
const LARGEST_ANSWER: usize = 64 * 1024;
/// As much of a refusal as is kept.
const SHOWN: usize = 500;

pub(super) struct HttpRail {
    client: Client,
    url: Url,
    headers: HeaderMap,
    body: Body,
    mapping: Mapping,
    reference: Option<String>,
    code: Option<String>,
    required: Vec<String>,
}

/// What a request carries when it carries more than the payload.
#[derive(Serialize)]
struct Envelope<'c> {
    instruction_id: &'c str,
    participant_id: &'c str,
    sequence_id: i64,
    idempotency_key: &'c str,
    rail_type: &'c str,
    attempt_no: i32,
    payload: &'c RawValue,
}

impl HttpRail {
    pub fn new(settings: HttpSettings) -> Result<Self, Refused> {
        let url: Url = settings.url.parse().map_err(|_| ("url", "is no URL".to_owned()))?;
        if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
            return Err(("url", "must be http://… or https://…".to_owned()));
        }
        for (field, pointer) in [("reference", &settings.reference), ("code", &settings.code)] {
            is_pointer(field, pointer.as_deref())?;
        }
        for pointer in &settings.required {
            is_pointer("required", Some(pointer))?;
        }
        // Where the rail is, its URL says; nobody sends a payment elsewhere.
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self {
            client: client.map_err(|error| ("url", error.to_string()))?,
            url,
            headers: headers(&settings)?,
            body: settings.body,
            mapping: Mapping {
                dispatched: settings.dispatched,
                retryable: settings.retryable,
                failed: settings.failed,
            },
            reference: settings.reference,
            code: settings.code,
            required: settings.required,
        })
    }

    fn missing(&self, claim: &Claim) -> Option<&str> {
        if self.required.is_empty() {
            return None;
        }
        let payload: Value = serde_json::from_str(claim.payload.get()).unwrap_or_default();
        let is_missing = |pointer: &&String| payload.pointer(pointer).is_none_or(Value::is_null);
        self.required.iter().find(is_missing).map(String::as_str)
    }

    fn body(&self, claim: &Claim) -> Result<String, serde_json::Error> {
        match self.body {
            Body::Payload => Ok(claim.payload.get().to_owned()),
            Body::Envelope => serde_json::to_string(&Envelope {
                instruction_id: &claim.instruction_id,
                participant_id: &claim.participant_id,
                sequence_id: claim.sequence_id,
                idempotency_key: &claim.idempotency_key,
                rail_type: &claim.rail_type,
                attempt_no: claim.attempt_no(),
                payload: &claim.payload,
            }),
        }
    }

    /// What an answer means, and what it says of itself.
    async fn outcome(&self, answer: Response) -> Outcome {
        let status = answer.status().as_u16();
        let body = match read(answer).await {
            Ok(body) => body,
            // It was taken or not: nobody knows, and the key makes asking again safe.
            Err(error) => {
                return Outcome::retryable(
                    DISPATCH_ERROR,
                    format!("the answer broke off: {error}"),
                );
            }
        };
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let at = |pointer: &Option<String>| text_at(&json, pointer.as_deref()?);
        let state = self.mapping.state_of(status);
        let is_done = state == State::Dispatched;
        Outcome {
            state,
            rail_reference: at(&self.reference),
            rail_code: at(&self.code).or_else(|| Some(status.to_string())),
            error_code: (!is_done).then(|| format!("HTTP_{status}")),
            error_message: (!is_done).then(|| shown(status, &body)),
        }
    }
}

#[async_trait]
impl Rail for HttpRail {
    async fn dispatch(&self, claim: &Claim) -> Outcome {
        if let Some(field) = self.missing(claim) {
            return Outcome::failed(INVALID_PAYLOAD, format!("the payload has no {field}"));
        }
        let body = match self.body(claim) {
            Ok(body) => body,
            Err(error) => return Outcome::failed(INVALID_PAYLOAD, error.to_string()),
        };
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            // The same for every attempt: whoever takes it twice can tell.
            .header(IDEMPOTENCY_KEY, key_for_header(&claim.idempotency_key))
            .header(OUTBOX_ID, claim.outbox_id.to_string())
            .header(ATTEMPT, claim.attempt_no())
            .body(body);
        match request.send().await {
            Ok(answer) => self.outcome(answer).await,
            Err(error) => Outcome::retryable(DISPATCH_ERROR, told(error)),
        }
    }
}

/// Which answers mean what: as the file says, and otherwise as HTTP does.
struct Mapping {
    dispatched: Vec<StatusPattern>,
    retryable: Vec<StatusPattern>,
    failed: Vec<StatusPattern>,
}

impl Mapping {
    fn state_of(&self, status: u16) -> State {
        let is_in = |patterns: &[StatusPattern]| patterns.iter().any(|p| p.matches(status));
        let is_one = |patterns: &[StatusPattern]| patterns.contains(&StatusPattern::One(status));
        let lists = [
            (&self.dispatched, State::Dispatched),
            (&self.retryable, State::Retryable),
            (&self.failed, State::Failed),
        ];
        // A status by its number goes before its class.
        let by_number = lists.iter().find(|(patterns, _)| is_one(patterns));
        let by_class = || lists.iter().find(|(patterns, _)| is_in(patterns));
        match by_number.or_else(by_class) {
            Some((_, state)) => *state,
            None => usual(status),
        }
    }
}

/// Refused for now: the rail is busy or broken, is still at work on this very key, or does not know us at the
/// moment. A redirect is not followed, and may be gone tomorrow.
fn usual(status: u16) -> State {
    match status {
        200..=299 => State::Dispatched,
        300..=399 | 401 | 403 | 407..=409 | 425 | 429 | 500..=599 => State::Retryable,
        _ => State::Failed,
    }
}

fn headers(settings: &HttpSettings) -> Result<HeaderMap, Refused> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        add(&mut headers, "headers", name, value)?;
    }
    for (name, variable) in &settings.headers_env {
        let value = env::var(variable)
            .map_err(|_| ("headers_env", format!("needs {variable} in the environment")))?;
        add(&mut headers, "headers_env", name, &value)?;
    }
    Ok(headers)
}

fn add(
    headers: &mut HeaderMap,
    field: &'static str,
    name: &str,
    value: &str,
) -> Result<(), Refused> {
    let header: HeaderName =
        name.parse().map_err(|_| (field, format!("has {name:?}, which is no header")))?;
    // The value may be a secret, and is not shown.
    let mut value: HeaderValue = value
        .parse()
        .map_err(|_| (field, format!("has a value for {name:?} that no header takes")))?;
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

fn is_pointer(field: &'static str, pointer: Option<&str>) -> Result<(), Refused> {
    match pointer {
        Some(pointer) if !pointer.starts_with('/') => {
            Err((field, format!("is {pointer:?}, and must be a JSON pointer such as \"/id\"")))
        }
        _ => Ok(()),
    }
}

fn text_at(json: &Value, pointer: &str) -> Option<String> {
    match json.pointer(pointer)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// As much as is read of an answer: what it says beyond that does not matter to what it means.
async fn read(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while body.len() < LARGEST_ANSWER {
        match answer.chunk().await.map_err(told)? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(body)
}

fn shown(status: u16, body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
    match text.trim() {
        "" => format!("the rail answered {status}"),
        text => format!("the rail answered {status}: {text}"),
    }
}

/// Without the URL, which may hold a password, and with what caused it.
fn told(error: reqwest::Error) -> String {
    tenure_database::error::chain(&error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_means_what_the_file_says_and_else_what_http_says() {
        let none = Mapping { dispatched: vec![], retryable: vec![], failed: vec![] };
        assert_eq!(none.state_of(201), State::Dispatched);
        assert_eq!(none.state_of(429), State::Retryable);
        assert_eq!(none.state_of(503), State::Retryable);
        assert_eq!(none.state_of(302), State::Retryable);
        assert_eq!(none.state_of(409), State::Retryable);
        assert_eq!(none.state_of(400), State::Failed);
        let own = Mapping {
            dispatched: vec![StatusPattern::One(409)],
            retryable: vec![StatusPattern::Class(4)],
            failed: vec![StatusPattern::One(503)],
        };
        assert_eq!(own.state_of(409), State::Dispatched);
        assert_eq!(own.state_of(400), State::Retryable);
        assert_eq!(own.state_of(503), State::Failed);
        assert_eq!(own.state_of(500), State::Retryable);
    }
}
