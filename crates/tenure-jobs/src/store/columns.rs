//! What columns mean, whichever database has them.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::StoreError;
use crate::{
    agent::AgentView,
    event::Event,
    job::{JobEpoch, JobView, State},
    round::JobError,
};

/// A job and its result, moments in microseconds since 1970.
pub(super) struct JobColumns {
    pub job_id: String,
    pub namespace: String,
    pub op: String,
    pub payload: String,
    pub priority: i16,
    pub pinned_agent: Option<String>,
    pub state: String,
    pub job_epoch: JobEpoch,
    pub leader_epoch: i64,
    pub lease_id: Option<String>,
    pub leased_by: Option<String>,
    pub leased_at: Option<i64>,
    pub lease_expires_at: Option<i64>,
    pub created_at: i64,
    pub completed_at: Option<i64>,
    pub result: Option<String>,
    pub error: Option<String>,
    pub error_value: Option<String>,
    pub lost_leases: i32,
    pub failures: i32,
    pub not_before: Option<i64>,
    pub deadline_at: Option<i64>,
}

impl JobColumns {
    pub(super) fn view(self) -> Result<JobView, StoreError> {
        let span = self.completed_at.zip(self.leased_at);
        Ok(JobView {
            state: State::named(&self.state).ok_or_else(|| unreadable("a job's state"))?,
            payload: json(self.payload)?,
            result: self.result.map(json).transpose()?,
            lease_expires_at: self.lease_expires_at.map(timestamp).transpose()?,
            created_at: timestamp(self.created_at)?,
            completed_at: self.completed_at.map(timestamp).transpose()?,
            duration_ms: span.map(|(completed_at, leased_at)| (completed_at - leased_at) / 1_000),
            job_id: self.job_id,
            namespace: self.namespace,
            op: self.op,
            priority: self.priority,
            pinned_agent: self.pinned_agent,
            job_epoch: self.job_epoch,
            leader_epoch: self.leader_epoch,
            // One that ended without an agent has an empty one.
            lease_id: self.lease_id.filter(|lease_id| !lease_id.is_empty()),
            leased_by: self.leased_by,
            error: error(self.error, self.error_value)?,
            lost_leases: self.lost_leases,
            failures: self.failures,
            not_before: self.not_before.map(timestamp).transpose()?,
            deadline_at: self.deadline_at.map(timestamp).transpose()?,
        })
    }
}

/// An agent.
pub(super) struct AgentColumns {
    pub name: String,
    pub namespace: String,
    pub state: String,
    pub labels: String,
    pub capabilities: String,
    pub worker_profile: String,
    pub metrics: String,
    pub leader_epoch: i64,
    pub first_seen_at: i64,
    pub last_seen_at: i64,
}

impl AgentColumns {
    pub(super) fn view(self) -> Result<AgentView, StoreError> {
        Ok(AgentView {
            name: self.name,
            namespace: self.namespace,
            state: self.state,
            labels: json(self.labels)?,
            capabilities: json(self.capabilities)?,
            worker_profile: json(self.worker_profile)?,
            metrics: json(self.metrics)?,
            leader_epoch: self.leader_epoch,
            first_seen_at: timestamp(self.first_seen_at)?,
            last_seen_at: timestamp(self.last_seen_at)?,
        })
    }
}

/// An event.
pub(super) struct EventColumns {
    pub event_number: i64,
    pub namespace: String,
    pub kind: String,
    pub job_id: Option<String>,
    pub job_epoch: Option<JobEpoch>,
    pub agent: Option<String>,
    pub detail: Option<String>,
    pub lease_id: Option<String>,
    pub leader_epoch: i64,
    pub recorded_at: i64,
    pub history: String,
}

impl EventColumns {
    pub(super) fn event(self) -> Result<Event, StoreError> {
        Ok(Event {
            number: self.event_number,
            history: self.history,
            kind: self.kind,
            namespace: self.namespace,
            job_id: self.job_id,
            job_epoch: self.job_epoch,
            agent: self.agent,
            detail: self.detail,
            lease_id: self.lease_id,
            leader_epoch: self.leader_epoch,
            at: timestamp(self.recorded_at)?,
        })
    }
}

fn error(text: Option<String>, value: Option<String>) -> Result<Option<JobError>, StoreError> {
    Ok(match value {
        Some(value) => Some(JobError::Value(json(value)?)),
        None => text.map(JobError::Text),
    })
}

pub(super) fn json(text: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(text).map_err(|_| unreadable("something that is not JSON"))
}

pub(super) fn timestamp(micros: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros).map_err(|_| unreadable("a moment out of range"))
}

pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable { what: what.to_owned() }
}
