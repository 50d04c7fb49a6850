//! Rows as Postgres sends them.

use jiff::Timestamp;
use tenure_database::postgres::Moment;
use tokio_postgres::Row;

use crate::{
    contract::{Contract, Webhook},
    store::{
        StoreError, Stored,
        columns::{self, AgreedColumns, IntentColumns, timestamp},
    },
};

pub(super) fn moment(row: &Row, column: &str) -> Result<Timestamp, StoreError> {
    timestamp(row.get::<_, Moment>(column).micros())
}

pub(super) fn stored(row: &Row) -> Result<Stored, StoreError> {
    IntentColumns {
        row_number: row.get("row_number"),
        intent_id: row.get("intent_id"),
        submission_target: row.get("submission_target"),
        payload_hash: row.get("payload_hash"),
        created_at: row.get::<_, Moment>("created_at").micros(),
        status: row.get("status"),
        completed_at: row.get::<_, Option<Moment>>("completed_at").map(Moment::micros),
        final_outcome_reason: row.get("final_outcome_reason"),
        exhausted_reason: row.get("exhausted_reason"),
        attempt_count: row.get("attempt_count"),
    }
    .stored()
}

pub(super) fn contract(row: &Row) -> Result<Contract, StoreError> {
    AgreedColumns {
        gateway_type: row.get("gateway_type"),
        gateway_url: row.get("gateway_url"),
        policy: row.get("policy"),
        max_acceptance_seconds: row.get("max_acceptance_seconds"),
        max_attempts: row.get("max_attempts"),
        terminal_outcomes: row.get("terminal_outcomes"),
    }
    .contract()
}

pub(super) fn webhook(row: &Row) -> Result<Webhook, StoreError> {
    columns::webhook(
        row.get("webhook_url"),
        row.get("webhook_headers"),
        row.get("webhook_headers_env"),
        row.get("webhook_secret_env"),
    )
}
