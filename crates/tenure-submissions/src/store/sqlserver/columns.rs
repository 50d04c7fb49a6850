//! Rows as SQL Server sends them, and lines of JSON as it reads them.

use jiff::Timestamp;
use serde::Serialize;
use tenure_database::sqlserver::Row as Line;

use crate::{
    contract::{Contract, Webhook},
    schedule::{Change, Row},
    store::{
        Ended, Finished, GivenUp, Reservation, StoreError, Stored,
        columns::{
            self, AgreedColumns, IntentColumns, OutcomeColumns, exhausted_reason, timestamp,
        },
    },
};

fn text(row: &Line, column: &str) -> Result<String, StoreError> {
    Ok(row.need::<&str>(column)?.to_owned())
}

fn maybe_text(row: &Line, column: &str) -> Result<Option<String>, StoreError> {
    Ok(row.get::<&str>(column)?.map(str::to_owned))
}

pub(super) fn moment(row: &Line, column: &str) -> Result<Timestamp, StoreError> {
    timestamp(row.need(column)?)
}

pub(super) fn change(row: &Line) -> Result<Change, tenure_database::DatabaseError> {
    Ok(Change {
        row: row.need("row_number")?,
        version: row.need("version")?,
        due: row.get("next_attempt_at")?,
    })
}

pub(super) fn ended(row: &Line) -> Result<Ended, StoreError> {
    Ok(Ended { change: change(row)?, has_webhook: row.need("has_webhook")? })
}

pub(super) fn given_up(row: &Line) -> Result<GivenUp, StoreError> {
    let change = Change { row: row.need("row_number")?, version: row.need("version")?, due: None };
    Ok(GivenUp {
        ended: Ended { change, has_webhook: row.need("has_webhook")? },
        reason: exhausted_reason(row.need("exhausted_reason")?)?,
        took: moment(row, "completed_at")?.duration_since(moment(row, "created_at")?),
    })
}

pub(super) fn stored(row: &Line) -> Result<Stored, StoreError> {
    IntentColumns {
        row_number: row.need("row_number")?,
        intent_id: text(row, "intent_id")?,
        submission_target: text(row, "submission_target")?,
        payload_hash: row.need::<&[u8]>("payload_hash")?.to_vec(),
        created_at: row.need("created_at")?,
        status: text(row, "status")?,
        completed_at: row.get("completed_at")?,
        final_outcome_reason: maybe_text(row, "final_outcome_reason")?,
        exhausted_reason: maybe_text(row, "exhausted_reason")?,
        attempt_count: row.need("attempt_count")?,
    }
    .stored()
}

pub(super) fn reservation(row: &Line) -> Result<Reservation, StoreError> {
    Ok(Reservation {
        row: row.need("row_number")?,
        version: row.need("version")?,
        intent_id: text(row, "intent_id")?,
        payload: row.need::<&[u8]>("payload")?.to_vec().into(),
        contract: contract(row)?,
        created_at: moment(row, "created_at")?,
        due_at: moment(row, "next_attempt_at")?,
        number: row.need("reserved_attempt")?,
        started_at: moment(row, "started_at")?,
        is_repeat: row.need("was_reserved")?,
        held_key: row.get("held_key")?,
    })
}

fn contract(row: &Line) -> Result<Contract, StoreError> {
    AgreedColumns {
        gateway_type: row.need("gateway_type")?,
        gateway_url: text(row, "gateway_url")?,
        policy: row.need("policy")?,
        max_acceptance_seconds: row.get("max_acceptance_seconds")?,
        max_attempts: row.get("max_attempts")?,
        terminal_outcomes: row.need("terminal_outcomes")?,
    }
    .contract()
}

pub(super) fn webhook(row: &Line) -> Result<Webhook, StoreError> {
    columns::webhook(
        text(row, "webhook_url")?,
        row.get("webhook_headers")?,
        row.get("webhook_headers_env")?,
        maybe_text(row, "webhook_secret_env")?,
    )
}

/// A moment as `datetime2` reads it.
fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

/// One outcome for `execute/record.sql`.
#[derive(Serialize)]
pub(super) struct OutcomeLine {
    row_number: Row,
    attempt_number: i32,
    started_at: String,
    finished_at: String,
    outcome_status: Option<String>,
    outcome_reason: Option<String>,
    error: Option<String>,
    status: &'static str,
    exhausted_reason: Option<&'static str>,
    next_attempt_at: Option<String>,
    key_number: Option<i32>,
    held_key: Option<i32>,
}

impl OutcomeLine {
    pub(super) fn of(finished: &Finished) -> Self {
        let outcome = OutcomeColumns::of(finished);
        Self {
            row_number: finished.row,
            attempt_number: finished.number,
            started_at: written(finished.started_at),
            finished_at: written(finished.finished_at),
            outcome_status: outcome.outcome_status,
            outcome_reason: outcome.outcome_reason,
            error: outcome.error,
            status: outcome.status,
            exhausted_reason: outcome.exhausted_reason,
            next_attempt_at: outcome.next_attempt_at.map(written),
            key_number: outcome.key_number,
            held_key: outcome.held_key,
        }
    }
}

/// One result for `webhook/finish.sql`.
#[derive(Serialize)]
pub(super) struct ResultLine {
    pub(super) row_number: Row,
    pub(super) error: Option<String>,
}
