//! Exactly one of your processes acts, and you can prove it, on the SQL database you already run.
#![warn(missing_docs)]

pub mod elector;
pub mod gate;
pub mod term;
pub mod timing;

pub use gate::{LeaderGate, LeaderToken, NotLeader};
pub use term::{Epoch, HolderId, NameError, Scope, Term};
pub use timing::{Backoff, OnDeadline, OnFailedRenew, Takeover, Timing, TimingError};
