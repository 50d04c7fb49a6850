//! Intents and attempts, as they are stored and shown.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// The longest id, in characters.
pub const LONGEST_ID: usize = 200;

/// Where an intent is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// To be tried, or tried again.
    Pending,
    /// The gateway took it.
    Accepted,
    /// The gateway refused it for good.
    Rejected,
    /// It was tried for as long as its policy allows.
    Exhausted,
}

impl Status {
    /// All that end an intent.
    pub const TERMINAL: [Self; 3] = [Self::Accepted, Self::Rejected, Self::Exhausted];

    /// As it is stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
        }
    }

    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Self::Pending
    }
}

impl FromStr for Status {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [Self::Pending, Self::Accepted, Self::Rejected, Self::Exhausted];
        all.into_iter().find(|status| status.as_str() == text).ok_or(())
    }
}

/// Why an intent was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExhaustedReason {
    /// Its deadline passed.
    DeadlineExceeded,
    /// It was tried as often as allowed.
    MaxAttempts,
    /// It was to be tried once.
    OneShot,
}

impl ExhaustedReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DeadlineExceeded, Self::MaxAttempts, Self::OneShot];

    /// As it is stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::MaxAttempts => "max_attempts",
            Self::OneShot => "one_shot",
        }
    }
}

impl fmt::Display for ExhaustedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An intent, as a client sees it. Neither its payload nor its contract is ever shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentView {
    /// The client's own id.
    pub intent_id: String,
    /// The target, as submitted.
    pub submission_target: String,
    /// When it was submitted, by the database's clock.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Where it is on its way.
    pub status: Status,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    /// Why the gateway refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected_reason: Option<String>,
    /// Why it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted_reason: Option<String>,
}

/// One attempt, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// Counted from 1, without gaps.
    pub attempt_number: i32,
    /// What the gateway could tell a repeat by.
    pub idempotency_key: String,
    /// When it began, by the database's clock.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When its outcome was known.
    #[schema(value_type = String, format = DateTime)]
    pub finished_at: Timestamp,
    /// What the gateway said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_status: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_reason: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An intent with everything that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HistoryView {
    /// The intent.
    pub intent: IntentView,
    /// In order.
    pub attempts: Vec<AttemptView>,
}
