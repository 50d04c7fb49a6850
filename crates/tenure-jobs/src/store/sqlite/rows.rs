//! Rows as SQLite gives them.

use rusqlite::{Result, Row};
use tenure::Epoch;
use tenure_http::KnownLeader;

use crate::{
    queue::Queued,
    round::OpenLease,
    store::columns::{AgentColumns, EventColumns, JobColumns},
};

pub(super) fn job(row: &Row<'_>) -> Result<JobColumns> {
    Ok(JobColumns {
        job_id: row.get("job_id")?,
        namespace: row.get("namespace")?,
        op: row.get("op")?,
        payload: row.get("payload")?,
        priority: row.get("priority")?,
        pinned_agent: row.get("pinned_agent")?,
        state: row.get("state")?,
        job_epoch: row.get("job_epoch")?,
        leader_epoch: row.get("leader_epoch")?,
        lease_id: row.get("lease_id")?,
        leased_by: row.get("leased_by")?,
        leased_at: row.get("leased_at")?,
        lease_expires_at: row.get("lease_expires_at")?,
        created_at: row.get("created_at")?,
        completed_at: row.get("completed_at")?,
        result: row.get("result")?,
        error: row.get("error")?,
        error_value: row.get("error_value")?,
        lost_leases: row.get("lost_leases")?,
        failures: row.get("failures")?,
        not_before: row.get("not_before")?,
        deadline_at: row.get("deadline_at")?,
    })
}

pub(super) fn queued(row: &Row<'_>) -> Result<Queued> {
    Ok(Queued {
        row: row.get("row_number")?,
        namespace: row.get("namespace")?,
        op: row.get("op")?,
        priority: row.get("priority")?,
        pinned_agent: row.get("pinned_agent")?,
        job_epoch: row.get("job_epoch")?,
        bytes: row.get("bytes")?,
    })
}

pub(super) fn open_lease(row: &Row<'_>) -> Result<OpenLease> {
    Ok(OpenLease {
        lease_id: row.get("lease_id")?,
        namespace: row.get("namespace")?,
        agent: row.get("agent")?,
    })
}

pub(super) fn agent(row: &Row<'_>) -> Result<AgentColumns> {
    Ok(AgentColumns {
        name: row.get("name")?,
        namespace: row.get("namespace")?,
        state: row.get("state")?,
        labels: row.get("labels")?,
        capabilities: row.get("capabilities")?,
        worker_profile: row.get("worker_profile")?,
        metrics: row.get("metrics")?,
        leader_epoch: row.get("leader_epoch")?,
        first_seen_at: row.get("first_seen_at")?,
        last_seen_at: row.get("last_seen_at")?,
    })
}

pub(super) fn event(row: &Row<'_>) -> Result<EventColumns> {
    Ok(EventColumns {
        event_number: row.get("event_number")?,
        namespace: row.get("namespace")?,
        kind: row.get("kind")?,
        job_id: row.get("job_id")?,
        job_epoch: row.get("job_epoch")?,
        agent: row.get("agent")?,
        detail: row.get("detail")?,
        lease_id: row.get("lease_id")?,
        leader_epoch: row.get("leader_epoch")?,
        recorded_at: row.get("recorded_at")?,
        history: row.get("history")?,
    })
}

pub(super) fn leader(row: &Row<'_>) -> Result<KnownLeader> {
    Ok(KnownLeader {
        epoch: Epoch::new(row.get("leader_epoch")?),
        id: row.get("leader_id")?,
        url: row.get("leader_url")?,
    })
}
