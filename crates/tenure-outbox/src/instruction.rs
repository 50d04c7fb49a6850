//! What is enqueued.

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// An instruction to a rail. The instruction and its key together are enqueued once, however often they are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// The payment.
    pub instruction_id: String,
    /// Whose it is; its instructions are numbered in the order in which they are enqueued.
    pub participant_id: String,
    /// What a rail tells a repeat by.
    pub idempotency_key: String,
    /// Which rail takes it.
    pub rail_type: String,
    /// A JSON object, kept as Postgres keeps `jsonb`.
    pub payload: Box<RawValue>,
}

/// What came of enqueuing one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Enqueued {
    /// It is new.
    Done {
        /// Its row.
        outbox_id: Uuid,
        /// Its place among those of its participant.
        sequence_id: i64,
    },
    /// It was enqueued before.
    Repeat {
        /// Its row.
        outbox_id: Uuid,
        /// Its place among those of its participant.
        sequence_id: i64,
        /// `PENDING`, or the state of its latest attempt.
        state: String,
    },
    /// Another instruction was enqueued before under its key: this one was not.
    Conflict {
        /// The row of the first.
        outbox_id: Uuid,
        /// The fields in which they differ: `participant_id`, `rail_type`, `payload`.
        differs: String,
    },
    /// Something is missing or blank, or the payload is no object: nothing was written.
    Invalid,
}
