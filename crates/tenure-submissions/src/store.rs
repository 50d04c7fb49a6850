//! Where intents and attempts are kept, and what every database must promise about it.
//!
//! Time is the database's. Every statement that writes an intent sets `last_modified_at`, raises `version` and
//! leaves a marker by which a refresh finds it, in whatever order transactions commit.

mod batch;
mod columns;
pub mod postgres;
pub mod sqlite;
pub mod sqlserver;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tenure::{Term, fence::FenceError};
use tenure_database::DatabaseError;
use tokio::sync::mpsc;

use crate::{
    contract::{Contract, Webhook},
    intent::{AttemptView, ExhaustedReason, IntentView},
    policy::{Next, Outcome},
    schedule::{Change, Micros, Row, Version},
};

/// What one request asks to be stored.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The client's own id.
    pub intent_id: String,
    /// The target.
    pub submission_target: String,
    /// The payload, byte for byte.
    pub payload: Bytes,
    /// Its SHA-256.
    pub payload_hash: [u8; 32],
    /// What the registry says about the target now.
    pub contract: Arc<Contract>,
}

/// An intent as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of its row.
    pub row: Row,
    /// As it is shown.
    pub view: IntentView,
    /// How many attempts have an outcome.
    pub attempts: i32,
    /// What was submitted under this id.
    pub payload_hash: [u8; 32],
}

impl Stored {
    /// Whether whoever waits for it has waited long enough.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.view.status.is_terminal() || self.attempts > 0
    }
}

/// What came of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// It is stored, and durable.
    New(Stored),
    /// It was there before, the same.
    Existing(Stored),
    /// Something else has its id.
    Conflict {
        /// The target of that.
        existing_target: String,
    },
    /// The database does not take it, and never will.
    Refused,
}

/// Where a refresh goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The store's own marker.
    pub marker: String,
    /// Which server, and which history of it; another one means that everything must be read again.
    pub server: String,
}

/// What a rebuild has read.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// All that is pending.
    pub changes: Vec<Change>,
    /// Where the first refresh goes on.
    pub position: Position,
}

/// What a refresh has read.
#[derive(Clone, Debug, Default)]
pub struct Refreshed {
    /// In the order of `(last_modified_at, intent_id)`.
    pub changes: Vec<Change>,
    /// Where the next refresh goes on.
    pub position: Position,
    /// The database's clock.
    pub now: Micros,
}

/// An intent that was taken for an attempt.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The number of its row.
    pub row: Row,
    /// What the row's version is with this reservation.
    pub version: Version,
    /// The client's own id.
    pub intent_id: String,
    /// The payload, byte for byte.
    pub payload: Bytes,
    /// What was agreed; without the webhook.
    pub contract: Contract,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it was due.
    pub due_at: Timestamp,
    /// The number of the attempt.
    pub number: i32,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// A leader that did not live to record it began it before.
    pub is_repeat: bool,
    /// The attempt whose key is sent, because what came of its call is not known.
    pub held_key: Option<i32>,
}

impl Reservation {
    /// The number in the key that is sent.
    #[must_use]
    pub fn key_number(&self) -> i32 {
        self.held_key.unwrap_or(self.number)
    }

    /// Whether a call under that key may have been made before.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.is_repeat || self.held_key.is_some()
    }
}

/// What came of taking an intent.
#[derive(Clone, Debug)]
#[must_use]
pub enum Reserve {
    /// It may be tried.
    Ready(Box<Reservation>),
    /// It must not be tried again, and has ended with that.
    GivenUp(GivenUp),
    /// It is not due, or has ended; this is what it is.
    NotNow(Change),
}

impl Reserve {
    /// Of which intent.
    #[must_use]
    pub fn row(&self) -> Row {
        match self {
            Self::Ready(reservation) => reservation.row,
            Self::GivenUp(given_up) => given_up.ended.change.row,
            Self::NotNow(change) => change.row,
        }
    }
}

/// An attempt whose outcome is known.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Of which intent.
    pub row: Row,
    /// The number of the attempt.
    pub number: i32,
    /// When it began.
    pub started_at: Timestamp,
    /// When its outcome was known.
    pub finished_at: Timestamp,
    /// What came of it.
    pub outcome: Outcome,
    /// What follows.
    pub next: Next,
    /// The number in the key that was sent.
    pub key_number: i32,
    /// The attempt whose key is sent from now on, until its outcome is known.
    pub held_key: Option<i32>,
}

/// What an intent is after an attempt was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// For the schedule.
    pub change: Change,
    /// Whether somebody is to be told.
    pub has_webhook: bool,
}

/// An intent that ended without another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// What it is now.
    pub ended: Ended,
    /// Why.
    pub reason: ExhaustedReason,
    /// From its submission to its end.
    pub took: SignedDuration,
}

/// What becomes of a one-shot that a leader began and did not live to record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OneShot {
    /// It is tried again under the same key: a gateway that honours it sees one submission.
    #[default]
    Repeat,
    /// It has ended, its outcome unknown.
    GiveUp,
}

/// A webhook that was taken for its one attempt.
#[derive(Clone, Debug)]
pub struct WebhookDue {
    /// Of which intent.
    pub row: Row,
    /// The intent, as it is shown.
    pub intent: IntentView,
    /// Whom to tell.
    pub webhook: Webhook,
    /// When it was taken.
    pub occurred_at: Timestamp,
}

/// What a store tells between two calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Intents were stored, here or elsewhere.
    Stored,
    /// Attempts of these were recorded.
    Done(Vec<Row>),
    /// Something may have been missed: ask.
    Missed,
}

/// What is done with each of many, as they come.
pub type Each<'e> = &'e mut (dyn FnMut(Change) + Send);

/// Keeps intents. Methods that change what is executed take a term: only the one that leads can write.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Stores submissions, each at most once; answers for each, in their order, when all are durable.
    async fn submit(&self, batch: &[Submission]) -> Result<Vec<Submitted>, StoreError>;

    /// Intents by id; those that are not there are left out.
    async fn find(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError>;

    /// Intents by row; those that are not there are left out.
    async fn find_rows(&self, rows: &[Row]) -> Result<Vec<Stored>, StoreError>;

    /// What was tried for an intent, in order.
    async fn attempts(&self, intent_id: &str) -> Result<Vec<AttemptView>, StoreError>;

    /// Hands over all that is pending at one moment, as it comes; the position of that moment.
    async fn pending(&self, each: Each<'_>) -> Result<Position, StoreError>;

    /// All that is pending, and the position, at one moment.
    async fn rebuild(&self) -> Result<Read, StoreError> {
        let mut changes = Vec::new();
        let position = self.pending(&mut |change| changes.push(change)).await?;
        Ok(Read { changes, position })
    }

    /// All that was written since a position, in whatever order it was committed. What is read twice has the
    /// same version.
    async fn refresh(&self, since: &Position) -> Result<Refreshed, StoreError>;

    /// The database's clock.
    async fn now(&self) -> Result<Micros, StoreError>;

    /// Takes intents for one attempt each.
    async fn reserve(
        &self,
        term: &Term,
        rows: &[Row],
        one_shot: OneShot,
    ) -> Result<Vec<Reserve>, StoreError>;

    /// Gives back what this term has taken and nobody was called for.
    async fn unreserve(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError>;

    /// Records outcomes; what has moved on is left out.
    async fn record(&self, term: &Term, finished: &[Finished]) -> Result<Vec<Ended>, StoreError>;

    /// Webhooks without a result above this row, and whether somebody began to send each.
    async fn pending_webhooks(&self, above: Row, most: i64)
    -> Result<Vec<(Row, bool)>, StoreError>;

    /// Takes webhooks for their one attempt; those that somebody began are left out.
    async fn begin_webhooks(
        &self,
        term: &Term,
        rows: &[Row],
    ) -> Result<Vec<WebhookDue>, StoreError>;

    /// Gives back webhooks that this term has taken and not sent.
    async fn unbegin_webhooks(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError>;

    /// Keeps the results of webhooks: an error, or none.
    async fn finish_webhooks(
        &self,
        term: &Term,
        results: &[(Row, Option<String>)],
    ) -> Result<(), StoreError>;

    /// Starts telling what happens, for as long as the store lives.
    fn news(&self) -> mpsc::UnboundedReceiver<News>;
}

/// What a store says other than an answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The term is over, or the fence gave no answer.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// No answer: a write may or may not have been applied.
    #[error("the database did not answer")]
    Database(#[from] DatabaseError),
    /// The database holds something that this program never wrote.
    #[error("the database holds {what}, which cannot be read")]
    Unreadable {
        /// What.
        what: String,
    },
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}
