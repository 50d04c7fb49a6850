//! What an elector tells its driver to do.

use std::{fmt, time::Duration};

use tenure_database::BootInstant;

use super::event::Renewal;
use crate::term::Epoch;

/// The number of a command; a reply names the one it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(u64);

impl CommandId {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// To be carried out in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Command {
    /// Ask the lock for a term with an epoch above `floor` and above all that the lock knows.
    Acquire {
        /// Answered by `Granted`, `Held` or `Unknown`.
        command: CommandId,
        /// The highest epoch that this process has seen.
        floor: Epoch,
        /// A renewal that has run out by this node's own clock. A row that still shows it may be taken, whatever
        /// its expiry says: that can only be late because the database's clock was set back.
        overdue: Option<Renewal>,
    },
    /// Extend the term.
    Renew {
        /// Answered by `Renewed`, `Lost` or `Unknown`.
        command: CommandId,
        /// The term.
        epoch: Epoch,
    },
    /// Give the term back. Never touches another term.
    Release {
        /// Answered by `Released` or `Unknown`.
        command: CommandId,
        /// The term.
        epoch: Epoch,
    },
    /// Look who holds the lock, without asking for it.
    Observe {
        /// Answered by `Observed` or `Unknown`.
        command: CommandId,
    },
    /// Raise the fence row to this term, if it stands below it.
    RaiseFence {
        /// Answered by `FenceRaised`, `FenceRefused` or `Unknown`.
        command: CommandId,
        /// The term.
        epoch: Epoch,
    },
    /// Rebuild what a leader needs before it may act; answered by `Prepared`.
    Prepare {
        /// The term.
        epoch: Epoch,
    },
    /// Open the gate, or extend it.
    OpenGate {
        /// The term.
        epoch: Epoch,
        /// The gate is shut from this moment on, whether or not anybody says so.
        until: BootInstant,
        /// Whom it lets through.
        admits: Admits,
    },
    /// Shut the gate at once.
    CloseGate {
        /// The term.
        epoch: Epoch,
        /// Why.
        reason: EndReason,
    },
    /// Stop whatever runs in this term; answered by `Stopped` once nothing does.
    StopWork {
        /// The term.
        epoch: Epoch,
    },
    /// Send `Woke` at this moment or up to `spread` later; replaces the wake-up asked for before.
    WakeAt {
        /// The earliest moment.
        at: BootInstant,
        /// How far after it the driver may spread it.
        spread: Duration,
    },
}

/// Whom an open gate lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admits {
    /// Everybody: the role is LEADER.
    NewWork,
    /// Only work that began in this term: the role is DRAINING.
    RunningWork,
}

/// Why a gate was shut or a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The lock says that the term is no longer ours.
    Lost,
    /// The local deadline passed without a renewal.
    DeadlinePassed,
    /// The deadline passed, but the lock's session lives: the gate is shut and the term is not over.
    Late,
    /// A renewal failed or got no answer.
    RenewFailed,
    /// The fence knows a newer term.
    FenceRefused,
    /// A later term was granted to this same node.
    Superseded,
    /// The session that held the lock is gone.
    SessionEnded,
    /// Another server, or another history of the same server, answers.
    ServerChanged,
    /// The term was won, and its gate could not be opened in time.
    CannotBegin,
    /// The database's clock was set back, so that renewals no longer extend the term.
    ClockSetBack,
    /// The work made no progress.
    Stalled,
    /// The work ended by itself.
    WorkEnded,
    /// Somebody asked for it.
    Drained,
}

impl EndReason {
    /// The word in logs, metrics and the history of terms.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::DeadlinePassed => "deadline_passed",
            Self::Late => "late",
            Self::RenewFailed => "renew_failed",
            Self::FenceRefused => "fence_refused",
            Self::Superseded => "superseded",
            Self::SessionEnded => "session_ended",
            Self::ServerChanged => "server_changed",
            Self::CannotBegin => "cannot_begin",
            Self::ClockSetBack => "clock_set_back",
            Self::Stalled => "stalled",
            Self::WorkEnded => "work_ended",
            Self::Drained => "drained",
        }
    }

    pub(super) fn leaves_something_to_release(self) -> bool {
        !matches!(self, Self::Lost | Self::SessionEnded | Self::Superseded)
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs, metrics and the history of terms are searched for these words.
    #[test]
    fn every_reason_has_its_word() {
        let reasons = [
            (EndReason::Lost, "lost"),
            (EndReason::DeadlinePassed, "deadline_passed"),
            (EndReason::Late, "late"),
            (EndReason::RenewFailed, "renew_failed"),
            (EndReason::FenceRefused, "fence_refused"),
            (EndReason::Superseded, "superseded"),
            (EndReason::SessionEnded, "session_ended"),
            (EndReason::ServerChanged, "server_changed"),
            (EndReason::CannotBegin, "cannot_begin"),
            (EndReason::ClockSetBack, "clock_set_back"),
            (EndReason::Stalled, "stalled"),
            (EndReason::WorkEnded, "work_ended"),
            (EndReason::Drained, "drained"),
        ];
        for (reason, word) in reasons {
            assert_eq!((reason.as_str(), reason.to_string().as_str()), (word, word));
        }
    }
}
