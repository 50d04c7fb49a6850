//! What was agreed with a target when an intent was submitted: a snapshot that later edits never touch.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What kind of gateway takes the submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayType {
    /// Short messages.
    Sms,
    /// Push notifications.
    Push,
}

impl GatewayType {
    /// The reasons with which such a gateway may reject.
    #[must_use]
    pub fn outcomes(self) -> &'static [&'static str] {
        match self {
            Self::Sms => &[
                "invalid_request",
                "duplicate_reference",
                "invalid_recipient",
                "invalid_message",
                "provider_failure",
            ],
            Self::Push => &[
                "invalid_request",
                "duplicate_reference",
                "provider_failure",
                "unregistered_token",
            ],
        }
    }

    /// The path below the gateway's URL.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Sms => "/sms/send",
            Self::Push => "/push/send",
        }
    }

    /// As it is stored and configured.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sms => "sms",
            Self::Push => "push",
        }
    }
}

impl FromStr for GatewayType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Sms, Self::Push].into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// Until when an intent is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Within so many seconds of its creation.
    Deadline {
        /// How many.
        max_acceptance_seconds: i64,
    },
    /// So many times.
    MaxAttempts {
        /// How many.
        max_attempts: i32,
    },
    /// Once.
    OneShot,
}

impl Policy {
    /// As it is stored and configured.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deadline { .. } => "deadline",
            Self::MaxAttempts { .. } => "max_attempts",
            Self::OneShot => "one_shot",
        }
    }

    /// From what is stored; `None` for what nobody stores.
    #[must_use]
    pub fn stored(name: &str, seconds: Option<i64>, attempts: Option<i32>) -> Option<Self> {
        match (name, seconds, attempts) {
            ("deadline", Some(max_acceptance_seconds), _) => {
                Some(Self::Deadline { max_acceptance_seconds })
            }
            ("max_attempts", _, Some(max_attempts)) => Some(Self::MaxAttempts { max_attempts }),
            ("one_shot", _, _) => Some(Self::OneShot),
            _ => None,
        }
    }
}

/// Whom to tell when an intent is terminal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Webhook {
    /// Where to.
    pub url: String,
    /// Headers as they are.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are in these variables of the environment.
    pub headers_env: BTreeMap<String, String>,
    /// The variable with the secret that signs.
    pub secret_env: Option<String>,
}

/// Without the values of headers, which may be secrets.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Everything that an attempt needs to know about its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contract {
    /// What kind of gateway.
    pub gateway_type: GatewayType,
    /// Where it is.
    pub gateway_url: String,
    /// Until when to try.
    pub policy: Policy,
    /// The reasons that end an intent when the gateway rejects it.
    pub terminal_outcomes: Vec<String>,
    /// Whom to tell.
    pub webhook: Option<Webhook>,
}
