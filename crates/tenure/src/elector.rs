//! The protocol: how a node wins a term, acts inside it, and ends it.
//!
//! An [`Elector`] is a pure state machine. It has no clock, no I/O and no tasks: what happened and the
//! time go in, commands come out. The async driver ([`crate::election`]), the simulator and the model
//! checker run this same code, so what is proven there is what ships.
//!
//! # Who is authoritative
//!
//! The lock decides who holds a scope, by the database's clock. The node's own clock may only make it
//! stop *earlier*: a granted or renewed term is trusted until
//! `sent_at + lease − margin`, where `sent_at` is the moment *before* the request left. A slow answer
//! therefore never stretches the trust.
//!
//! The database's clock may be set. An expiry that lies too far ahead keeps nobody waiting: a follower that
//! has seen one renewal stand for as long as it lasts, by its own clock, asks for the term as *overdue*. And a
//! renewal that does not move the stored expiry ahead extends no trust.
//!
//! # Phases
//!
//! ```text
//!            Granted            FenceRaised        settled           Prepared
//! Following ────────► Raising ─────────────► Settling ────► Preparing ────────► Leading
//!   ▲  ▲                 │                      │               │               │    │ DrainAsked
//!   │  │                 └──────── the term ends (see below) ───┴───────────────┤    ▼
//!   │  │                                                                        │  Draining
//!   │  │    Released or not needed              Stopped                         ▼    │
//!   │  └──────────────────────────── Releasing ◄──────── Stopping ◄─────────────┴────┘
//!   │ DrainEnded, or nobody took over           │
//!   └──────────────── Resting ◄─────────────────┘ drained, or not enabled
//! ```
//!
//! Renewals go on from `Raising` to `Draining`, beside whatever else is under way. The way from the grant to the
//! gate is bounded: a node that cannot raise the fence, or cannot prepare, gives the term back and stays out for
//! a while, because others may be able to.
//!
//! # How a term ends
//!
//! Always in this order: gate shut, work stopped, lock released. `Release` needs `Stopped`.
//!
//! | what happened | released afterwards |
//! | --- | --- |
//! | the lock says that the term is gone ([`Event::Lost`], [`Event::SessionEnded`]) | no, there is nothing to release |
//! | the local deadline passed, a renewal failed, the server changed | yes, it costs nothing and may save a lease |
//! | the fence refused the epoch, or the gate could not be opened in time | yes |
//! | the work stalled or ended by itself, a drain was asked for | yes |
//!
//! # Replies that come late, twice or never
//!
//! Lock commands are numbered and one is outstanding at a time. A reply to any other changes nothing,
//! except that a late `Granted` is a *stray* term: nobody acts in it, so it is released. A request given
//! up as [`Event::Unknown`] may still be applied at any later time; the row then carries this
//! process's nonce, `Held` says so (`ours`), and that stray is released too, instead of waiting it out.

mod command;
mod event;
mod follows;
mod happened;
mod state;

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use tenure_database::BootInstant;

pub use self::{
    command::{Admits, Command, CommandId, EndReason},
    event::{Event, Renewal, Shown},
};
use crate::{term::Epoch, timing::Timing};
use state::{Ask, Contends, Due, Phase, Rest, State};

/// One node's part in the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elector {
    timing: Timing,
    state: State,
}

/// Only the state tells two electors of one model apart; the timing is the same in all of them.
impl Hash for Elector {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.state.hash(hasher);
    }
}

impl Elector {
    /// A follower that asks for the lock at its first wake-up.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self::starting(
            timing,
            Contends::Yes,
            Phase::Following { ask_at: Due::at(BootInstant::default()) },
        )
    }

    /// A follower that never asks for the lock, and only watches who holds it.
    #[must_use]
    pub fn disabled(timing: Timing) -> Self {
        Self::starting(timing, Contends::Never, Phase::Resting(Rest::default()))
    }

    fn starting(timing: Timing, contends: Contends, phase: Phase) -> Self {
        let state = State {
            phase,
            asked: None,
            last_command: CommandId::default(),
            seen: Epoch::ZERO,
            stray: None,
            watched: None,
            cautious_until: BootInstant::default(),
            shown_lease: Duration::ZERO,
            out_until: BootInstant::default(),
            failures: 0,
            nudged: false,
            contends,
        };
        Self { timing, state }
    }

    /// The term whose gate this elector may have opened or be about to open.
    #[must_use]
    pub fn holding(&self) -> Option<Epoch> {
        match &self.state.phase {
            Phase::Holding(hold) => Some(hold.epoch),
            _ => None,
        }
    }

    /// A term was won and is not given back yet: its gate may be open, its work may run, or it is being released.
    #[must_use]
    pub fn has_term(&self) -> bool {
        matches!(self.state.phase, Phase::Holding(_) | Phase::Stopping(_) | Phase::Releasing(_))
    }

    /// Nothing is held, nothing is running, and nothing was asked for or will be: the node may leave.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.is_resting() && self.state.stray.is_none() && !self.is_acquiring()
    }

    /// It does not contend, but has asked for a term and got no answer yet.
    #[must_use]
    pub fn acquires_in_vain(&self) -> bool {
        self.is_resting() && self.is_acquiring()
    }

    fn is_resting(&self) -> bool {
        matches!(self.state.phase, Phase::Resting(_))
    }

    fn is_acquiring(&self) -> bool {
        self.state.asked.as_ref().is_some_and(|asked| asked.what == Ask::Acquire)
    }

    /// It was asked to hand over, and does not contend until that ends.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.state.contends == Contends::Drained
    }

    /// Takes in what happened at `now`, and says what to do about it, in order.
    #[must_use]
    pub fn step(&mut self, now: BootInstant, event: Event) -> Vec<Command> {
        let mut step = Step { timing: &self.timing, state: &mut self.state, now, out: Vec::new() };
        step.check_deadlines();
        step.take(event);
        step.go_on();
        step.out
    }
}

/// One step: the elector's state, the time, and the commands so far.
struct Step<'e> {
    timing: &'e Timing,
    state: &'e mut State,
    now: BootInstant,
    out: Vec<Command>,
}
