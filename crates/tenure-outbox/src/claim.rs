//! The right of a worker to dispatch one instruction, and for how long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use tenure_database::BootInstant;
use uuid::Uuid;

/// An outbox row that is leased to this worker.
#[derive(Debug)]
pub struct Claim {
    /// The row.
    pub outbox_id: Uuid,
    /// The payment.
    pub instruction_id: String,
    /// Whose it is.
    pub participant_id: String,
    /// Its place among those of its participant.
    pub sequence_id: i64,
    /// What a rail tells a repeat by: the same for every attempt.
    pub idempotency_key: String,
    /// Which rail takes it.
    pub rail_type: String,
    /// A JSON object.
    pub payload: Box<RawValue>,
    /// How many attempts there were before.
    pub attempt_count: i32,
    /// What the database knows this claim by.
    pub lease_token: Uuid,
    /// Until when this process may begin something under it, in nanoseconds since boot.
    pub(crate) until: Arc<AtomicU64>,
}

impl Claim {
    /// How much of the lease is left by this process's clock, which only ever ends it earlier.
    #[must_use]
    pub fn left(&self) -> Duration {
        BootInstant::from_nanos(self.until.load(Ordering::Acquire)).left()
    }

    /// The number that the next attempt will have, as far as this process knows.
    #[must_use]
    pub fn attempt_no(&self) -> i32 {
        self.attempt_count.saturating_add(1)
    }

    /// The database has said so, in answer to something that was sent before `until` began to count.
    pub(crate) fn lasts_until(&self, until: BootInstant) {
        self.until.store(until.as_nanos(), Ordering::Release);
    }
}
