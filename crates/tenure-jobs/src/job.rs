//! A job: what is to be done, who does it, and what came of it.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::round::JobError;

/// The number of a job's row: what the leader queues by, and the order of age.
pub type Row = i64;
/// Grows whenever a lease of the job ends without a result: tells an old agent's result from the current one's.
pub type JobEpoch = i64;

/// Where jobs go that name no namespace.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The most urgent priority.
pub const HIGHEST_PRIORITY: i16 = 3;
/// What a job has that names none.
pub const DEFAULT_PRIORITY: i16 = 1;

/// A job as it is submitted.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Jobs of another namespace are never seen from this one.
    pub namespace: String,
    /// The submitter's own id, or one that was made for it.
    pub job_id: String,
    /// What is to be done: only agents that can do it get the job.
    pub op: String,
    /// What it is done with, as it was sent.
    pub payload: Box<RawValue>,
    /// 0 to 3, the highest first.
    pub priority: i16,
    /// The only agent that gets it.
    pub pinned_agent: Option<String>,
    /// How often and how long it may be tried.
    pub limits: Limits,
    /// What makes the job this one; the same id with another is a conflict.
    pub content_hash: [u8; 32],
}

/// How often and how long a job may be tried; without a limit, for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// So many leases that were lost end it. What was given back, or recalled, does not count.
    pub lost_leases: Option<i32>,
    /// So many failures end it: one, if this is not said.
    pub failures: Option<i32>,
    /// The pause after the first failure; it doubles with each.
    pub retry_after: Option<Duration>,
    /// How long one run may take, whatever its agent says.
    pub run: Option<Duration>,
    /// How long from now until it must have ended.
    pub deadline: Option<Duration>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for an agent.
    Queued,
    /// An agent works on it.
    Leased,
    /// It is done.
    Succeeded,
    /// It could not be done.
    Failed,
}

impl State {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Queued, Self::Leased, Self::Succeeded, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// A job as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobView {
    /// Its id, within its namespace.
    pub job_id: String,
    /// Its namespace.
    pub namespace: String,
    /// What is to be done.
    pub op: String,
    /// What it is done with.
    #[schema(value_type = Value)]
    pub payload: Box<RawValue>,
    /// 0 to 3, the highest first.
    pub priority: i16,
    /// The only agent that gets it.
    pub pinned_agent: Option<String>,
    /// Where it stands.
    pub state: State,
    /// Grows whenever a lease of the job ends without a result.
    pub job_epoch: JobEpoch,
    /// The term of the leader that changed it last.
    pub leader_epoch: i64,
    /// The lease that it is, or was, done under.
    pub lease_id: Option<String>,
    /// Who does it, or did.
    pub leased_by: Option<String>,
    /// When that lease ends.
    #[schema(value_type = Option<String>)]
    pub lease_expires_at: Option<Timestamp>,
    /// What came of it.
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// Why it could not be done.
    #[schema(value_type = Option<Value>)]
    pub error: Option<JobError>,
    /// How many of its leases were lost.
    pub lost_leases: i32,
    /// How often it failed and was tried again.
    pub failures: i32,
    /// When it is tried again, if it failed.
    #[schema(value_type = Option<String>)]
    pub not_before: Option<Timestamp>,
    /// By when it must have ended.
    #[schema(value_type = Option<String>)]
    pub deadline_at: Option<Timestamp>,
    /// When it was submitted.
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<String>)]
    pub completed_at: Option<Timestamp>,
    /// From its last lease to its end.
    pub duration_ms: Option<i64>,
}

/// Which jobs to list.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Of this namespace.
    pub namespace: String,
    /// In this state.
    pub state: Option<State>,
    /// Leased by this agent.
    pub agent: Option<String>,
    /// With this op.
    pub op: Option<String>,
    /// Submitted at this moment or later.
    pub since: Option<Timestamp>,
    /// At most so many.
    pub most: i64,
}
