//! Rows as SQLite has them.

use rusqlite::Row as Line;

use crate::{
    contract::{Contract, Webhook},
    gateway::key,
    intent::AttemptView,
    schedule::Change,
    store::{
        StoreError,
        columns::{self, AgreedColumns, IntentColumns, timestamp},
    },
};

pub(super) fn change(row: &Line<'_>) -> Result<Change, rusqlite::Error> {
    Ok(Change {
        row: row.get("row_number")?,
        version: row.get("version")?,
        due: row.get("next_attempt_at")?,
    })
}

pub(super) fn intent(row: &Line<'_>) -> Result<IntentColumns, rusqlite::Error> {
    Ok(IntentColumns {
        row_number: row.get("row_number")?,
        intent_id: row.get("intent_id")?,
        submission_target: row.get("submission_target")?,
        payload_hash: row.get("payload_hash")?,
        created_at: row.get("created_at")?,
        status: row.get("status")?,
        completed_at: row.get("completed_at")?,
        final_outcome_reason: row.get("final_outcome_reason")?,
        exhausted_reason: row.get("exhausted_reason")?,
        attempt_count: row.get("attempt_count")?,
    })
}

pub(super) fn attempt(row: &Line<'_>, intent_id: &str) -> Result<AttemptView, StoreError> {
    Ok(AttemptView {
        attempt_number: row.get("attempt_number")?,
        idempotency_key: key(intent_id, row.get("key_number")?),
        started_at: timestamp(row.get("started_at")?)?,
        finished_at: timestamp(row.get("finished_at")?)?,
        outcome_status: row.get("outcome_status")?,
        outcome_reason: row.get("outcome_reason")?,
        error: row.get("error")?,
    })
}

pub(super) fn contract(row: &Line<'_>) -> Result<Contract, StoreError> {
    let text = |column: &str| row.get::<_, String>(column);
    AgreedColumns {
        gateway_type: &text("gateway_type")?,
        gateway_url: text("gateway_url")?,
        policy: &text("policy")?,
        max_acceptance_seconds: row.get("max_acceptance_seconds")?,
        max_attempts: row.get("max_attempts")?,
        terminal_outcomes: &text("terminal_outcomes")?,
    }
    .contract()
}

pub(super) fn webhook(row: &Line<'_>) -> Result<Webhook, StoreError> {
    let text = |column: &str| row.get::<_, Option<String>>(column);
    columns::webhook(
        row.get("webhook_url")?,
        text("webhook_headers")?.as_deref(),
        text("webhook_headers_env")?.as_deref(),
        text("webhook_secret_env")?,
    )
}
