//! What follows from where we are now.

use std::time::Duration;

use tenure_database::BootInstant;

use super::{
    Step,
    command::{Command, CommandId, EndReason},
    event::Renewal,
    state::{Ask, Asked, Contends, Due, Ending, Hold, Phase, Raise, Rest, Stage},
};
use crate::{term::Epoch, timing::OnDeadline};

impl Step<'_> {
    /// A passed deadline comes before whatever else happened.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.now;
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        if hold.until <= now {
            match self.timing.on_deadline() {
                OnDeadline::EndTerm => return self.end(EndReason::DeadlinePassed),
                OnDeadline::ShutUntilProven => self.out.extend(hold.shut_gate()),
            }
        }
        if matches!(&self.state.phase, Phase::Holding(hold) if hold.begins_too_late(now)) {
            return self.end(EndReason::CannotBegin);
        }
        if let Phase::Holding(Hold { stage: Stage::Draining { grace_until, .. }, .. }) =
            self.state.phase
            && grace_until <= now
        {
            self.end(EndReason::Drained);
        }
    }

    pub(super) fn go_on(&mut self) {
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
            Stage::Raising { raise: Raise::Again { at }, .. } if at <= now => {
                self.raise_the_fence();
            }
            Stage::Settling if hold.settled_at <= now => {
                hold.stage = Stage::Preparing { by: now + self.timing.prepare_within() };
                self.out.push(Command::Prepare { epoch: hold.epoch });
            }
            _ => {}
        }
    }

    fn raise_the_fence(&mut self) {
        let command = self.number();
        if let Phase::Holding(hold) = &mut self.state.phase
            && let Stage::Raising { raise, .. } = &mut hold.stage
        {
            *raise = Raise::Asked(command);
            self.out.push(Command::RaiseFence { command, epoch: hold.epoch });
        }
    }

    fn ask_the_lock(&mut self) {
        let now = self.now;
        let what = match (&self.state.phase, self.state.stray) {
            (Phase::Following { .. } | Phase::Resting(_), Some(_)) => Ask::ReleaseStray,
            (Phase::Following { ask_at }, None) if self.may_ask(*ask_at) => Ask::Acquire,
            (Phase::Holding(hold), _) if hold.renew_at.at <= now => Ask::Renew,
            (Phase::Releasing(_), _) => Ask::Release,
            (Phase::Resting(rest), None) if rest.look_at <= now => Ask::Observe,
            _ => return,
        };
        let command = self.number();
        self.state.asked = Some(Asked { command, what });
        self.out.extend(self.lock_command(command, what));
    }

    fn may_ask(&self, ask_at: Due) -> bool {
        self.asks_at(ask_at) <= self.now
    }

    fn asks_at(&self, ask_at: Due) -> BootInstant {
        ask_at.at.max(self.state.cautious_until).max(self.state.out_until)
    }

    fn lock_command(&self, command: CommandId, what: Ask) -> Option<Command> {
        match (what, &self.state.phase) {
            (Ask::Acquire, _) => {
                let (floor, overdue) = (self.state.seen, self.overdue());
                Some(Command::Acquire { command, floor, overdue })
            }
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

    /// The renewal of another's term that has run out by our own clock.
    fn overdue(&self) -> Option<Renewal> {
        let watched = self.state.watched.filter(|watched| watched.over_at <= self.now)?;
        Some(watched.renewal)
    }

    fn wake_when_due(&mut self) {
        let idle = self.state.asked.is_none();
        let due = match &self.state.phase {
            Phase::Following { ask_at } if idle => {
                Some(Due { at: self.asks_at(*ask_at), ..*ask_at })
            }
            Phase::Holding(hold) => hold.next_due(idle, self.timing.on_deadline()),
            Phase::Resting(rest) if idle => Some(Due::at(rest.look_at)),
            _ => None,
        };
        if let Some(Due { at, spread }) = due {
            self.out.push(Command::WakeAt { at, spread });
        }
    }

    /// Ends the term that is held: gate shut, then work stopped, then (once it has) release.
    pub(super) fn end(&mut self, reason: EndReason) {
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

    pub(super) fn end_if(&mut self, epoch: Epoch, reason: EndReason) {
        if matches!(&self.state.phase, Phase::Holding(hold) if hold.epoch == epoch) {
            self.end(reason);
        }
    }

    pub(super) fn work_has_stopped(&mut self, ending: Ending) {
        self.state.phase = Phase::Releasing(ending);
        if !ending.reason.leaves_something_to_release() {
            self.leave_term();
        }
    }

    /// The term is behind us: contend again, unless drained.
    pub(super) fn leave_term(&mut self) {
        let Phase::Releasing(ending) = self.state.phase else { return };
        if self.state.contends != Contends::Yes {
            return self.rest();
        }
        let pause = match ending.reason {
            EndReason::RenewFailed => self.timing.backoff().min,
            _ => Duration::ZERO,
        };
        let stays_out = match ending.reason {
            EndReason::Stalled | EndReason::WorkEnded => self.timing.hold_down(),
            // Others may hear of the release only when they look again.
            EndReason::CannotBegin => {
                self.timing.hold_down().max(self.timing.acquire_interval() * 2)
            }
            _ => Duration::ZERO,
        };
        if !stays_out.is_zero() {
            self.state.out_until = self.now + stays_out;
        }
        self.state.phase = Phase::Following { ask_at: Due::at(self.now + pause) };
    }

    pub(super) fn rest(&mut self) {
        self.state.phase = Phase::Resting(Rest {
            look_at: self.now + self.timing.look_interval(),
            over_at: self.now + self.timing.drain_cooldown(),
        });
    }

    pub(super) fn follow(&mut self, due: Due) {
        if let Phase::Following { ask_at } = &mut self.state.phase {
            *ask_at = due;
        }
    }

    pub(super) fn saw(&mut self, epoch: Epoch) {
        self.state.seen = self.state.seen.max(epoch);
    }

    /// Whether `command` is the outstanding one and asked for this; if so it no longer is.
    pub(super) fn answers(&mut self, command: CommandId, what: Ask) -> bool {
        self.state.asked.take_if(|asked| *asked == Asked { command, what }).is_some()
    }

    fn number(&mut self) -> CommandId {
        self.state.last_command = self.state.last_command.next();
        self.state.last_command
    }

    pub(super) fn renewal_after(&self, sent_at: BootInstant) -> Due {
        let jitter = self.timing.renew_jitter();
        Due { at: sent_at + (self.timing.renew_interval() - jitter), spread: jitter * 2 }
    }
}
