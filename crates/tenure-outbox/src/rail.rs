//! Where instructions go: a rail takes one and says what came of it.

mod command;
mod http;
mod settings;

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::settings::SettingsError;
use crate::claim::Claim;

/// The rail did not answer in time; what it did is unknown.
pub const DISPATCH_TIMEOUT: &str = "DISPATCH_TIMEOUT";
/// The rail could not be reached, or what it answered could not be understood.
pub const DISPATCH_ERROR: &str = "DISPATCH_ERROR";
/// The payload is nothing that the rail could take.
pub const INVALID_PAYLOAD: &str = "INVALID_PAYLOAD";

/// Takes instructions of its types.
///
/// A rail is called again with the same idempotency key when an answer was lost, when a worker died, or when it
/// said RETRYABLE; it must not pay twice for one key.
#[async_trait]
pub trait Rail: Send + Sync + 'static {
    /// Hands the instruction over. Whoever calls gives up after the rail's timeout, so it need not look after time.
    async fn dispatch(&self, claim: &Claim) -> Outcome;
}

/// What a worker may tell of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The rail has taken it: done.
    Dispatched,
    /// To be tried again.
    Retryable,
    /// Never to be tried again.
    Failed,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dispatched, Self::Retryable, Self::Failed];

    /// As the database spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dispatched => "DISPATCHED",
            Self::Retryable => "RETRYABLE",
            Self::Failed => "FAILED",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// What a rail says of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What becomes of the instruction.
    pub state: State,
    /// What the rail calls the payment.
    pub rail_reference: Option<String>,
    /// The rail's own code.
    pub rail_code: Option<String>,
    /// What went wrong, in a word.
    pub error_code: Option<String>,
    /// What went wrong, in a sentence.
    pub error_message: Option<String>,
}

impl Outcome {
    /// The rail has taken it.
    #[must_use]
    pub fn dispatched() -> Self {
        Self {
            state: State::Dispatched,
            rail_reference: None,
            rail_code: None,
            error_code: None,
            error_message: None,
        }
    }

    /// It may be tried again.
    #[must_use]
    pub fn retryable(code: &str, message: impl Into<String>) -> Self {
        Self {
            state: State::Retryable,
            error_code: Some(code.to_owned()),
            error_message: Some(message.into()),
            ..Self::dispatched()
        }
    }

    /// It must not be tried again.
    #[must_use]
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self { state: State::Failed, ..Self::retryable(code, message) }
    }
}

/// The rails of a worker, by the type of instruction that each takes.
#[derive(Clone)]
pub struct Rails {
    by_type: HashMap<String, Entry>,
    timeout: Duration,
}

#[derive(Clone)]
struct Entry {
    rail: Arc<dyn Rail>,
    timeout: Duration,
}

impl Rails {
    /// No rails yet; each is given up on after `timeout`, unless it has its own.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self { by_type: HashMap::new(), timeout }
    }

    /// The rails that a TOML file describes.
    pub fn read(path: &Path, timeout: Duration) -> Result<Self, SettingsError> {
        settings::read(path, timeout)
    }

    /// With a rail for this type.
    #[must_use]
    pub fn with(mut self, rail_type: &str, rail: Arc<dyn Rail>) -> Self {
        self.add(rail_type, rail, None);
        self
    }

    fn add(&mut self, rail_type: &str, rail: Arc<dyn Rail>, timeout: Option<Duration>) {
        let timeout = timeout.unwrap_or(self.timeout);
        self.by_type.insert(rail_type.to_owned(), Entry { rail, timeout });
    }

    /// The types that are taken.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.by_type.keys().map(String::as_str)
    }

    /// Whether there is a rail for it.
    #[must_use]
    pub fn takes(&self, claim: &Claim) -> bool {
        self.by_type.contains_key(&claim.rail_type)
    }

    /// The longest that any dispatch may take.
    #[must_use]
    pub fn longest_timeout(&self) -> Duration {
        self.by_type.values().map(|entry| entry.timeout).max().unwrap_or(self.timeout)
    }

    /// How long a dispatch of this claim may take.
    #[must_use]
    pub fn timeout_of(&self, claim: &Claim) -> Duration {
        self.by_type.get(&claim.rail_type).map_or(self.timeout, |entry| entry.timeout)
    }

    /// Hands a claim to the rail of its type, and gives up on it after that rail's timeout.
    pub async fn dispatch(&self, claim: &Claim) -> Outcome {
        let Some(Entry { rail, timeout }) = self.by_type.get(&claim.rail_type) else {
            let message = format!("this worker has no rail for rail_type {:?}", claim.rail_type);
            return Outcome::retryable(DISPATCH_ERROR, message);
        };
        tokio::select! {
            // After a pause both may be there: what the rail says counts.
            biased;
            outcome = rail.dispatch(claim) => outcome,
            () = tokio::time::sleep(*timeout) => {
                Outcome::retryable(DISPATCH_TIMEOUT, format!("no answer within {timeout:?}"))
            }
        }
    }
}

impl std::fmt::Debug for Rails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.types()).finish()
    }
}

/// Takes everything and does nothing: to try the outbox with, and to measure it.
#[derive(Clone, Copy, Debug)]
pub struct Noop;

#[async_trait]
impl Rail for Noop {
    async fn dispatch(&self, _: &Claim) -> Outcome {
        Outcome::dispatched()
    }
}
