//! Where an elector stands.

use std::time::Duration;

use tenure_database::BootInstant;

use super::{
    command::{Admits, Command, CommandId, EndReason},
    event::{Renewal, Shown},
};
use crate::{term::Epoch, timing::OnDeadline};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) asked: Option<Asked>,
    pub(super) last_command: CommandId,
    /// The highest epoch that this process has seen anywhere: the floor of its next win.
    pub(super) seen: Epoch,
    /// A term that was granted to us and that nobody acts in.
    pub(super) stray: Option<Epoch>,
    /// The renewal of another's term that was seen last.
    pub(super) watched: Option<Watched>,
    /// The database's clock was seen to jump: no gate opens before this, by our own clock.
    pub(super) cautious_until: BootInstant,
    /// How long another's renewal lasts that was shown last: its holder may have a longer lease than we.
    pub(super) shown_lease: Duration,
    /// Our own work has failed: until then another gets the chance, whatever news there is of the lock.
    pub(super) out_until: BootInstant,
    /// Lock calls that failed in a row.
    pub(super) failures: u32,
    /// The lock changed while a request was under way, whose answer may be older than the change.
    pub(super) nudged: bool,
    pub(super) contends: Contends,
}

/// A renewal, and when it runs out by our own clock, counted from when it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watched {
    pub(super) renewal: Renewal,
    pub(super) over_at: BootInstant,
}

impl Watched {
    /// What is watched when this is seen at `now`.
    pub(super) fn seeing(before: Option<Self>, shown: Shown, now: BootInstant) -> Self {
        match before {
            Some(before) if before.renewal == shown.renewal => before,
            _ => Self { renewal: shown.renewal, over_at: now + shown.lasts },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Contends {
    Yes,
    /// Not until told, or until nobody took over.
    Drained,
    /// Not at all: the node was started as a follower.
    Never,
}

/// The outstanding lock command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) command: CommandId,
    pub(super) what: Ask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Acquire,
    Renew,
    Release,
    ReleaseStray,
    Observe,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Following { ask_at: Due },
    Holding(Hold),
    Stopping(Ending),
    Releasing(Ending),
    Resting(Rest),
}

/// Does not contend, and looks who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    pub(super) look_at: BootInstant,
    /// From then on it contends again if nobody leads.
    pub(super) over_at: BootInstant,
}

/// A moment, and how far after it a driver may spread the wake-up, so that nodes do not move in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Due {
    pub(super) at: BootInstant,
    pub(super) spread: Duration,
}

impl Due {
    pub(super) fn at(at: BootInstant) -> Self {
        Self { at, spread: Duration::ZERO }
    }
}

/// A term that is ours as far as we know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) epoch: Epoch,
    /// The local deadline: what the last grant or renewal is trusted for.
    pub(super) until: BootInstant,
    /// When the last grant or renewal that extended the term was sent.
    pub(super) proven_at: BootInstant,
    pub(super) renew_at: Due,
    /// No gate opens before the predecessor's must have shut.
    pub(super) settled_at: BootInstant,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// Over by the moment that it names, or the term is given back; as is the preparation.
    Raising {
        by: BootInstant,
        raise: Raise,
    },
    Settling,
    Preparing {
        by: BootInstant,
    },
    Leading {
        gate: Gate,
    },
    Draining {
        grace_until: BootInstant,
        gate: Gate,
    },
}

/// How far the raising of the fence has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Raise {
    Asked(CommandId),
    /// Nothing is known of the last try; raising twice is harmless.
    Again {
        at: BootInstant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Gate {
    Open,
    /// The deadline passed, but the lock may still be ours: a renewal that proves it opens again.
    ShutUntilProven,
}

/// A term that is over, on its way to being released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ending {
    pub(super) epoch: Epoch,
    pub(super) reason: EndReason,
}

impl Phase {
    pub(super) fn look_again(&mut self, at: BootInstant) {
        if let Self::Resting(rest) = self {
            rest.look_at = at;
        }
    }
}

impl Hold {
    /// Opens the gate for as long as the term is trusted, or extends it.
    pub(super) fn open_gate(&mut self) -> Option<Command> {
        let (until, admits) = match &mut self.stage {
            Stage::Leading { gate } => {
                *gate = Gate::Open;
                (self.until, Admits::NewWork)
            }
            Stage::Draining { grace_until, gate } => {
                *gate = Gate::Open;
                (self.until.min(*grace_until), Admits::RunningWork)
            }
            _ => return None,
        };
        Some(Command::OpenGate { epoch: self.epoch, until, admits })
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(
            self.stage,
            Stage::Leading { gate: Gate::Open } | Stage::Draining { gate: Gate::Open, .. }
        )
    }

    pub(super) fn shut_gate(&mut self) -> Option<Command> {
        match &mut self.stage {
            Stage::Leading { gate } | Stage::Draining { gate, .. } if *gate == Gate::Open => {
                *gate = Gate::ShutUntilProven;
                Some(Command::CloseGate { epoch: self.epoch, reason: EndReason::Late })
            }
            _ => None,
        }
    }

    /// Whether what must be done before the gate opens has taken too long.
    pub(super) fn begins_too_late(&self, now: BootInstant) -> bool {
        match self.stage {
            Stage::Raising { by, .. } | Stage::Preparing { by } => by <= now,
            Stage::Settling | Stage::Leading { .. } | Stage::Draining { .. } => false,
        }
    }

    pub(super) fn has_work(&self) -> bool {
        matches!(
            self.stage,
            Stage::Preparing { .. } | Stage::Leading { .. } | Stage::Draining { .. }
        )
    }

    pub(super) fn next_due(&self, idle: bool, on_deadline: OnDeadline) -> Option<Due> {
        let stage = match self.stage {
            Stage::Raising { by, raise: Raise::Again { at } } => Some(Due::at(at.min(by))),
            Stage::Raising { by, .. } | Stage::Preparing { by } => Some(Due::at(by)),
            Stage::Settling => Some(Due::at(self.settled_at)),
            Stage::Draining { grace_until, .. } => Some(Due::at(grace_until)),
            _ => None,
        };
        let has_deadline = on_deadline == OnDeadline::EndTerm || self.is_open();
        let deadline = has_deadline.then_some(Due::at(self.until));
        let renewal = idle.then_some(self.renew_at);
        [stage, deadline, renewal].into_iter().flatten().min_by_key(|due| due.at)
    }
}
