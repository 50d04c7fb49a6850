//! Drives an elector: feeds it what happens, and carries out what it says.

use std::{sync::Arc, time::Duration};

use tenure_database::BootInstant;
use tokio::{
    sync::{Notify, broadcast, mpsc, watch},
    time::{Interval, MissedTickBehavior},
};

use super::{
    Builder, ElectionEnded, Leadership, Role, Wish,
    calls::{self, Answer, FenceCall, LockCall},
    work::Workers,
};
use crate::{
    advisory_environment::LeaderStateChanged,
    elector::{Admits, Command, Elector, EndReason, Event},
    gate::LeaderGate,
    lock::{Candidate, Hold, Holding, News, Witness},
    observe::Observer,
    term::{Epoch, Term},
    timing::Timing,
};

/// How long an order may lie in the database before a leader with a long lease sees it.
const MOST_PATIENT: Duration = Duration::from_secs(2);

/// What the driver shares with the handle that the caller keeps.
pub(super) struct Shared {
    pub(super) gate: LeaderGate,
    pub(super) leadership: watch::Sender<Leadership>,
    pub(super) changes: broadcast::Sender<LeaderStateChanged>,
}

pub(super) struct Driver {
    elector: Elector,
    timing: Timing,
    candidate: Candidate,
    stale_after: Option<Duration>,
    /// Another's lease that was told to differ from ours.
    odd_lease: Option<Duration>,
    witness: Witness,
    shared: Arc<Shared>,
    observer: Observer,
    workers: Workers,
    lock_calls: mpsc::UnboundedSender<LockCall>,
    fence_calls: Option<mpsc::UnboundedSender<FenceCall>>,
    stand_down: Arc<Notify>,
    /// For how long an acquire waits inside the lock, if it does.
    wait: Option<Duration>,
    events: mpsc::UnboundedSender<Event>,
    wake_at: Option<BootInstant>,
    /// When another's term that was seen is no longer known to live.
    leader_until: Option<BootInstant>,
    /// The connection that the lock lives on, from its grant to the beginning of its work.
    hold: Option<Hold>,
    last_led: Option<Epoch>,
    /// The term that an operator has ended through the database, until it may contend again.
    drained: Option<Epoch>,
    /// Whether the database was asked for orders and has not answered.
    awaits_orders: bool,
}

/// Where things come from that the driver waits for.
struct Inlets {
    wishes: mpsc::UnboundedReceiver<Wish>,
    events: mpsc::UnboundedReceiver<Event>,
    answers: mpsc::UnboundedReceiver<Answer>,
    news: mpsc::UnboundedReceiver<News>,
    orders: mpsc::UnboundedReceiver<Option<Epoch>>,
    /// When to ask for orders again.
    orders_due: Interval,
}

/// Runs an election on the current thread until it is stopped or cannot go on.
pub(super) async fn run(
    builder: Builder,
    shared: Arc<Shared>,
    observer: Observer,
    wishes: mpsc::UnboundedReceiver<Wish>,
    runtime: tokio::runtime::Handle,
) -> Result<(), ElectionEnded> {
    let Builder {
        candidate,
        timing,
        mut lock,
        fence,
        work,
        enabled,
        stall_timeout,
        stale_after,
        ..
    } = builder;
    let (events, told) = mpsc::unbounded_channel();
    let (answer, answers) = mpsc::unbounded_channel();
    let (news, place, wait) = (lock.news(), lock.place(), lock.wait());
    let stand_down = Arc::new(Notify::new());

    let (order, orders) = mpsc::unbounded_channel();
    let mut orders_due = tokio::time::interval(timing.renew_interval().min(MOST_PATIENT));
    orders_due.set_missed_tick_behavior(MissedTickBehavior::Delay);

    let (lock_calls, asked) = mpsc::unbounded_channel();
    let asking =
        calls::ask_lock(lock, asked, answer.clone(), Arc::clone(&stand_down), observer.clone());
    let lock_task = tokio::spawn(asking);
    let (fence_calls, fence_task) = match fence {
        None => (None, None),
        Some(fence) => {
            let (calls, asked) = mpsc::unbounded_channel();
            let (scope, observer) = (candidate.scope.clone(), observer.clone());
            let asking = calls::ask_fence(fence, scope, place, asked, answer, order, observer);
            (Some(calls), Some(tokio::spawn(asking)))
        }
    };

    let elector = if enabled { Elector::new(timing) } else { Elector::disabled(timing) };
    let driver = Driver {
        elector,
        timing,
        candidate,
        stale_after,
        odd_lease: None,
        witness: Witness::new(timing.margin()),
        shared,
        observer,
        workers: Workers::new(work, runtime, events.clone(), stall_timeout),
        lock_calls,
        fence_calls,
        stand_down,
        wait,
        events,
        wake_at: None,
        leader_until: None,
        hold: None,
        last_led: None,
        drained: None,
        awaits_orders: false,
    };
    let inlets = Inlets { wishes, events: told, answers, news, orders, orders_due };
    let ended = driver.drive(inlets).await;
    // The driver is gone and with it the senders: what was asked for last is still carried out.
    if let Some(task) = fence_task {
        let _ = task.await;
    }
    lock_task.abort();
    let _ = lock_task.await;
    ended
}

impl Driver {
    async fn drive(mut self, mut inlets: Inlets) -> Result<(), ElectionEnded> {
        let mut leaving = false;
        self.step(Event::Woke);
        loop {
            if leaving && self.elector.is_at_rest() {
                return Ok(());
            }
            tokio::select! {
                biased;
                wish = inlets.wishes.recv() => match wish {
                    Some(Wish::Drain) => self.drain(),
                    Some(Wish::EndDrain) => self.step(Event::DrainEnded),
                    Some(Wish::FenceRefused(epoch)) => {
                        self.step(Event::FenceRefused { epoch, fence: Epoch::ZERO });
                    }
                    Some(Wish::Stop) => {
                        leaving = true;
                        self.drain();
                    }
                    None => {
                        self.abandon(EndReason::Drained);
                        return Ok(());
                    }
                },
                Some(event) = inlets.events.recv() => self.step(event),
                Some(answer) = inlets.answers.recv() => self.answered(answer)?,
                Some(news) = inlets.news.recv() => self.step(match news {
                    News::Changed => Event::Nudged,
                    News::SessionEnded(epoch) => Event::SessionEnded { epoch },
                }),
                Some(order) = inlets.orders.recv() => self.ordered(order),
                () = sleep_until(self.wake_at) => self.step(Event::Woke),
                () = sleep_until(self.leader_until) => self.lose_sight(Epoch::ZERO),
                _ = inlets.orders_due.tick(), if self.minds_orders() => self.look_for_orders(),
            }
        }
    }

    fn drain(&mut self) {
        self.step(Event::DrainAsked);
        if self.wait.is_some() && self.elector.acquires_in_vain() {
            self.stand_down.notify_one();
        }
    }

    /// Only a leader can be told to hand over, and only whoever was told so to contend again.
    fn minds_orders(&self) -> bool {
        let leads = self.shared.leadership.borrow().role == Role::Leader;
        !self.awaits_orders && (leads || self.drained.is_some())
    }

    fn look_for_orders(&mut self) {
        if let Some(calls) = &self.fence_calls {
            self.awaits_orders = true;
            let _ = calls.send(FenceCall::LookForOrders);
        }
    }

    /// An operator has asked the terms up to this one to hand over; `None` when there was no answer.
    fn ordered(&mut self, up_to: Option<Epoch>) {
        self.awaits_orders = false;
        let Some(up_to) = up_to else { return };
        match (self.elector.holding(), self.drained) {
            (Some(epoch), _) if epoch <= up_to => {
                self.drained = Some(epoch);
                self.drain();
            }
            (None, Some(epoch)) if up_to < epoch => self.step(Event::DrainEnded),
            _ => {}
        }
    }

    fn answered(&mut self, answer: Answer) -> Result<(), ElectionEnded> {
        let Answer { mut event, reading, hold, holder, fatal } = answer;
        if let Some(reason) = fatal {
            self.observer.cannot_go_on(&reason);
            self.abandon(EndReason::Lost);
            return Err(ElectionEnded { reason });
        }
        if hold.is_some() {
            self.hold = hold;
        }
        if matches!(event, Event::Granted { .. } | Event::Renewed { .. }) {
            let expires_at = self.observer.expires_at(&reading);
            self.shared.leadership.send_if_modified(|leadership| {
                leadership.expires_at = expires_at;
                false
            });
        }
        let server = reading.server.clone();
        let signs = self.witness.judge(reading, &mut event);
        if signs.server_changed {
            self.observer.server_changed(server.as_deref().unwrap_or_default());
        }
        if signs.clock_jumped {
            self.step(Event::ClockJumped);
        }
        if signs.server_changed
            && let Some(epoch) = self.elector.holding()
        {
            self.step(Event::ServerChanged { epoch });
        }
        match (holder, &event) {
            (Some(held), _) => self.saw(held),
            (None, &(Event::Granted { epoch, .. } | Event::Observed { epoch, .. })) => {
                self.lose_sight(epoch);
            }
            (None, _) => {}
        }
        self.step(event);
        Ok(())
    }

    fn saw(&mut self, held: Holding) {
        self.observer.held_by_another(held.epoch, held.heartbeat_age);
        if let (Some(age), Some(limit)) = (held.heartbeat_age, self.stale_after)
            && age > limit
        {
            self.observer.stale_leader(held.epoch, age);
        }
        self.compare_leases(&held);
        if held.holder.is_empty() {
            return self.lose_sight(held.epoch);
        }
        self.leader_until = Some(BootInstant::now() + self.known_for(held.left));
        let Holding { holder, epoch, .. } = held;
        self.shared.leadership.send_if_modified(|known| known.sees(holder, epoch));
    }

    /// Whoever sits a lease out may know of no other than its own: all who contend for a scope must agree on it.
    fn compare_leases(&mut self, held: &Holding) {
        let (ours, margin) = (self.timing.lease_duration(), self.timing.margin());
        let theirs = held.shown.map(|shown| shown.lasts);
        // A renewal by a clock that was set back lasts a little more or less than it should.
        let odd = theirs.filter(|theirs| theirs.abs_diff(ours) > margin);
        if let Some(theirs) = odd.filter(|_| self.odd_lease != odd) {
            self.observer.lease_differs(held.epoch, theirs, ours);
        }
        self.odd_lease = odd;
    }

    /// How long the sight of another's term counts: as long as the term lasts; where that cannot be said, until
    /// the next look must have been answered.
    fn known_for(&self, left: Option<Duration>) -> Duration {
        match (self.wait, left) {
            (None, Some(left)) => left,
            (wait, _) => {
                let pause = wait.unwrap_or_default().max(self.timing.acquire_interval());
                pause + self.timing.call_timeout()
            }
        }
    }

    fn lose_sight(&mut self, epoch: Epoch) {
        self.leader_until = None;
        self.shared.leadership.send_if_modified(|known| known.sees_nobody_since(epoch));
    }

    fn step(&mut self, event: Event) {
        self.wake_at = None;
        for command in self.elector.step(BootInstant::now(), event) {
            self.carry_out(command);
        }
        if self.elector.holding().is_none() {
            self.hold = None;
        }
        let has_term = self.elector.has_term();
        self.shared.leadership.send_if_modified(|leadership| {
            std::mem::replace(&mut leadership.has_term, has_term) != has_term
        });
        if !self.elector.is_drained() {
            self.drained = None;
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Acquire { command, floor, overdue } => {
                self.ask(LockCall::Acquire { command, floor, overdue });
            }
            Command::Renew { command, epoch } => self.ask(LockCall::Renew { command, epoch }),
            Command::Release { command, epoch } => self.ask(LockCall::Release { command, epoch }),
            Command::Observe { command } => self.ask(LockCall::Observe { command }),
            Command::RaiseFence { command, epoch } => match &self.fence_calls {
                Some(calls) => {
                    // The fence's task lives as long as the driver.
                    let _ = calls.send(FenceCall::Raise { command, term: self.term(epoch) });
                }
                None => {
                    let _ = self.events.send(Event::FenceRaised { epoch });
                }
            },
            Command::Prepare { epoch } => {
                self.workers.prepare(self.term(epoch), self.hold.take());
            }
            Command::OpenGate { epoch, until, admits } => self.open(epoch, until, admits),
            Command::CloseGate { epoch, reason } => self.close(epoch, reason),
            Command::StopWork { .. } => self.workers.stop(),
            Command::WakeAt { at, spread } => {
                self.wake_at = Some(at + spread.mul_f64(fastrand::f64()));
            }
        }
    }

    fn ask(&self, call: LockCall) {
        // The lock's task lives as long as the driver.
        let _ = self.lock_calls.send(call);
    }

    fn open(&mut self, epoch: Epoch, until: BootInstant, admits: Admits) {
        self.shared.gate.open(epoch, until, admits);
        self.workers.act_until(until);
        let role = match admits {
            Admits::NewWork => Role::Leader,
            Admits::RunningWork => Role::Draining,
        };
        if self.shared.leadership.borrow().role == role {
            return;
        }
        if role == Role::Leader {
            self.workers.lead();
            self.observer.led(epoch, self.last_led == Some(epoch));
            self.last_led = Some(epoch);
            self.tell(LeaderStateChanged { is_leader: true, epoch });
        }
        let term = self.term(epoch);
        self.shared.leadership.send_modify(|leadership| {
            leadership.role = role;
            leadership.sees(term.holder().to_string(), epoch);
            leadership.term = Some(term);
        });
    }

    fn close(&mut self, epoch: Epoch, reason: EndReason) {
        self.shared.gate.close();
        let was = self.shared.leadership.borrow().role;
        if was == Role::Follower && reason != EndReason::Late && self.last_led != Some(epoch) {
            self.observer.never_led(epoch, reason);
        }
        if was != Role::Follower {
            self.observer.shut(epoch, reason);
            self.tell(LeaderStateChanged { is_leader: false, epoch });
            self.shared.leadership.send_modify(|leadership| {
                leadership.role = Role::Follower;
                leadership.sees_nobody_since(epoch);
                leadership.term = None;
                leadership.expires_at = None;
            });
        }
        if reason != EndReason::Late
            && let Some(calls) = &self.fence_calls
        {
            let _ = calls.send(FenceCall::End { term: self.term(epoch), reason });
        }
    }

    /// The election ends here and now: gate shut and work told to stop. What is held runs out.
    fn abandon(&mut self, reason: EndReason) {
        if let Some(epoch) = self.elector.holding() {
            self.close(epoch, reason);
        }
        self.workers.stop();
    }

    fn tell(&self, change: LeaderStateChanged) {
        // Nobody has to listen.
        let _ = self.shared.changes.send(change);
    }

    fn term(&self, epoch: Epoch) -> Term {
        let Candidate { scope, holder, .. } = &self.candidate;
        Term::granted(scope.clone(), holder.clone(), epoch)
    }
}

async fn sleep_until(at: Option<BootInstant>) {
    match at {
        Some(at) => tokio::time::sleep(at.left()).await,
        None => std::future::pending().await,
    }
}
