//! A moment as Postgres sends it: to the microsecond, and without a detour.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// 2000-01-01 in microseconds since 1970: where Postgres counts from.
const EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(i64);

impl Moment {
    /// Before everything.
    pub const FIRST: Self = Self(i64::MIN / 2);

    /// So many microseconds since 1970.
    #[must_use]
    pub const fn at(micros: i64) -> Self {
        Self(micros)
    }

    /// Since 1970.
    #[must_use]
    pub const fn micros(self) -> i64 {
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
