//! Rows as Postgres sends them.

use tenure::Epoch;
use tenure_database::postgres::Moment;
use tenure_http::KnownLeader;
use tokio_postgres::Row;

use crate::{
    queue::Queued,
    round::{OpenLease, Task},
    store::{
        StoreError,
        columns::{AgentColumns, EventColumns, JobColumns, json},
    },
};

fn micros(row: &Row, column: &str) -> i64 {
    row.get::<_, Moment>(column).micros()
}

fn micros_or_none(row: &Row, column: &str) -> Option<i64> {
    row.get::<_, Option<Moment>>(column).map(Moment::micros)
}

pub(super) fn job(row: &Row) -> JobColumns {
    JobColumns {
        job_id: row.get("job_id"),
        namespace: row.get("namespace"),
        op: row.get("op"),
        payload: row.get("payload"),
        priority: row.get("priority"),
        pinned_agent: row.get("pinned_agent"),
        state: row.get("state"),
        job_epoch: row.get("job_epoch"),
        leader_epoch: row.get("leader_epoch"),
        lease_id: row.get("lease_id"),
        leased_by: row.get("leased_by"),
        leased_at: micros_or_none(row, "leased_at"),
        lease_expires_at: micros_or_none(row, "lease_expires_at"),
        created_at: micros(row, "created_at"),
        completed_at: micros_or_none(row, "completed_at"),
        result: row.get("result"),
        error: row.get("error"),
        error_value: row.get("error_value"),
        lost_leases: row.get("lost_leases"),
        failures: row.get("failures"),
        not_before: micros_or_none(row, "not_before"),
        deadline_at: micros_or_none(row, "deadline_at"),
    }
}

pub(super) fn queued(row: &Row) -> Queued {
    Queued {
        row: row.get("row_number"),
        namespace: row.get("namespace"),
        op: row.get("op"),
        priority: row.get("priority"),
        pinned_agent: row.get("pinned_agent"),
        job_epoch: row.get("job_epoch"),
        bytes: row.get::<_, i32>("bytes").unsigned_abs(),
    }
}

pub(super) fn open_lease(row: &Row) -> OpenLease {
    OpenLease {
        lease_id: row.get("lease_id"),
        namespace: row.get("namespace"),
        agent: row.get("agent"),
    }
}

pub(super) fn task(row: &Row) -> Result<Task, StoreError> {
    Ok(Task {
        row: row.get("row_number"),
        job_id: row.get("job_id"),
        job_epoch: row.get("job_epoch"),
        op: row.get("op"),
        payload: json(row.get("payload"))?,
        pinned_agent: row.get("pinned_agent"),
    })
}

pub(super) fn agent(row: &Row) -> AgentColumns {
    AgentColumns {
        name: row.get("name"),
        namespace: row.get("namespace"),
        state: row.get("state"),
        labels: row.get("labels"),
        capabilities: row.get("capabilities"),
        worker_profile: row.get("worker_profile"),
        metrics: row.get("metrics"),
        leader_epoch: row.get("leader_epoch"),
        first_seen_at: micros(row, "first_seen_at"),
        last_seen_at: micros(row, "last_seen_at"),
    }
}

pub(super) fn event(row: &Row) -> EventColumns {
    EventColumns {
        event_number: row.get("event_number"),
        namespace: row.get("namespace"),
        kind: row.get("kind"),
        job_id: row.get("job_id"),
        job_epoch: row.get("job_epoch"),
        agent: row.get("agent"),
        detail: row.get("detail"),
        lease_id: row.get("lease_id"),
        leader_epoch: row.get("leader_epoch"),
        recorded_at: micros(row, "recorded_at"),
        history: row.get("history"),
    }
}

pub(super) fn leader(row: &Row) -> KnownLeader {
    KnownLeader {
        epoch: Epoch::new(row.get("leader_epoch")),
        id: row.get("leader_id"),
        url: row.get("leader_url"),
    }
}
