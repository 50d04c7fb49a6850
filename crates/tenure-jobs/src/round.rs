//! One round of the leader: what many requests ask for, written in one transaction, and what came of each.

use crate::{
    agent::Heartbeat,
    job::{JobEpoch, NewJob, Row},
    queue::Queued,
};
use serde_json::value::RawValue;

/// What is written together, in this order.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Agents that were heard.
    pub heartbeats: Vec<Heartbeat>,
    /// Results; no job twice.
    pub results: Vec<Reported>,
    /// Jobs that are taken from their agents.
    pub recalls: Vec<Recall>,
    /// Leases that no agent knows of: whoever asked was gone, or got another answer.
    pub strays: Vec<String>,
    /// Agents that are gone: tombstones, and what they have is queued again.
    pub burials: Vec<AgentName>,
    /// Whether to look for what has run out: leases, and the patience with agents.
    pub reaps: bool,
    /// New jobs; no id twice.
    pub jobs: Vec<NewJob>,
    /// Leases.
    pub grants: Vec<Grant>,
}

impl Round {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { heartbeats, results, recalls, strays, burials, reaps, jobs, grants } = self;
        heartbeats.is_empty()
            && results.is_empty()
            && recalls.is_empty()
            && strays.is_empty()
            && burials.is_empty()
            && !reaps
            && jobs.is_empty()
            && grants.is_empty()
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// For each result.
    pub verdicts: Vec<Verdict>,
    /// Whether there was such an agent, and it is a tombstone only now.
    pub buried: Vec<AgentName>,
    /// For each job.
    pub submitted: Vec<Submitted>,
    /// For each lease; what could not be handed over is missing.
    pub tasks: Vec<Vec<Task>>,
    /// What can be leased from now on: new, or taken back.
    pub queued: Vec<Queued>,
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
    pub error: Option<String>,
}

impl Reported {
    /// How many bytes it brings.
    pub(crate) fn size(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.get().len());
        result + self.error.as_ref().map_or(0, String::len)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Succeeded,
    /// It could not be done.
    Failed,
}

impl Status {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Succeeded, Self::Failed].into_iter().find(|status| status.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
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
    /// Why.
    pub reason: String,
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
