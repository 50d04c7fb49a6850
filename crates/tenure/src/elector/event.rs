//! What an elector hears of.

use std::time::Duration;

use tenure_database::BootInstant;

use super::CommandId;
use crate::term::Epoch;

/// One renewal of a term, told from all others; the grant counts as the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Renewal {
    /// The term.
    pub epoch: Epoch,
    /// Another one for every renewal, in no particular order.
    pub mark: i64,
}

/// A renewal as the lock's row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown {
    /// Which.
    pub renewal: Renewal,
    /// How long it lasts from when it was made, whatever its clock says now.
    pub lasts: Duration,
}

/// Something that happened. Replies name the command they answer; the rest names the term it is about,
/// so that news of an old term never touches a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The lock granted a term.
    Granted {
        /// The acquire that this answers.
        command: CommandId,
        /// The moment before the statement that proves the term was sent.
        sent_at: BootInstant,
        /// The term's number.
        epoch: Epoch,
        /// How long a predecessor's gate may still be open, by the lock's clock when it granted: to be
        /// waited from when this is heard, because nothing tells how old it is.
        settle: Duration,
    },
    /// The lock is held, by somebody else or by a term that we never opened.
    Held {
        /// The acquire that this answers.
        command: CommandId,
        /// The term's number.
        epoch: Epoch,
        /// How long it still runs by the database's clock, where the lock can say.
        left: Option<Duration>,
        /// Its last renewal, where the lock shows that.
        shown: Option<Shown>,
        /// The row carries the nonce of an acquire that this process sent.
        ours: bool,
    },
    /// The term is still ours.
    Renewed {
        /// The renew that this answers.
        command: CommandId,
        /// The moment before it was sent.
        sent_at: BootInstant,
        /// Whether it lasts longer than before: a renewal by a clock that was set back does not extend it.
        extends: bool,
    },
    /// The term is no longer ours.
    Lost {
        /// The renew that this answers.
        command: CommandId,
    },
    /// The term was given back, or was not ours any more.
    Released {
        /// The release that this answers.
        command: CommandId,
    },
    /// Who holds the lock.
    Observed {
        /// The observe that this answers.
        command: CommandId,
        /// The highest term that the lock knows.
        epoch: Epoch,
        /// Nobody holds it now.
        free: bool,
        /// The row carries the nonce of an acquire that this process sent.
        ours: bool,
    },
    /// An error, or no answer in time: the request may have been applied, or may be at any later time.
    Unknown {
        /// The command that nothing is known of.
        command: CommandId,
    },
    /// The fence row names this term now.
    FenceRaised {
        /// The term.
        epoch: Epoch,
    },
    /// The fence row, or the fence of a write, refused this term.
    FenceRefused {
        /// The term that was refused.
        epoch: Epoch,
        /// What the fence stands at, zero where it was not told.
        fence: Epoch,
    },
    /// The session that held the lock is gone.
    SessionEnded {
        /// The term that it held.
        epoch: Epoch,
    },
    /// Another server, or another timeline of the same one, answered.
    ServerChanged {
        /// The term that was held on the old one.
        epoch: Epoch,
    },
    /// The database's clock ran ahead of ours by more than the margin.
    ClockJumped,
    /// The work is ready to begin.
    Prepared {
        /// The term that it is ready for.
        epoch: Epoch,
    },
    /// Nothing of this term runs any more.
    Stopped {
        /// The term.
        epoch: Epoch,
    },
    /// The work makes no progress, or could not be prepared.
    Stalled {
        /// The term.
        epoch: Epoch,
    },
    /// The work cannot go on. It may still have to finish what it has begun, and nobody may begin anything.
    GivenUp {
        /// The term.
        epoch: Epoch,
    },
    /// Somebody asked this node to hand over and stay out.
    DrainAsked,
    /// The node may contend again.
    DrainEnded,
    /// The lock changed hands or became free.
    Nudged,
    /// The moment of the last `WakeAt` has come, possibly long ago.
    Woke,
}
