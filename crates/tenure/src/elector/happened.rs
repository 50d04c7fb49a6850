//! What happened, and what it changes.

use std::time::Duration;

use tenure_database::BootInstant;

use super::{
    Step,
    command::{Command, CommandId, EndReason},
    event::{Event, Shown},
    state::{Ask, Contends, Due, Ending, Gate, Hold, Phase, Raise, Stage, Watched},
};
use crate::{term::Epoch, timing::OnFailedRenew};

impl Step<'_> {
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Granted { command, sent_at, epoch, settle } => {
                self.granted(command, sent_at, epoch, settle);
            }
            Event::Held { command, epoch, left, shown, ours } => {
                self.held(command, epoch, left, shown, ours);
            }
            Event::Renewed { command, sent_at, extends } => {
                self.renewed(command, sent_at, extends);
            }
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
            Event::GivenUp { epoch } => self.end_if(epoch, EndReason::WorkEnded),
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
            self.state.watched = None;
            self.state.out_until = BootInstant::default();
            // Trust counts from the sending, a wait from the answer: each from its safe end.
            let settled_at = match settle {
                Duration::ZERO => self.state.cautious_until,
                wait => self.state.cautious_until.max(self.now + wait),
            };
            self.state.phase = Phase::Holding(Hold {
                epoch,
                until,
                proven_at: sent_at,
                renew_at: self.renewal_after(sent_at),
                settled_at,
                stage: Stage::Raising {
                    by: self.now + self.timing.raise_within(),
                    raise: Raise::Again { at: self.now },
                },
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
            Phase::Following { .. } | Phase::Resting(_) => Epoch::ZERO,
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

    fn held(
        &mut self,
        command: CommandId,
        epoch: Epoch,
        left: Option<Duration>,
        shown: Option<Shown>,
        ours: bool,
    ) {
        self.saw(epoch);
        if !self.answers(command, Ask::Acquire) {
            return;
        }
        self.state.failures = 0;
        if ours {
            self.state.stray = Some(epoch);
        }
        if let Some(shown) = shown {
            self.state.shown_lease = shown.lasts;
        }
        self.state.watched =
            shown.map(|shown| Watched::seeing(self.state.watched, shown, self.now));
        let pause =
            left.unwrap_or(self.timing.acquire_interval()).min(self.timing.acquire_interval());
        let over_at = self.state.watched.map(|watched| watched.over_at);
        let ask_at = match self.state.nudged {
            true => self.now,
            // What was overdue when it was asked for, and is held all the same, is asked for after a pause.
            false => match over_at.filter(|over_at| *over_at > self.now) {
                Some(over_at) => over_at.min(self.now + pause),
                None => self.now + pause,
            },
        };
        self.state.nudged = false;
        self.follow(Due::at(ask_at));
    }

    fn renewed(&mut self, command: CommandId, sent_at: BootInstant, extends: bool) {
        if !self.answers(command, Ask::Renew) {
            return;
        }
        self.state.failures = 0;
        let until = sent_at + self.timing.gate_open_for();
        let renew_at = self.renewal_after(sent_at);
        let now = self.now;
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.renew_at = renew_at;
            if !extends {
                // Whoever keeps a lock with its gate shut leads nobody.
                if hold.until <= now {
                    self.end(EndReason::ClockSetBack);
                }
                return;
            }
            hold.until = hold.until.max(until);
            hold.proven_at = hold.proven_at.max(sent_at);
            self.open_if_proven();
        }
    }

    /// Opens the gate, or extends it. One that is shut opens only by a proof that was sent when all caution was
    /// over: until then somebody may take the term by a clock that we have not seen.
    fn open_if_proven(&mut self) {
        let (now, cautious_until) = (self.now, self.state.cautious_until);
        if let Phase::Holding(hold) = &mut self.state.phase
            && hold.until > now
            && (hold.is_open() || hold.proven_at >= cautious_until)
        {
            self.out.extend(hold.open_gate());
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
        let Phase::Resting(rest) = &mut self.state.phase else { return };
        if free && self.state.contends == Contends::Drained && rest.over_at <= self.now {
            self.drain_ended();
        } else {
            rest.look_at = self.now + self.timing.look_interval();
        }
    }

    fn unknown(&mut self, command: CommandId) {
        if let Phase::Holding(hold) = &mut self.state.phase
            && let Stage::Raising { raise, .. } = &mut hold.stage
            && *raise == Raise::Asked(command)
        {
            *raise = Raise::Again { at: self.now + self.timing.backoff().min };
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
            && matches!(hold.stage, Stage::Raising { .. })
        {
            hold.stage = Stage::Settling;
        }
    }

    fn fence_refused(&mut self, epoch: Epoch, fence: Epoch) {
        self.saw(fence);
        self.end_if(epoch, EndReason::FenceRefused);
    }

    fn clock_jumped(&mut self) {
        let lease = self.timing.lease_duration().max(self.state.shown_lease);
        self.state.cautious_until = self.now + lease;
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.settled_at = hold.settled_at.max(self.state.cautious_until);
        }
    }

    fn prepared(&mut self, epoch: Epoch) {
        if let Phase::Holding(hold) = &mut self.state.phase
            && hold.epoch == epoch
            && matches!(hold.stage, Stage::Preparing { .. })
        {
            hold.stage = Stage::Leading { gate: Gate::ShutUntilProven };
            self.open_if_proven();
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
            Phase::Stopping(_) | Phase::Releasing(_) | Phase::Resting(_) => {}
        }
    }

    fn drain_ended(&mut self) {
        if self.state.contends != Contends::Drained {
            return;
        }
        self.state.contends = Contends::Yes;
        if matches!(self.state.phase, Phase::Resting(_)) {
            self.state.phase = Phase::Following { ask_at: Due::at(self.now) };
        }
    }

    fn nudged(&mut self) {
        match &mut self.state.phase {
            Phase::Following { .. } => {
                self.state.nudged = self.state.asked.is_some();
                self.follow(Due::at(self.now));
            }
            Phase::Resting(rest) => rest.look_at = self.now,
            Phase::Holding(_) | Phase::Stopping(_) | Phase::Releasing(_) => {}
        }
    }
}
