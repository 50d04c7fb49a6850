//! A whole process that contends, for tests that kill, freeze and cut off real processes.
//!
//! [`serve`] is the process, [`Node`] is the test's hold on it. The process asks its gate again and again, as
//! a busy service would, and tells on its standard output when the gate was found open and shut, by the
//! machine's boot clock. Intervals are from the first to the last check that passed, so two that overlap
//! really were open together. It also tells now and then that its gate is open still: the interval of a node
//! that is killed, frozen or running ends where it was last heard of.

mod process;
mod serve;

use serde::{Deserialize, Serialize};
use tenure::Epoch;

pub use self::{
    process::{Node, nothing_happens_for, somebody_leads, terms_never_open_together},
    serve::serve,
};

/// Which lock a node contends for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockChoice {
    PostgresLease,
    PostgresAdvisory,
    SqliteLease,
}

/// All that a node is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeSettings {
    pub db: String,
    /// Where the lock is, when not in the data's database.
    pub lock_db: Option<String>,
    pub lock: LockChoice,
    pub scope: String,
    pub holder: String,
    /// The lease, or for an advisory lock the late threshold.
    pub lease_ms: u64,
    /// How often a lease is renewed, or the heartbeat; derived from the lease when absent.
    pub renew_ms: Option<u64>,
    pub waits_before_acting: bool,
    /// Whether to insert a row into `acts` through the fence, again and again, while the gate is open.
    pub acts: bool,
    /// Silence after which the server ends an advisory session.
    pub session_silence_ms: Option<u64>,
}

impl NodeSettings {
    #[must_use]
    pub fn new(db: &str, lock: LockChoice, holder: &str) -> Self {
        Self {
            db: db.to_owned(),
            lock_db: None,
            lock,
            scope: "jobs".to_owned(),
            holder: holder.to_owned(),
            lease_ms: 1_500,
            renew_ms: None,
            waits_before_acting: false,
            acts: false,
            session_silence_ms: None,
        }
    }
}

/// What a node tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The gate was found open.
    Opened { epoch: Epoch, at_ns: u64 },
    /// The gate is open still.
    StillOpen { epoch: Epoch, at_ns: u64 },
    /// The gate was found shut after having been open.
    Led { epoch: Epoch, from_ns: u64, to_ns: u64 },
    /// The fence refused a write.
    Refused { epoch: Epoch },
    /// The election cannot go on.
    Ended { reason: String },
}

/// Where the acts of leaders are recorded, in the order in which they were accepted.
pub const CREATE_ACTS: &str =
    "CREATE TABLE acts (id bigserial PRIMARY KEY, epoch bigint NOT NULL, holder text NOT NULL)";
