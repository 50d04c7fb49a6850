//! The payment outbox: instructions that are handed to rails by many workers, each exactly as often as it must.
//!
//! # Who decides
//! The database is the only state machine: its functions are the only way from one state to the next, and no role
//! may write past them ([`install`]). What is to be done is a row in `payment_outbox_pending`; who does it is the
//! lease on that row; what came of it is a row in `payment_outbox_attempts`, appended and never changed.
//!
//! ```text
//!  enqueue ──▶ pending ──claim──▶ leased ──complete──▶ DISPATCHED or FAILED: the row goes, the attempt stays
//!                 ▲                 │  │
//!                 │                 │  └─complete RETRYABLE, due later; at the ceiling FAILED
//!                 │                 ├────release: not begun, nothing recorded
//!                 └─────────────────┴────expired: ZOMBIE_REQUEUE appended by whoever meets it, claim or repair
//! ```
//!
//! # What a worker may rely on
//! A [`Claim`](claim::Claim) is the right to dispatch one instruction, and carries a local deadline counted from
//! the moment *before* it was asked for: a worker that was paused finds it over before its next dispatch, and asks
//! the database first. A call that was under way cannot be taken back: whoever runs the row next sends it again
//! under the *same* idempotency key, and the outcome that came too late is refused and logged.

pub mod claim;
pub mod doctor;
pub mod install;
pub mod instruction;
pub mod news;
pub mod observe;
pub mod rail;
pub mod store;
pub mod worker;
