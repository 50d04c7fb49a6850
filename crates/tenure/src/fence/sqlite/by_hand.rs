//! What an operator changes by hand in a data file, each inside a transaction that has the write lock.
//! On Postgres the same are functions of the schema.

use rusqlite::{OptionalExtension, Transaction};

use super::{END_EARLIER_TERMS, stands};
use crate::term::{Epoch, Scope};

const BURN_EPOCHS: &str = include_str!("../../../sql/sqlite/fence/burn_epochs.sql");
const SWITCH_LOCK: &str = include_str!("../../../sql/sqlite/fence/switch_lock.sql");
const LEADING: &str = include_str!("../../../sql/sqlite/fence/leading.sql");
const DRAIN: &str = include_str!("../../../sql/sqlite/fence/drain.sql");
const END_DRAIN: &str = include_str!("../../../sql/sqlite/fence/end_drain.sql");

/// What kind of lock fences a scope; `None` when nobody has ever led it.
pub fn lock_kind(data: &Transaction<'_>, scope: &Scope) -> rusqlite::Result<Option<String>> {
    Ok(stands(data, scope.as_str())?.map(|fence| fence.lock_kind))
}

/// Moves the fence of a scope ahead, so that terms of a lost history can never write again; returns where
/// it stands now.
pub fn burn_epochs(data: &Transaction<'_>, scope: &Scope, by: i64) -> rusqlite::Result<Epoch> {
    let scope = scope.as_str();
    let fence: i64 = data.query_row(BURN_EPOCHS, (scope, by), |row| row.get(0))?;
    data.execute(END_EARLIER_TERMS, (scope, fence, "epochs_burnt"))?;
    Ok(Epoch::new(fence))
}

/// Lets the next winner of a scope bring another kind of lock.
pub fn switch_lock(data: &Transaction<'_>, scope: &Scope) -> rusqlite::Result<()> {
    data.execute(SWITCH_LOCK, [scope.as_str()]).map(drop)
}

/// Asks whoever leads a scope to hand over; returns which term and whose, `None` when nobody leads.
pub fn drain(data: &Transaction<'_>, scope: &Scope) -> rusqlite::Result<Option<(Epoch, String)>> {
    let scope = scope.as_str();
    let read = |row: &rusqlite::Row<'_>| Ok((Epoch::new(row.get("epoch")?), row.get("holder")?));
    let Some((epoch, holder)) = data.query_row(LEADING, [scope], read).optional()? else {
        return Ok(None);
    };
    data.execute(DRAIN, (scope, epoch.get()))?;
    Ok(Some((epoch, holder)))
}

/// Lets whoever was drained contend again; returns whether anybody had been asked.
pub fn end_drain(data: &Transaction<'_>, scope: &Scope) -> rusqlite::Result<bool> {
    Ok(data.execute(END_DRAIN, [scope.as_str()])? > 0)
}
