//! What columns mean: moments, contracts and intents.

use std::error::Error;

use bytes::BytesMut;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked},
};

use crate::{
    contract::{Contract, Policy, Webhook},
    intent::{IntentView, Status},
    schedule::Micros,
    store::{StoreError, Stored},
};

/// 2000-01-01 in microseconds since 1970: where Postgres counts from.
const EPOCH: Micros = 946_684_800_000_000;
/// The longest text that is kept of an error or a reason, in characters.
const LONGEST_TEXT: usize = 2_000;

/// A moment as Postgres sends it: to the microsecond, and without a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(Micros);

impl Moment {
    /// Before everything.
    pub(super) const FIRST: Self = Self(i64::MIN / 2);

    pub(super) fn at(timestamp: Timestamp) -> Self {
        Self(timestamp.as_microsecond())
    }

    /// Since 1970.
    pub(super) fn micros(self) -> Micros {
        self.0
    }
}

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?).saturating_add(EPOCH)))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let since_2000 = if *self == Self::FIRST { i64::MIN } else { self.0 - EPOCH };
        out.extend_from_slice(&since_2000.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

pub(super) fn moment(row: &Row, column: &str) -> Result<Timestamp, StoreError> {
    timestamp(row.get(column))
}

fn timestamp(Moment(micros): Moment) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros).map_err(|_| unreadable("a moment out of range"))
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable { what: what.to_owned() }
}

/// A text that fits and that Postgres takes: cut, and without NUL.
pub(super) fn text_of(text: &str) -> String {
    text.chars().filter(|character| *character != '\0').take(LONGEST_TEXT).collect()
}

pub(super) fn stored(row: &Row) -> Result<Stored, StoreError> {
    let status: &str = row.get("status");
    let status: Status = status.parse().map_err(|()| unreadable("an unknown status"))?;
    let reason: Option<String> = row.get("final_outcome_reason");
    let completed: Option<Moment> = row.get("completed_at");
    let hash: &[u8] = row.get("payload_hash");
    Ok(Stored {
        row: row.get("row_number"),
        view: IntentView {
            intent_id: row.get("intent_id"),
            submission_target: row.get("submission_target"),
            created_at: moment(row, "created_at")?,
            status,
            completed_at: completed.map(timestamp).transpose()?,
            rejected_reason: reason.filter(|_| status == Status::Rejected),
            exhausted_reason: row.get("exhausted_reason"),
        },
        attempts: row.get("attempt_count"),
        payload_hash: hash.try_into().map_err(|_| unreadable("a hash of another length"))?,
    })
}

/// What an attempt needs of a contract.
pub(super) fn contract(row: &Row) -> Result<Contract, StoreError> {
    let gateway_type: &str = row.get("gateway_type");
    let policy = Policy::stored(
        row.get("policy"),
        row.get("max_acceptance_seconds"),
        row.get("max_attempts"),
    );
    Ok(Contract {
        gateway_type: gateway_type.parse().map_err(|()| unreadable("an unknown gateway type"))?,
        gateway_url: row.get("gateway_url"),
        policy: policy.ok_or_else(|| unreadable("an unknown policy"))?,
        terminal_outcomes: json(row.get("terminal_outcomes"))?,
        webhook: None,
    })
}

pub(super) fn webhook(row: &Row) -> Result<Webhook, StoreError> {
    let headers = |column| {
        let written: Option<&str> = row.get(column);
        written.map_or_else(|| Ok(Default::default()), json)
    };
    Ok(Webhook {
        url: row.get("webhook_url"),
        headers: headers("webhook_headers")?,
        headers_env: headers("webhook_headers_env")?,
        secret_env: row.get("webhook_secret_env"),
    })
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| unreadable("JSON of another shape"))
}
