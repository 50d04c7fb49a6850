//! A webhook's one attempt, and its result: each in a fenced transaction.

use rusqlite::named_params;

use super::{
    Writing,
    columns::{intent, webhook},
};
use crate::{
    schedule::Row,
    store::{
        StoreError, WebhookDue,
        columns::{text_of, timestamp},
    },
};

const BEGIN: &str = include_str!("../../../sql/sqlite/webhook/begin.sql");
const UNBEGIN: &str = include_str!("../../../sql/sqlite/webhook/unbegin.sql");
const FINISH: &str = include_str!("../../../sql/sqlite/webhook/finish.sql");

/// Takes a webhook; `None` when somebody began before.
pub(super) fn begin(writing: &Writing<'_>, row: Row) -> Result<Option<WebhookDue>, StoreError> {
    let parameters =
        named_params! {":row_number": row, ":now": writing.now, ":number": writing.number};
    let mut update = writing.transaction.prepare_cached(BEGIN)?;
    let mut begun = update.query(parameters)?;
    let Some(line) = begun.next()? else { return Ok(None) };
    Ok(Some(WebhookDue {
        row,
        intent: intent(line)?.stored()?.view,
        webhook: webhook(line)?,
        occurred_at: timestamp(line.get("webhook_attempted_at")?)?,
    }))
}

/// Gives a webhook back.
pub(super) fn unbegin(writing: &Writing<'_>, row: Row) -> Result<(), StoreError> {
    writing.transaction.prepare_cached(UNBEGIN)?.execute(named_params! {
        ":row_number": row, ":now": writing.now, ":number": writing.number,
    })?;
    Ok(())
}

/// Keeps a result: an error, or none.
pub(super) fn finish(
    writing: &Writing<'_>,
    row: Row,
    error: Option<&str>,
) -> Result<(), StoreError> {
    writing.transaction.prepare_cached(FINISH)?.execute(named_params! {
        ":row_number": row,
        ":error": error.map(text_of),
        ":now": writing.now,
        ":number": writing.number,
    })?;
    Ok(())
}
