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
//! Renewals go on from `Raising` to `Draining`, beside whatever else is under way.
//!
//! # How a term ends
//!
//! Always in this order: gate shut, work stopped, lock released. `Release` needs `Stopped`.
//!
//! | what happened | released afterwards |
//! | --- | --- |
//! | the lock says that the term is gone ([`Event::Lost`], [`Event::SessionEnded`]) | no, there is nothing to release |
//! | the local deadline passed, a renewal failed, the server changed | yes, it costs nothing and may save a lease |
//! | the fence refused the epoch | yes |
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

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use tenure_database::BootInstant;

pub use self::{
    command::{Admits, Command, CommandId, EndReason},
    event::Event,
};
use crate::{
    term::Epoch,
    timing::{OnDeadline, OnFailedRenew, Timing},
};

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    phase: Phase,
    asked: Option<Asked>,
    last_command: CommandId,
    /// The highest epoch that this process has seen anywhere: the floor of its next win.
    seen: Epoch,
    /// A term that was granted to us and that nobody acts in.
    stray: Option<Epoch>,
    /// The database's clock was seen to jump: no gate opens before this, by our own clock.
    cautious_until: BootInstant,
    /// Lock calls that failed in a row.
    failures: u32,
    /// The lock changed while a request was under way, whose answer may be older than the change.
    nudged: bool,
    contends: Contends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Contends {
    Yes,
    /// Not until told, or until nobody took over.
    Drained,
    /// Not at all: the node was started as a follower.
    Never,
}

/// The outstanding lock command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked {
    command: CommandId,
    what: Ask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ask {
    Acquire,
    Renew,
    Release,
    ReleaseStray,
    Observe,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Following { ask_at: Due },
    Holding(Hold),
    Stopping(Ending),
    Releasing(Ending),
    Resting { look_at: BootInstant },
}

/// A moment, and how far after it a driver may spread the wake-up, so that nodes do not move in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Due {
    at: BootInstant,
    spread: Duration,
}

impl Due {
    fn at(at: BootInstant) -> Self {
        Self { at, spread: Duration::ZERO }
    }
}

/// A term that is ours as far as we know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hold {
    epoch: Epoch,
    /// The local deadline: what the last grant or renewal is trusted for.
    until: BootInstant,
    renew_at: Due,
    /// No gate opens before the predecessor's must have shut.
    settled_at: BootInstant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Raising(Raise),
    Settling,
    Preparing,
    Leading { gate: Gate },
    Draining { grace_until: BootInstant, gate: Gate },
}

/// How far the raising of the fence has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Raise {
    Asked(CommandId),
    /// Nothing is known of the last try; raising twice is harmless.
    Again {
        at: BootInstant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gate {
    Open,
    /// The deadline passed, but the lock may still be ours: a renewal that proves it opens again.
    ShutUntilProven,
}

/// A term that is over, on its way to being released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ending {
    epoch: Epoch,
    reason: EndReason,
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
        Self::starting(timing, Contends::Never, Phase::Resting { look_at: BootInstant::default() })
    }

    fn starting(timing: Timing, contends: Contends, phase: Phase) -> Self {
        let state = State {
            phase,
            asked: None,
            last_command: CommandId::default(),
            seen: Epoch::ZERO,
            stray: None,
            cautious_until: BootInstant::default(),
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

    /// Nothing is held, nothing is running, and nothing will be asked for: the node may leave.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state.phase, Phase::Resting { .. }) && self.state.stray.is_none()
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

/// What happened.
impl Step<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Granted { command, sent_at, epoch, settle } => {
                self.granted(command, sent_at, epoch, settle);
            }
            Event::Held { command, epoch, left, ours } => self.held(command, epoch, left, ours),
            Event::Renewed { command, sent_at } => self.renewed(command, sent_at),
            Event::Lost { command } => self.lost(command),
            Event::Released { command } => self.released(command),
            Event::Observed { command, epoch, free, ours } => {
                self.observed(command, epoch, free, ours);
            }
            Event::Unknown { command } => self.unknown(command),
            Event::FenceRaised { epoch } => self.fence_raised(epoch),
            Event::FenceRefused { epoch, fence } => self.fence_refused(epoch, fence),
            Event::SessionEnded { epoch } => self.end_if(epoch, EndReason::SessionEnded),
            Event::ServerChanged { epoch } => self.end_if(epoch, EndReason::ServerChanged),
            Event::Stalled { epoch } => self.end_if(epoch, EndReason::Stalled),
            Event::ClockJumped => self.clock_jumped(),
            Event::Prepared { epoch } => self.prepared(epoch),
            Event::Stopped { epoch } => self.stopped(epoch),
            Event::DrainAsked => self.drain_asked(),
            Event::DrainEnded => self.drain_ended(),
            Event::Nudged => self.nudged(),
            Event::Woke => {}
        }
    }

    fn granted(
        &mut self,
        command: CommandId,
        sent_at: BootInstant,
        epoch: Epoch,
        settle: Duration,
    ) {
        self.saw(epoch);
        let answered = self.answers(command, Ask::Acquire);
        let until = sent_at + self.timing.gate_open_for();
        if answered && until > self.now && matches!(self.state.phase, Phase::Following { .. }) {
            self.state.failures = 0;
            self.state.nudged = false;
            self.state.phase = Phase::Holding(Hold {
                epoch,
                until,
                renew_at: self.renewal_after(sent_at),
                settled_at: self.state.cautious_until.max(sent_at + settle),
                stage: Stage::Raising(Raise::Again { at: self.now }),
            });
        } else if answered || self.is_news(epoch) {
            self.end_superseded(epoch);
            self.state.stray = Some(epoch);
        }
    }

    /// A late grant of a newer term than any we act in or are ending.
    fn is_news(&self, epoch: Epoch) -> bool {
        let current = match &self.state.phase {
            Phase::Holding(hold) => hold.epoch,
            Phase::Stopping(ending) | Phase::Releasing(ending) => ending.epoch,
            Phase::Following { .. } | Phase::Resting { .. } => Epoch::ZERO,
        };
        epoch > current && epoch == self.state.seen
    }

    /// A newer term of our own means that the one we act in has passed.
    fn end_superseded(&mut self, by: Epoch) {
        if let Phase::Holding(hold) = &self.state.phase
            && hold.epoch < by
        {
            self.end(EndReason::Superseded);
        }
    }

    fn held(&mut self, command: CommandId, epoch: Epoch, left: Option<Duration>, ours: bool) {
        self.saw(epoch);
        if !self.answers(command, Ask::Acquire) {
            return;
        }
        self.state.failures = 0;
        if ours {
            self.state.stray = Some(epoch);
        }
        let pause =
            left.unwrap_or(self.timing.acquire_interval()).min(self.timing.acquire_interval());
        let ask_at = if self.state.nudged { self.now } else { self.now + pause };
        self.state.nudged = false;
        self.follow(Due::at(ask_at));
    }

    fn renewed(&mut self, command: CommandId, sent_at: BootInstant) {
        if !self.answers(command, Ask::Renew) {
            return;
        }
        self.state.failures = 0;
        let until = sent_at + self.timing.gate_open_for();
        let renew_at = self.renewal_after(sent_at);
        let now = self.now;
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.until = hold.until.max(until);
            hold.renew_at = renew_at;
            if hold.until > now {
                self.out.extend(hold.open_gate());
            }
        }
    }

    fn lost(&mut self, command: CommandId) {
        if self.answers(command, Ask::Renew) && matches!(self.state.phase, Phase::Holding(_)) {
            self.end(EndReason::Lost);
        }
    }

    fn released(&mut self, command: CommandId) {
        if self.answers(command, Ask::ReleaseStray) {
            self.state.stray = None;
            self.follow(Due::at(self.now));
        } else if self.answers(command, Ask::Release) {
            self.leave_term();
        }
    }

    fn observed(&mut self, command: CommandId, epoch: Epoch, free: bool, ours: bool) {
        self.saw(epoch);
        if !self.answers(command, Ask::Observe) {
            return;
        }
        self.state.failures = 0;
        if ours {
            self.state.stray = Some(epoch);
        }
        if !matches!(self.state.phase, Phase::Resting { .. }) {
            return;
        }
        if free && self.state.contends == Contends::Drained {
            self.drain_ended();
        } else {
            self.state.phase = Phase::Resting { look_at: self.now + self.timing.drain_cooldown() };
        }
    }

    fn unknown(&mut self, command: CommandId) {
        if let Phase::Holding(hold) = &mut self.state.phase
            && hold.stage == Stage::Raising(Raise::Asked(command))
        {
            hold.stage = Stage::Raising(Raise::Again { at: self.now + self.timing.backoff().min });
            return;
        }
        let Some(asked) = self.state.asked.take_if(|asked| asked.command == command) else {
            return;
        };
        self.state.failures = self.state.failures.saturating_add(1);
        let (pause, spread) = self.timing.backoff().pause(self.state.failures);
        let again = Due { at: self.now + pause, spread };
        match asked.what {
            Ask::Acquire => self.follow(again),
            Ask::Renew => self.renewal_failed(),
            Ask::Release => self.leave_term(),
            Ask::ReleaseStray => {
                // The next look at the lock shows whether it is still there.
                self.state.stray = None;
                self.follow(again);
            }
            Ask::Observe => self.state.phase.look_again(again.at),
        }
    }

    fn renewal_failed(&mut self) {
        let again_at = self.now + self.timing.backoff().min;
        if let Phase::Holding(hold) = &mut self.state.phase {
            match self.timing.on_failed_renew() {
                OnFailedRenew::RideOut => hold.renew_at = Due::at(again_at),
                OnFailedRenew::EndTerm => self.end(EndReason::RenewFailed),
            }
        }
    }

    fn fence_raised(&mut self, epoch: Epoch) {
        if let Phase::Holding(hold) = &mut self.state.phase
            && hold.epoch == epoch
            && matches!(hold.stage, Stage::Raising(_))
        {
            hold.stage = Stage::Settling;
        }
    }

    fn fence_refused(&mut self, epoch: Epoch, fence: Epoch) {
        self.saw(fence);
        self.end_if(epoch, EndReason::FenceRefused);
    }

    fn clock_jumped(&mut self) {
        self.state.cautious_until = self.now + self.timing.lease_duration();
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.settled_at = hold.settled_at.max(self.state.cautious_until);
        }
    }

    fn prepared(&mut self, epoch: Epoch) {
        let now = self.now;
        if let Phase::Holding(hold) = &mut self.state.phase
            && hold.epoch == epoch
            && hold.stage == Stage::Preparing
        {
            hold.stage = Stage::Leading { gate: Gate::ShutUntilProven };
            if hold.until > now {
                self.out.extend(hold.open_gate());
            }
        }
    }

    fn stopped(&mut self, epoch: Epoch) {
        match self.state.phase {
            Phase::Stopping(ending) if ending.epoch == epoch => self.work_has_stopped(ending),
            Phase::Holding(ref hold) if hold.epoch == epoch && hold.has_work() => {
                let reason = match hold.stage {
                    Stage::Draining { .. } => EndReason::Drained,
                    _ => EndReason::WorkEnded,
                };
                let ending = Ending { epoch, reason };
                self.out.push(Command::CloseGate { epoch, reason });
                self.work_has_stopped(ending);
            }
            _ => {}
        }
    }

    fn drain_asked(&mut self) {
        if self.state.contends == Contends::Yes {
            self.state.contends = Contends::Drained;
        }
        let grace_until = self.now + self.timing.drain_grace();
        match &mut self.state.phase {
            Phase::Following { .. } => self.rest(),
            Phase::Holding(hold) => match hold.stage {
                Stage::Leading { gate } => {
                    hold.stage = Stage::Draining { grace_until, gate };
                    if gate == Gate::Open {
                        self.out.extend(hold.open_gate());
                    }
                    self.out.push(Command::StopWork { epoch: hold.epoch });
                }
                Stage::Draining { .. } => {}
                _ => self.end(EndReason::Drained),
            },
            Phase::Stopping(_) | Phase::Releasing(_) | Phase::Resting { .. } => {}
        }
    }

    fn drain_ended(&mut self) {
        if self.state.contends != Contends::Drained {
            return;
        }
        self.state.contends = Contends::Yes;
        if matches!(self.state.phase, Phase::Resting { .. }) {
            self.state.phase = Phase::Following { ask_at: Due::at(self.now) };
        }
    }

    fn nudged(&mut self) {
        if matches!(self.state.phase, Phase::Following { .. }) {
            self.state.nudged = self.state.asked.is_some();
            self.follow(Due::at(self.now));
        }
    }
}

/// What follows from where we are now.
impl Step<'_> {
    /// A passed deadline comes before whatever else happened.
    fn check_deadlines(&mut self) {
        let now = self.now;
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        if hold.until <= now {
            match self.timing.on_deadline() {
                OnDeadline::EndTerm => return self.end(EndReason::DeadlinePassed),
                OnDeadline::ShutUntilProven => self.out.extend(hold.shut_gate()),
            }
        }
        if let Phase::Holding(Hold { stage: Stage::Draining { grace_until, .. }, .. }) =
            self.state.phase
            && grace_until <= now
        {
            self.end(EndReason::Drained);
        }
    }

    fn go_on(&mut self) {
        self.go_on_with_the_term();
        if self.state.asked.is_none() {
            self.ask_the_lock();
        }
        self.wake_when_due();
    }

    fn go_on_with_the_term(&mut self) {
        let now = self.now;
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        match hold.stage {
            Stage::Raising(Raise::Again { at }) if at <= now => self.raise_the_fence(),
            Stage::Settling if hold.settled_at <= now => {
                hold.stage = Stage::Preparing;
                self.out.push(Command::Prepare { epoch: hold.epoch });
            }
            _ => {}
        }
    }

    fn raise_the_fence(&mut self) {
        let command = self.number();
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.stage = Stage::Raising(Raise::Asked(command));
            self.out.push(Command::RaiseFence { command, epoch: hold.epoch });
        }
    }

    fn ask_the_lock(&mut self) {
        let now = self.now;
        let what = match (&self.state.phase, self.state.stray) {
            (Phase::Following { .. } | Phase::Resting { .. }, Some(_)) => Ask::ReleaseStray,
            (Phase::Following { ask_at }, None) if self.may_ask(*ask_at) => Ask::Acquire,
            (Phase::Holding(hold), _) if hold.renew_at.at <= now => Ask::Renew,
            (Phase::Releasing(_), _) => Ask::Release,
            (Phase::Resting { look_at }, None) if *look_at <= now => Ask::Observe,
            _ => return,
        };
        let command = self.number();
        self.state.asked = Some(Asked { command, what });
        self.out.extend(self.lock_command(command, what));
    }

    fn may_ask(&self, ask_at: Due) -> bool {
        ask_at.at.max(self.state.cautious_until) <= self.now
    }

    fn lock_command(&self, command: CommandId, what: Ask) -> Option<Command> {
        match (what, &self.state.phase) {
            (Ask::Acquire, _) => Some(Command::Acquire { command, floor: self.state.seen }),
            (Ask::Renew, Phase::Holding(hold)) => {
                Some(Command::Renew { command, epoch: hold.epoch })
            }
            (Ask::Release, Phase::Releasing(ending)) => {
                Some(Command::Release { command, epoch: ending.epoch })
            }
            (Ask::ReleaseStray, _) => {
                self.state.stray.map(|epoch| Command::Release { command, epoch })
            }
            (Ask::Observe, _) => Some(Command::Observe { command }),
            _ => None,
        }
    }

    fn wake_when_due(&mut self) {
        let idle = self.state.asked.is_none();
        let due = match &self.state.phase {
            Phase::Following { ask_at } if idle => {
                Some(Due { at: ask_at.at.max(self.state.cautious_until), ..*ask_at })
            }
            Phase::Holding(hold) => hold.next_due(idle, self.timing.on_deadline()),
            Phase::Resting { look_at } if idle => Some(Due::at(*look_at)),
            _ => None,
        };
        if let Some(Due { at, spread }) = due {
            self.out.push(Command::WakeAt { at, spread });
        }
    }

    /// Ends the term that is held: gate shut, then work stopped, then (once it has) release.
    fn end(&mut self, reason: EndReason) {
        let Phase::Holding(hold) = &self.state.phase else { return };
        let ending = Ending { epoch: hold.epoch, reason };
        let (has_work, told) = (hold.has_work(), matches!(hold.stage, Stage::Draining { .. }));
        self.out.push(Command::CloseGate { epoch: ending.epoch, reason });
        if !has_work {
            return self.work_has_stopped(ending);
        }
        if !told {
            self.out.push(Command::StopWork { epoch: ending.epoch });
        }
        self.state.phase = Phase::Stopping(ending);
    }

    fn end_if(&mut self, epoch: Epoch, reason: EndReason) {
        if matches!(&self.state.phase, Phase::Holding(hold) if hold.epoch == epoch) {
            self.end(reason);
        }
    }

    fn work_has_stopped(&mut self, ending: Ending) {
        self.state.phase = Phase::Releasing(ending);
        if !ending.reason.leaves_something_to_release() {
            self.leave_term();
        }
    }

    /// The term is behind us: contend again, unless drained.
    fn leave_term(&mut self) {
        let Phase::Releasing(ending) = self.state.phase else { return };
        if self.state.contends != Contends::Yes {
            return self.rest();
        }
        let pause = match ending.reason {
            EndReason::Stalled | EndReason::WorkEnded => self.timing.hold_down(),
            EndReason::RenewFailed => self.timing.backoff().min,
            _ => Duration::ZERO,
        };
        self.state.phase = Phase::Following { ask_at: Due::at(self.now + pause) };
    }

    fn rest(&mut self) {
        self.state.phase = Phase::Resting { look_at: self.now + self.timing.drain_cooldown() };
    }

    fn follow(&mut self, due: Due) {
        if let Phase::Following { ask_at } = &mut self.state.phase {
            *ask_at = due;
        }
    }

    fn saw(&mut self, epoch: Epoch) {
        self.state.seen = self.state.seen.max(epoch);
    }

    /// Whether `command` is the outstanding one and asked for this; if so it no longer is.
    fn answers(&mut self, command: CommandId, what: Ask) -> bool {
        self.state.asked.take_if(|asked| *asked == Asked { command, what }).is_some()
    }

    fn number(&mut self) -> CommandId {
        self.state.last_command = self.state.last_command.next();
        self.state.last_command
    }

    fn renewal_after(&self, sent_at: BootInstant) -> Due {
        let jitter = self.timing.renew_jitter();
        Due { at: sent_at + (self.timing.renew_interval() - jitter), spread: jitter * 2 }
    }
}

impl Phase {
    fn look_again(&mut self, at: BootInstant) {
        if let Self::Resting { look_at } = self {
            *look_at = at;
        }
    }
}

impl Hold {
    /// Opens the gate for as long as the term is trusted, or extends it.
    fn open_gate(&mut self) -> Option<Command> {
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

    fn shut_gate(&mut self) -> Option<Command> {
        match &mut self.stage {
            Stage::Leading { gate } | Stage::Draining { gate, .. } if *gate == Gate::Open => {
                *gate = Gate::ShutUntilProven;
                Some(Command::CloseGate { epoch: self.epoch, reason: EndReason::Late })
            }
            _ => None,
        }
    }

    fn has_work(&self) -> bool {
        matches!(self.stage, Stage::Preparing | Stage::Leading { .. } | Stage::Draining { .. })
    }

    fn next_due(&self, idle: bool, on_deadline: OnDeadline) -> Option<Due> {
        let stage = match self.stage {
            Stage::Raising(Raise::Again { at }) => Some(Due::at(at)),
            Stage::Settling => Some(Due::at(self.settled_at)),
            Stage::Draining { grace_until, .. } => Some(Due::at(grace_until)),
            _ => None,
        };
        let deadline = match (on_deadline, self.stage) {
            (OnDeadline::EndTerm, _)
            | (_, Stage::Leading { gate: Gate::Open } | Stage::Draining { gate: Gate::Open, .. }) => {
                Some(Due::at(self.until))
            }
            _ => None,
        };
        let renewal = idle.then_some(self.renew_at);
        [stage, deadline, renewal].into_iter().flatten().min_by_key(|due| due.at)
    }
}
