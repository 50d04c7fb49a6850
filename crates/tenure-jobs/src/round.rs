//! One round of the leader: what many requests ask for, written in one transaction, and what came of each.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    agent::Heartbeat,
    job::{JobEpoch, NewJob, Row},
    queue::Queued,
};

/// What is written together, in this order. However much there is to do, a round has so little of it that it is
/// written within its time.
#[derive(Clone, Debug)]
pub struct Round {
    /// Agents that were heard.
    pub heartbeats: Vec<Heartbeat>,
    /// Results; no job twice.
    pub results: Vec<Reported>,
    /// Jobs that are taken from their agents.
    pub recalls: Vec<Recall>,
    /// Agents that are gone: tombstones.
    pub burials: Vec<AgentName>,
    /// What else is taken back.
    pub reaping: Option<Reaping>,
    /// New jobs; no id twice.
    pub jobs: Vec<NewJob>,
    /// Leases.
    pub grants: Vec<Grant>,
    /// Whether leases that earlier terms granted count though they ran out: they may have while nobody led, and nobody
    /// could be told.
    pub spares: bool,
    /// How many leases heartbeats move ahead, and how many of each kind are taken back, at most.
    pub most: usize,
}

/// Jobs that are taken back without anybody asking for it, and agents that fall silent.
#[derive(Clone, Debug, Default)]
pub struct Reaping {
    /// Leases that no agent knows of: whoever asked was gone, or got another answer.
    pub strays: Vec<String>,
    /// An agent that works no more: what it has is queued again.
    pub emptied: Option<Emptied>,
    /// What has run out by itself, if that is looked for.
    pub run_out: Option<RunOut>,
}

/// What is looked at, beside leases, the pauses and deadlines of jobs, and the room for events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOut {
    /// Whether leases that earlier terms granted are spared.
    pub spares: bool,
    /// Whether the patience with agents is looked at.
    pub agents: bool,
}

/// An agent whose jobs are taken from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emptied {
    /// Where; without this, everywhere.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: &'static str,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            heartbeats: Vec::new(),
            results: Vec::new(),
            recalls: Vec::new(),
            burials: Vec::new(),
            reaping: None,
            jobs: Vec::new(),
            grants: Vec::new(),
            spares: false,
            most: Self::MOST,
        }
    }
}

impl Round {
    /// As many jobs as a round touches where the database is fast enough.
    pub const MOST: usize = 4_096;

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { heartbeats, results, recalls, burials, reaping, jobs, grants, .. } = self;
        heartbeats.is_empty()
            && results.is_empty()
            && recalls.is_empty()
            && burials.is_empty()
            && reaping.is_none()
            && jobs.is_empty()
            && grants.is_empty()
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// For each heartbeat, the leases that it names and that are its agent's no more.
    pub gone: Vec<Vec<String>>,
    /// How many leases were moved ahead: as many as may be at once, if there are more.
    pub extended: usize,
    /// For each result.
    pub verdicts: Vec<Verdict>,
    /// For each recall.
    pub recalled: Vec<Recalled>,
    /// Whether there was such an agent, and it is a tombstone only now.
    pub buried: Vec<AgentName>,
    /// For each job.
    pub submitted: Vec<Submitted>,
    /// For each lease; what could not be handed over is missing.
    pub tasks: Vec<Vec<Task>>,
    /// What can be leased from now on: new, or taken back.
    pub queued: Vec<Queued>,
    /// What was taken back without anybody asking for it.
    pub reaped: Reaped,
}

/// How much was taken back; as much as may be at once, if there is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Of the agent that works no more.
    pub emptied: usize,
    /// Of what has run out, of the kind that had the most.
    pub run_out: usize,
}

/// A result, as an agent reports it.
#[derive(Clone, Debug)]
pub struct Reported {
    /// Where the job is; otherwise where the lease was granted.
    pub namespace: Option<String>,
    /// Under which lease it was done.
    pub lease_id: String,
    /// By whom, if that was said: then the lease must be that agent's.
    pub agent: Option<String>,
    /// Which job.
    pub job_id: String,
    /// Which epoch of it.
    pub job_epoch: JobEpoch,
    /// Whether it could be done.
    pub status: Status,
    /// What came of it, as it was sent.
    pub result: Option<Box<RawValue>>,
    /// Why it could not be done.
    pub error: Option<JobError>,
}

/// Why a job could not be done, as its agent says it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum JobError {
    /// In words.
    Text(String),
    /// In any other form, as it was sent.
    #[schema(value_type = Value)]
    Value(Box<RawValue>),
}

impl JobError {
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Value(value) => value.get().len(),
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Value(_) => None,
        }
    }

    pub(crate) fn value(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Value(value) => Some(value.get()),
        }
    }
}

impl Reported {
    /// How many bytes it brings.
    pub(crate) fn size(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.get().len());
        result + self.error.as_ref().map_or(0, JobError::size)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Succeeded,
    /// It could not be done.
    Failed,
    /// It was not brought to its end, for a reason that is not its own: somebody else is to do it.
    GivenBack,
}

impl Status {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Succeeded, Self::Failed, Self::GivenBack];
        all.into_iter().find(|status| status.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::GivenBack => "given_back",
        }
    }
}

/// What became of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The job has ended with it.
    Accepted,
    /// The job had ended with just this.
    Duplicate,
    /// There is no such job.
    NotFound,
    /// The job has moved on.
    StaleJob {
        /// Its epoch now.
        job_epoch: JobEpoch,
    },
    /// The lease is over, or another's.
    StaleLease {
        /// The job's epoch.
        job_epoch: JobEpoch,
    },
}

impl Verdict {
    /// By the name that the statements have for it; `None` for what they never say.
    pub(crate) fn named(name: &str, job_epoch: Option<JobEpoch>) -> Option<Self> {
        let job_epoch = job_epoch.unwrap_or(0);
        Some(match name {
            "accepted" => Self::Accepted,
            "duplicate" => Self::Duplicate,
            "not_found" => Self::NotFound,
            "stale_job" => Self::StaleJob { job_epoch },
            "stale_lease" => Self::StaleLease { job_epoch },
            _ => return None,
        })
    }
}

/// A job that is taken from its agent.
#[derive(Clone, Debug)]
pub struct Recall {
    /// Its namespace.
    pub namespace: String,
    /// Its id.
    pub job_id: String,
    /// Only under this epoch.
    pub job_epoch: Option<JobEpoch>,
    /// Only under this lease.
    pub lease_id: Option<String>,
    /// Why.
    pub reason: String,
}

/// What became of a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Recalled {
    /// It is queued again.
    Back {
        /// Its epoch now.
        job_epoch: JobEpoch,
    },
    /// No agent had it.
    NotLeased {
        /// Its epoch.
        job_epoch: JobEpoch,
    },
    /// There is no such job.
    NotFound,
    /// It has moved on since.
    StaleJob {
        /// Its epoch now.
        job_epoch: JobEpoch,
    },
    /// The lease that was meant is over.
    StaleLease {
        /// The job's epoch.
        job_epoch: JobEpoch,
    },
}

/// Where a job stands that is to be recalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub job_epoch: JobEpoch,
    pub is_leased: bool,
    pub is_other_epoch: bool,
    pub is_other_lease: bool,
}

impl Standing {
    pub(crate) fn recalled(self) -> Recalled {
        let job_epoch = self.job_epoch;
        match self {
            Self { is_other_epoch: true, .. } => Recalled::StaleJob { job_epoch },
            Self { is_other_lease: true, .. } => Recalled::StaleLease { job_epoch },
            Self { is_leased: true, .. } => Recalled::Back { job_epoch: job_epoch + 1 },
            _ => Recalled::NotLeased { job_epoch },
        }
    }
}

/// Which agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentName {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

/// What came of submitting a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// It is stored, now or before: it is the same.
    Stored,
    /// Something else has its id.
    Conflict,
    /// It is stored, or was before; whether it is the same could not be found out.
    Unknown,
}

/// A lease: queued jobs for one agent.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Known to nobody but the agent that gets it.
    pub lease_id: String,
    /// Where the agent works.
    pub namespace: String,
    /// Its name there.
    pub agent: String,
    /// How long it lasts, if the agent wants another length than the usual one.
    pub lasts: Option<Duration>,
    /// Which jobs, and the epoch that each must have.
    pub jobs: Vec<(Row, JobEpoch)>,
}

/// A lease with jobs that have not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLease {
    /// Its id.
    pub lease_id: String,
    /// Where its agent works.
    pub namespace: String,
    /// The agent's name there.
    pub agent: String,
}

/// A job, as it is handed to an agent.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its row.
    pub row: Row,
    /// Its id.
    pub job_id: String,
    /// Its epoch.
    pub job_epoch: JobEpoch,
    /// What is to be done.
    pub op: String,
    /// With what.
    pub payload: Box<RawValue>,
    /// The only agent that gets it.
    pub pinned_agent: Option<String>,
}
