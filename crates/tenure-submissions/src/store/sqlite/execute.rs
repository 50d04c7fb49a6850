//! Taking intents for an attempt, and recording what came of it: each in a fenced transaction.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, named_params};

use super::{Writing, columns::contract};
use crate::{
    schedule::{Change, Micros, Row, Version},
    store::{
        Ended, Finished, GivenUp, OneShot, Reservation, Reserve, StoreError,
        columns::{OutcomeColumns, exhausted_reason, timestamp},
    },
};

const LOOK: &str = include_str!("../../../sql/sqlite/execute/look.sql");
const RESERVE: &str = include_str!("../../../sql/sqlite/execute/reserve.sql");
const UNRESERVE: &str = include_str!("../../../sql/sqlite/execute/unreserve.sql");
const GIVE_UP: &str = include_str!("../../../sql/sqlite/execute/give_up.sql");
const APPEND_UNKNOWN: &str = include_str!("../../../sql/sqlite/execute/append_unknown.sql");
const RECORD: &str = include_str!("../../../sql/sqlite/execute/record.sql");
const APPEND: &str = include_str!("../../../sql/sqlite/execute/append.sql");

/// What an intent is before it is taken.
struct Seen {
    version: Version,
    due: Option<Micros>,
    was_reserved: bool,
    is_due: bool,
    is_over: bool,
}

/// Takes an intent; `None` when it is not there.
pub(super) fn reserve(
    writing: &Writing<'_>,
    row: Row,
    epoch: i64,
    one_shot: OneShot,
) -> Result<Option<Reserve>, StoreError> {
    let Some(seen) = look(writing, row, epoch, one_shot)? else { return Ok(None) };
    Ok(Some(match seen {
        Seen { is_over: true, .. } => Reserve::GivenUp(give_up(writing, row)?),
        Seen { is_due: true, was_reserved, .. } => {
            Reserve::Ready(Box::new(take(writing, row, epoch, was_reserved)?))
        }
        Seen { version, due, .. } => Reserve::NotNow(Change { row, version, due }),
    }))
}

fn look(
    writing: &Writing<'_>,
    row: Row,
    epoch: i64,
    one_shot: OneShot,
) -> Result<Option<Seen>, rusqlite::Error> {
    let parameters = named_params! {
        ":row_number": row,
        ":now": writing.now,
        ":epoch": epoch,
        ":repeats": one_shot == OneShot::Repeat,
    };
    writing
        .transaction
        .prepare_cached(LOOK)?
        .query_row(parameters, |row| {
            Ok(Seen {
                version: row.get("version")?,
                due: row.get("next_attempt_at")?,
                was_reserved: row.get("was_reserved")?,
                is_due: row.get("is_due")?,
                is_over: row.get("is_over")?,
            })
        })
        .optional()
}

fn take(
    writing: &Writing<'_>,
    row: Row,
    epoch: i64,
    is_repeat: bool,
) -> Result<Reservation, StoreError> {
    let parameters = named_params! {
        ":row_number": row, ":epoch": epoch, ":now": writing.now, ":number": writing.number,
    };
    let mut update = writing.transaction.prepare_cached(RESERVE)?;
    let mut taken = update.query(parameters)?;
    let line = taken.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Reservation {
        row,
        version: line.get("version")?,
        intent_id: line.get("intent_id")?,
        payload: line.get::<_, Vec<u8>>("payload")?.into(),
        contract: contract(line)?,
        created_at: timestamp(line.get("created_at")?)?,
        due_at: timestamp(line.get("next_attempt_at")?)?,
        number: line.get("reserved_attempt")?,
        started_at: timestamp(line.get("reserved_at")?)?,
        is_repeat,
        held_key: line.get("held_key")?,
    })
}

fn give_up(writing: &Writing<'_>, row: Row) -> Result<GivenUp, StoreError> {
    let append = named_params! {":row_number": row, ":now": writing.now};
    writing.transaction.prepare_cached(APPEND_UNKNOWN)?.execute(append)?;
    let parameters =
        named_params! {":row_number": row, ":now": writing.now, ":number": writing.number};
    let mut update = writing.transaction.prepare_cached(GIVE_UP)?;
    let mut ended = update.query(parameters)?;
    let line = ended.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let (created_at, completed_at) =
        (timestamp(line.get("created_at")?)?, timestamp(line.get("completed_at")?)?);
    Ok(GivenUp {
        ended: Ended {
            change: Change { row, version: line.get("version")?, due: None },
            has_webhook: line.get("has_webhook")?,
        },
        reason: exhausted_reason(&line.get::<_, String>("exhausted_reason")?)?,
        took: completed_at.duration_since(created_at),
    })
}

/// Gives an intent back.
pub(super) fn unreserve(writing: &Writing<'_>, row: Row, epoch: i64) -> Result<(), StoreError> {
    writing.transaction.prepare_cached(UNRESERVE)?.execute(named_params! {
        ":row_number": row, ":epoch": epoch, ":now": writing.now, ":number": writing.number,
    })?;
    Ok(())
}

/// Records an outcome; `None` when its intent has moved on.
pub(super) fn record(
    writing: &Writing<'_>,
    finished: &Finished,
) -> Result<Option<Ended>, StoreError> {
    let outcome = OutcomeColumns::of(finished);
    let parameters = named_params! {
        ":row_number": finished.row,
        ":attempt_number": finished.number,
        ":status": outcome.status,
        ":outcome_status": outcome.outcome_status,
        ":outcome_reason": outcome.outcome_reason,
        ":exhausted_reason": outcome.exhausted_reason,
        ":next_attempt_at": outcome.next_attempt_at.map(Timestamp::as_microsecond),
        ":held_key": outcome.held_key,
        ":now": writing.now,
        ":number": writing.number,
    };
    let moved = writing
        .transaction
        .prepare_cached(RECORD)?
        .query_row(parameters, |line| {
            let change = Change {
                row: finished.row,
                version: line.get("version")?,
                due: line.get("next_attempt_at")?,
            };
            let ended = Ended { change, has_webhook: line.get("has_webhook")? };
            Ok((line.get::<_, String>("intent_id")?, ended))
        })
        .optional()?;
    let Some((intent_id, ended)) = moved else { return Ok(None) };
    writing.transaction.prepare_cached(APPEND)?.execute(named_params! {
        ":intent_id": intent_id,
        ":attempt_number": finished.number,
        ":started_at": finished.started_at.as_microsecond(),
        ":finished_at": finished.finished_at.as_microsecond(),
        ":outcome_status": outcome.outcome_status,
        ":outcome_reason": outcome.outcome_reason,
        ":error": outcome.error,
        ":key_number": outcome.key_number,
        ":now": writing.now,
    })?;
    Ok(Some(ended))
}
