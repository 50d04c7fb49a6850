//! Exactly one of your processes acts, and you can prove it, on the SQL database you already run.
//!
//! A *term* is a numbered period in which one holder may act in one scope. This crate is how a term is
//! won ([`election`], over a [`lock`]), how a process acts only inside it ([`gate`]), and how the
//! database refuses whoever acts outside it ([`fence`]).
//!
//! The protocol itself is [`elector`]: a pure state machine, and the place to begin reading.
#![warn(missing_docs)]

pub mod advisory_environment;
pub mod election;
pub mod elector;
pub mod fence;
pub mod gate;
pub mod lock;
pub mod observe;
mod postgres_call;
pub mod process;
pub mod schema;

pub mod term;
pub mod timing;

pub use advisory_environment::{AdvisoryEnvironment, LeaderElectionService, LeaderStateChanged};
pub use election::{Election, ElectionEnded, Leadership, NoWork, Role, Tenure, Work};
pub use gate::{LeaderGate, LeaderToken, NotLeader};
pub use lock::Candidate;
pub use observe::Metrics;
pub use tenure_database::{BootInstant, DatabaseUrl};
pub use term::{Epoch, HolderId, NameError, Scope, Term};
pub use timing::{Backoff, OnDeadline, OnFailedRenew, Takeover, Timing, TimingError};
