//! Where jobs, leases, results, agents and events are kept, and what every database must promise about it.
//!
//! Time is the database's: a lease runs out, and an agent is silent, by its clock. Whatever changes something takes a
//! term, goes through its fence, and stamps what it writes with the term's epoch.

mod columns;
pub mod postgres;
pub mod sqlite;

use std::time::Duration;

use async_trait::async_trait;
use tenure::{Term, fence::FenceError};
use tenure_database::DatabaseError;
use tenure_http::KnownLeader;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    agent::AgentView,
    event::{Event, Span},
    job::{Filter, JobView, NewJob, Row},
    queue::Queued,
    round::{OpenLease, Round, RunOut, Submitted, Written},
};

/// How long things last, by the database's clock.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A job's lease, unless its agent is heard.
    pub job_lease: Duration,
    /// How long an agent may be silent until it is stale.
    pub stale_after: Duration,
    /// Until it is a tombstone.
    pub tombstone_after: Duration,
    /// Until it is forgotten.
    pub forget_after: Duration,
    /// How many events are kept.
    pub events_kept: i64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            job_lease: Duration::from_secs(30),
            stale_after: Duration::from_secs(15),
            tombstone_after: Duration::from_secs(30),
            forget_after: Duration::from_secs(60),
            events_kept: 1_000_000,
        }
    }
}

/// Keeps jobs. Methods that change something take a term: only the one that leads can write.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The first change of a term: who leads and where is known, and by which name its events go.
    async fn take_over(&self, term: &Term, leader_url: Option<&str>) -> Result<(), StoreError>;

    /// Writes a round, all of it or nothing, and numbers its events in the order of commits.
    async fn write(&self, term: &Term, round: &Round) -> Result<Written, StoreError>;

    /// Jobs of one priority above a row that can be leased, the oldest first.
    async fn queued(&self, priority: i16, above: Row, most: i64)
    -> Result<Vec<Queued>, StoreError>;

    /// Open leases that terms before this one have granted.
    async fn inherited(&self, term: &Term) -> Result<Vec<OpenLease>, StoreError>;

    /// How many leases are open.
    async fn open_leases(&self) -> Result<i64, StoreError>;

    /// Whether anything has run out: a pause or a deadline of a job, the room for events, and what else is asked for.
    async fn has_run_out(&self, term: &Term, what: RunOut) -> Result<bool, StoreError>;

    /// One job.
    async fn job(&self, namespace: &str, job_id: &str) -> Result<Option<JobView>, StoreError>;

    /// Jobs, the newest first.
    async fn jobs(&self, filter: &Filter) -> Result<Vec<JobView>, StoreError>;

    /// The agents of a namespace.
    async fn agents(&self, namespace: &str) -> Result<Vec<AgentView>, StoreError>;

    /// Who led last.
    async fn leader(&self) -> Result<Option<KnownLeader>, StoreError>;

    /// Which events there are, and how the one with this number is named.
    async fn span(&self, there: i64) -> Result<Span, StoreError>;

    /// The events of a namespace above a number and up to another, in their order.
    async fn events(
        &self,
        namespace: &str,
        above: i64,
        up_to: i64,
    ) -> Result<Vec<Event>, StoreError>;

    /// Makes ready for being the leader, so that a takeover need not. Best effort.
    async fn rehearse(&self) {}

    /// Changes whenever events may have been written, here or elsewhere.
    fn news(&self) -> watch::Receiver<u64>;
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
    /// Leaders of two scopes must not write the same jobs: their fences know nothing of each other.
    #[error("the jobs in this database belong to the scope '{theirs}', not to '{ours}' (--scope)")]
    OtherScope {
        /// Whose they are.
        theirs: String,
        /// Who wants to lead.
        ours: String,
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

/// A name for the events of a term, which no other term has, nor the same one before a restore.
fn new_history() -> String {
    Uuid::new_v4().simple().to_string()[..12].to_owned()
}

/// By which name events go; those of before there were any have none of their own.
fn known_history(name: Option<String>) -> String {
    name.unwrap_or_else(|| "0".to_owned())
}

/// Refuses a leader of another scope; nobody has led before where no scope is known.
fn refuse_other(theirs: &str, term: &Term) -> Result<(), StoreError> {
    let ours = term.scope().as_str();
    match theirs.is_empty() || theirs == ours {
        true => Ok(()),
        false => Err(StoreError::OtherScope { theirs: theirs.to_owned(), ours: ours.to_owned() }),
    }
}

/// What came of jobs: `is_new` where they were stored now, otherwise the hash of what has their id.
fn compare(job: &NewJob, known: Option<&[u8]>) -> Submitted {
    match known {
        Some(known) if known != job.content_hash => Submitted::Conflict,
        _ => Submitted::Stored,
    }
}
