//! Rows as Postgres sends them.

use std::error::Error;

use bytes::BytesMut;
use jiff::Timestamp;
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked},
};

use crate::{
    contract::{Contract, Webhook},
    schedule::Micros,
    store::{
        StoreError, Stored,
        columns::{self, AgreedColumns, IntentColumns, timestamp},
    },
};

/// 2000-01-01 in microseconds since 1970: where Postgres counts from.
const EPOCH: Micros = 946_684_800_000_000;

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
