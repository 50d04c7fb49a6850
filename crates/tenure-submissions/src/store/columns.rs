//! What columns mean, whichever database has them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

use super::{Finished, StoreError, Stored};
use crate::{
    contract::{Contract, Policy, Webhook},
    intent::{ExhaustedReason, IntentView, Status},
    policy::{Next, Outcome},
    schedule::{Micros, Row},
};

/// The longest text that is kept of an error or a reason, in characters.
const LONGEST_TEXT: usize = 2_000;

pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable { what: what.to_owned() }
}

pub(super) fn timestamp(micros: Micros) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros).map_err(|_| unreadable("a moment out of range"))
}

pub(super) fn exhausted_reason(text: &str) -> Result<ExhaustedReason, StoreError> {
    let mut all = ExhaustedReason::ALL.into_iter();
    all.find(|reason| reason.as_str() == text).ok_or_else(|| unreadable("an unknown reason"))
}

/// A text that fits and that every database takes: cut, and without NUL.
pub(super) fn text_of(text: &str) -> String {
    text.chars().filter(|character| *character != '\0').take(LONGEST_TEXT).collect()
}

/// Lists and maps of texts are always JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn of_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| unreadable("JSON of another shape"))
}

/// An intent as it is shown.
pub(super) struct IntentColumns {
    pub(super) row_number: Row,
    pub(super) intent_id: String,
    pub(super) submission_target: String,
    pub(super) payload_hash: Vec<u8>,
    pub(super) created_at: Micros,
    pub(super) status: String,
    pub(super) completed_at: Option<Micros>,
    pub(super) final_outcome_reason: Option<String>,
    pub(super) exhausted_reason: Option<String>,
    pub(super) attempt_count: i32,
}

impl IntentColumns {
    pub(super) fn stored(self) -> Result<Stored, StoreError> {
        let status: Status = self.status.parse().map_err(|()| unreadable("an unknown status"))?;
        let hash = <[u8; 32]>::try_from(self.payload_hash);
        Ok(Stored {
            row: self.row_number,
            view: IntentView {
                intent_id: self.intent_id,
                submission_target: self.submission_target,
                created_at: timestamp(self.created_at)?,
                status,
                completed_at: self.completed_at.map(timestamp).transpose()?,
                rejected_reason: self.final_outcome_reason.filter(|_| status == Status::Rejected),
                exhausted_reason: self.exhausted_reason,
            },
            attempts: self.attempt_count,
            payload_hash: hash.map_err(|_| unreadable("a hash of another length"))?,
        })
    }
}

/// A contract as it is written.
pub(super) struct ContractColumns<'c> {
    pub(super) gateway_type: &'static str,
    pub(super) gateway_url: &'c str,
    pub(super) policy: &'static str,
    pub(super) max_acceptance_seconds: Option<i64>,
    pub(super) max_attempts: Option<i32>,
    pub(super) terminal_outcomes: String,
    pub(super) webhook_url: Option<&'c str>,
    pub(super) webhook_headers: Option<String>,
    pub(super) webhook_headers_env: Option<String>,
    pub(super) webhook_secret_env: Option<&'c str>,
}

impl<'c> ContractColumns<'c> {
    pub(super) fn of(contract: &'c Contract) -> Self {
        let Contract { gateway_type, gateway_url, policy, terminal_outcomes, webhook } = contract;
        let (max_acceptance_seconds, max_attempts) = match policy {
            Policy::Deadline { max_acceptance_seconds } => (Some(*max_acceptance_seconds), None),
            Policy::MaxAttempts { max_attempts } => (None, Some(*max_attempts)),
            Policy::OneShot => (None, None),
        };
        let webhook = webhook.as_ref();
        Self {
            gateway_type: gateway_type.as_str(),
            gateway_url,
            policy: policy.as_str(),
            max_acceptance_seconds,
            max_attempts,
            terminal_outcomes: json(terminal_outcomes),
            webhook_url: webhook.map(|webhook| webhook.url.as_str()),
            webhook_headers: webhook.map(|webhook| json(&webhook.headers)),
            webhook_headers_env: webhook.map(|webhook| json(&webhook.headers_env)),
            webhook_secret_env: webhook.and_then(|webhook| webhook.secret_env.as_deref()),
        }
    }
}

/// What an attempt needs of a contract, as it was read.
pub(super) struct AgreedColumns<'c> {
    pub(super) gateway_type: &'c str,
    pub(super) gateway_url: String,
    pub(super) policy: &'c str,
    pub(super) max_acceptance_seconds: Option<i64>,
    pub(super) max_attempts: Option<i32>,
    pub(super) terminal_outcomes: &'c str,
}

impl AgreedColumns<'_> {
    pub(super) fn contract(self) -> Result<Contract, StoreError> {
        let gateway_type = self.gateway_type.parse();
        let policy = Policy::stored(self.policy, self.max_acceptance_seconds, self.max_attempts);
        Ok(Contract {
            gateway_type: gateway_type.map_err(|()| unreadable("an unknown gateway type"))?,
            gateway_url: self.gateway_url,
            policy: policy.ok_or_else(|| unreadable("an unknown policy"))?,
            terminal_outcomes: of_json(self.terminal_outcomes)?,
            webhook: None,
        })
    }
}

/// Whom to tell, as it was read.
pub(super) fn webhook(
    url: String,
    headers: Option<&str>,
    headers_env: Option<&str>,
    secret_env: Option<String>,
) -> Result<Webhook, StoreError> {
    let map = |written: Option<&str>| written.map_or_else(|| Ok(BTreeMap::new()), of_json);
    Ok(Webhook { url, headers: map(headers)?, headers_env: map(headers_env)?, secret_env })
}

/// What an attempt leaves, in its own row and on its intent.
pub(super) struct OutcomeColumns {
    pub(super) outcome_status: Option<String>,
    pub(super) outcome_reason: Option<String>,
    pub(super) error: Option<String>,
    pub(super) status: &'static str,
    pub(super) exhausted_reason: Option<&'static str>,
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Where it is not the attempt's own.
    pub(super) key_number: Option<i32>,
    pub(super) held_key: Option<i32>,
}

impl OutcomeColumns {
    pub(super) fn of(finished: &Finished) -> Self {
        let (outcome_status, outcome_reason, error) = match &finished.outcome {
            Outcome::Accepted { reason } => (Some("accepted"), reason.as_deref(), None),
            Outcome::Rejected { reason } => (Some("rejected"), Some(&**reason), None),
            Outcome::Failed { status, error, .. } => (status.as_deref(), None, Some(&**error)),
        };
        let (status, exhausted_reason, next_attempt_at) = match &finished.next {
            Next::Accepted => (Status::Accepted, None, None),
            Next::Rejected { .. } => (Status::Rejected, None, None),
            Next::Exhausted(why) => (Status::Exhausted, Some(why.as_str()), None),
            Next::Retry { at } => (Status::Pending, None, Some(*at)),
        };
        Self {
            outcome_status: outcome_status.map(text_of),
            outcome_reason: outcome_reason.map(text_of),
            error: error.map(text_of),
            status: status.as_str(),
            exhausted_reason,
            next_attempt_at,
            key_number: Some(finished.key_number).filter(|key| *key != finished.number),
            held_key: finished.held_key.filter(|_| status == Status::Pending),
        }
    }
}
