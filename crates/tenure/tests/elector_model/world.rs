//! Everything around the electors: clocks, network, database, work, and what can go wrong.

use std::sync::Arc;

use stateright::{Model, Property};
use tenure::{
    Backoff, BootInstant, Epoch, Takeover, Timing,
    elector::{Admits, Command, CommandId, Event},
    lock::{ClockReading, Reading, Witness},
    timing::TimingBuilder,
};

use crate::{
    database::{Database, Holder, LockKind, Request, Rules, Transaction, Wish, Work, units},
    node::{Charge, Gate, Node, Worker},
    properties,
};

/// What the lock is, who runs it, and what may go wrong.
#[derive(Clone, Debug)]
pub struct Setting {
    pub nodes: usize,
    pub lock: LockKind,
    pub takeover: Takeover,
    /// When the server may end a session: never, when it was silent for the lease, or at any time.
    pub session_ends: SessionEnds,
    pub acts: Acts,
    /// How far the database's clock may be set at once.
    pub steps: Vec<i64>,
    /// The last tick of the exploration.
    pub horizon: i64,
    pub budget: Budget,
    pub fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnds {
    WhenSilent,
    AtAnyTime,
}

/// Who acts behind the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acts {
    /// The node itself.
    Itself,
    /// Another process of its machine, which is told what the gate may do, late and in order.
    Delegate,
    /// A child that asks no gate: a keeper kills it at the deadline, which takes a while.
    Child,
}

/// How often each misfortune may strike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub give_ups: u8,
    pub doubled: u8,
    pub crashes: u8,
    pub child_deaths: u8,
    pub drains: u8,
    pub session_ends: u8,
    pub writes: u8,
    pub clock_steps: u8,
    pub failovers: u8,
    /// Nodes that reach the lock and, from then on, never the fence.
    pub fence_cuts: u8,
    /// Nodes whose preparation, or whose work, never comes to an end from then on.
    pub stuck: u8,
    pub nudges: u8,
    pub stalls: u8,
}

/// A mistake put in on purpose, for the checker to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    DeadlineAnchoredAtTheReply,
    WaitCountedFromTheSending,
    UnconditionalRaise,
    ReleaseBeforeTheWorkStopped,
    ChildRestartedUnderTheSameEpoch,
    EarlierTermsForgottenWithADeadHolder,
    AnotherServerTrusted,
    RenewalMovesTheExpiryBack,
    TriesToBeginForEver,
    ExpiryBelievedHoweverFar,
}

/// One tick is four units of true time; a node's clock counts three, four or five.
const UNITS: i64 = 4;
const LEASE: i64 = 8;
/// How long a keeper takes to kill.
const KILLING: i64 = 1;

impl Setting {
    pub fn timing(&self) -> Timing {
        let pause = Backoff { min: units(UNITS), max: units(UNITS), cap: units(UNITS) };
        let builder: TimingBuilder = match self.lock {
            LockKind::Lease | LockKind::LeaseElsewhere => {
                Timing::lease(units(LEASE)).renew_interval(units(3))
            }
            // The gate is trusted for the late threshold; the margin comes on top.
            LockKind::Session => Timing::heartbeat(units(3), units(6)),
        };
        let begin_within = match self.has(Fault::TriesToBeginForEver) {
            true => units(i64::from(u32::MAX)),
            false => units(LEASE),
        };
        builder
            .margin(units(2))
            .call_timeout(units(1))
            .acquire_interval(units(LEASE))
            .backoff(pause)
            .takeover(self.takeover)
            .drain_grace(units(8))
            .drain_cooldown(units(8))
            .hold_down(units(UNITS))
            .raise_within(begin_within)
            .prepare_within(begin_within)
            .build()
            .unwrap()
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub fn start(&self) -> World {
        let rules = Rules { kind: self.lock, lease: LEASE, takeover: self.takeover };
        World {
            tick: 0,
            // A margin that is wholly used up by clocks leaves no time to kill, and clocks that part so quickly look as
            // if they were set.
            drifts: !self.is_witnessed() && self.acts != Acts::Child,
            database: Database::new(rules, self.fault),
            nodes: (0..self.nodes).map(|_| Node::starting(self, 0)).collect(),
            requests: Vec::new(),
            replies: Vec::new(),
            budget: self.budget,
            released_while_working: false,
        }
    }

    /// Whether what answers say of their server can make a difference.
    fn is_witnessed(&self) -> bool {
        self.budget.clock_steps > 0 || self.budget.failovers > 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub tick: i64,
    drifts: bool,
    pub database: Database,
    pub nodes: Vec<Node>,
    requests: Vec<Request>,
    replies: Vec<Reply>,
    budget: Budget,
    pub released_while_working: bool,
}

/// An answer on its way, with what the server said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    to: Holder,
    event: Event,
    asked: BootInstant,
    server: u8,
    server_clock: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Wake(usize),
    Apply(Request),
    /// What was waited for inside the server, and is proven only now.
    ApplyAfterAWait(Request),
    Deliver(Reply),
    DeliverAndKeep(Reply),
    GiveUp(usize, CommandId),
    /// What cannot arrive is given up in the end.
    Lose(Request),
    Obey(usize),
    Prepared(usize),
    WorkStops(usize),
    Check(usize),
    Act(usize),
    Commit(Transaction),
    ChildDies(usize),
    Crash(usize),
    Drain(usize),
    UndoDrain(usize),
    EndSession,
    TellOfSession(usize),
    Nudge(usize),
    Stall(usize),
    SetClock(i64),
    FailOver {
        lossy: bool,
    },
    CutFence(usize),
    GetStuck(usize),
}

impl World {
    /// True time, in units.
    pub fn time(&self) -> i64 {
        self.tick * UNITS
    }

    /// A node's own clock: slow, fast or exact.
    fn clock(&self, node: usize) -> BootInstant {
        let rate = if self.drifts { [3, 5, 4][node % 3] } else { UNITS };
        BootInstant::default() + units(self.tick * rate)
    }

    fn holder(&self, node: usize) -> Holder {
        Holder { node, start: self.nodes[node].start }
    }

    /// The term for which something of this node acts, or may begin to, at this moment.
    pub fn acting(&self, setting: &Setting, at: usize) -> Option<Epoch> {
        let node = &self.nodes[at];
        match setting.acts {
            Acts::Itself | Acts::Delegate => self.open_gate(at),
            Acts::Child => {
                let worker = node.worker?;
                let killed = node.kept_until? + units(KILLING);
                (self.clock(at) < killed).then_some(worker.work.epoch)
            }
        }
    }

    /// The term for which this node would let work begin or go on at this moment.
    fn open_gate(&self, node: usize) -> Option<Epoch> {
        let gate = self.nodes[node].gate?;
        (self.clock(node) < gate.until).then_some(gate.epoch)
    }

    /// A node whose gate admits new work in the term that the lock proves.
    pub fn has_leader(&self) -> bool {
        let current = self.database.current(self.time());
        (0..self.nodes.len()).any(|node| {
            let admits = self.nodes[node].gate.is_some_and(|gate| gate.admits == Admits::NewWork);
            admits
                && self
                    .open_gate(node)
                    .is_some_and(|epoch| current == Some((self.holder(node), epoch)))
        })
    }

    fn tell(&mut self, setting: &Setting, node: usize, event: Event) {
        let now = self.clock(node);
        self.nodes[node].wake_at = None;
        for command in self.nodes[node].elector.step(now, event) {
            self.carry_out(setting, node, command);
        }
    }

    fn carry_out(&mut self, setting: &Setting, node: usize, command: Command) {
        match command {
            Command::Acquire { command, floor, overdue } => {
                self.send(node, command, Wish::Acquire { floor, overdue });
            }
            Command::Renew { command, epoch } => self.send(node, command, Wish::Renew { epoch }),
            Command::Release { command, epoch } => {
                let worker = self.nodes[node].worker;
                self.released_while_working |= worker.is_some_and(|w| w.work.epoch == epoch);
                self.send(node, command, Wish::Release { epoch });
            }
            Command::Observe { command } => self.send(node, command, Wish::Observe),
            Command::RaiseFence { command, epoch } => {
                self.send(node, command, Wish::Raise { epoch });
            }
            Command::Prepare { epoch } => self.nodes[node].preparing = Some(epoch),
            Command::OpenGate { epoch, until, admits } => {
                self.charge(setting, node, Charge::Act(Gate { epoch, until, admits }));
            }
            Command::CloseGate { epoch, .. } => self.charge(setting, node, Charge::Shut(epoch)),
            Command::StopWork { epoch } => {
                self.nodes[node].preparing = None;
                self.nodes[node].stopping = Some(epoch);
                if setting.has(Fault::ReleaseBeforeTheWorkStopped) {
                    self.nodes[node].stopping = None;
                    self.tell(setting, node, Event::Stopped { epoch });
                }
            }
            Command::WakeAt { at, .. } => self.nodes[node].wake_at = Some(at),
        }
    }

    /// What the gate may do, at once or over the way to a delegate.
    fn charge(&mut self, setting: &Setting, node: usize, charge: Charge) {
        match setting.acts {
            Acts::Delegate => self.nodes[node].charges.push_back(charge),
            Acts::Itself | Acts::Child => self.obey(setting, node, charge),
        }
    }

    fn obey(&mut self, setting: &Setting, node: usize, charge: Charge) {
        match charge {
            Charge::Act(gate) if gate.epoch <= self.nodes[node].over => {}
            Charge::Act(gate) => {
                self.nodes[node].gate = Some(gate);
                if setting.acts == Acts::Child {
                    self.nodes[node].kept_until = Some(gate.until);
                }
                let work = Work { epoch: gate.epoch, child: 0 };
                let working = self.nodes[node].worker.is_some_and(|w| w.work.epoch == gate.epoch);
                if gate.admits == Admits::NewWork && !working {
                    self.start_child(node, work);
                }
            }
            Charge::Shut(epoch) => self.nodes[node].shut(epoch),
        }
    }

    fn start_child(&mut self, node: usize, work: Work) {
        self.nodes[node].worker = Some(Worker { work, checked: false });
        self.database.begins(work);
    }

    fn send(&mut self, node: usize, command: CommandId, what: Wish) {
        let sent_at = match what {
            Wish::Acquire { .. } | Wish::Renew { .. } => self.clock(node),
            // Nothing depends on it, and without it fewer states differ.
            _ => BootInstant::default(),
        };
        self.nodes[node].waiting.push(command);
        self.requests.push(Request { from: self.holder(node), command, sent_at, what });
        self.requests.sort();
    }

    fn apply(&mut self, setting: &Setting, request: Request, proven: Request) {
        self.requests.retain(|waiting| *waiting != request);
        let event = self.database.apply(self.time(), proven);
        let (server, server_clock) = match setting.is_witnessed() {
            true => (self.database.server, self.database.clock(self.time())),
            false => (0, 0),
        };
        let (to, asked) = (proven.from, proven.sent_at);
        self.answer(Reply { to, event, asked, server, server_clock });
    }

    /// Keeps a reply that can still make a difference: one that is waited for, or a late grant.
    fn answer(&mut self, reply: Reply) {
        let node = &self.nodes[reply.to.node];
        let waited_for =
            answered(&reply.event).is_none_or(|command| node.waiting.contains(&command));
        let matters = waited_for || matches!(reply.event, Event::Granted { .. });
        if matters && node.start == reply.to.start {
            self.replies.push(reply);
            self.replies.sort();
        }
    }

    fn deliver(&mut self, setting: &Setting, reply: Reply) {
        let Reply { to, mut event, .. } = reply;
        if self.nodes[to.node].start != to.start {
            return;
        }
        if setting.has(Fault::DeadlineAnchoredAtTheReply) {
            let now = self.clock(to.node);
            if let Event::Granted { sent_at, .. } | Event::Renewed { sent_at, .. } = &mut event {
                *sent_at = now;
            }
        }
        if setting.has(Fault::WaitCountedFromTheSending)
            && let Event::Granted { sent_at, settle, .. } = &mut event
        {
            *settle = settle.saturating_sub(self.clock(to.node).since(*sent_at));
        }
        let answered = answered(&event);
        self.nodes[to.node].waiting.retain(|command| Some(*command) != answered);
        if setting.is_witnessed() {
            self.witness(setting, &reply, &mut event);
        }
        self.tell(setting, to.node, event);
    }

    /// What the driver makes of what a server says of itself.
    fn witness(&mut self, setting: &Setting, reply: &Reply, event: &mut Event) {
        let at = reply.to.node;
        let answered = self.clock(at);
        let node = &mut self.nodes[at];
        // Neither the fence nor a release says anything of its server.
        let says_nothing = matches!(
            event,
            Event::FenceRaised { .. } | Event::FenceRefused { .. } | Event::Released { .. }
        );
        if says_nothing {
            return;
        }
        // Who has had to wait for its first answer does not know much.
        node.has_read |= answered.since(reply.asked) <= setting.timing().call_timeout();
        // Long after 1970, so that a clock that is set back stays there.
        let server = units(1_000_000 + reply.server_clock);
        let clock = ClockReading { server, asked: reply.asked, answered };
        let server = Some(Arc::from(reply.server.to_string()));
        let reading = Reading { server, clock: Some(clock), shown: None };
        let mut judged = *event;
        let signs = node.witness.judge(reading, &mut judged);
        if !setting.has(Fault::RenewalMovesTheExpiryBack) {
            *event = judged;
        }
        let holding = node.elector.holding();
        if signs.clock_jumped {
            self.tell(setting, at, Event::ClockJumped);
        }
        if let (true, Some(epoch)) = (signs.server_changed, holding) {
            self.tell(setting, at, Event::ServerChanged { epoch });
        }
    }

    fn act(&mut self, setting: &Setting, node: usize) {
        let Some(worker) = &mut self.nodes[node].worker else { return };
        worker.checked = false;
        let work = worker.work;
        if let Err(refused) = self.database.begin(self.time(), self.holder(node), work) {
            if setting.acts == Acts::Delegate {
                // Whatever the principal still believes: this term is over.
                self.nodes[node].end(work.epoch);
            }
            self.tell(setting, node, refused);
        }
    }

    fn child_dies(&mut self, setting: &Setting, node: usize) {
        let Some(Worker { work, .. }) = self.nodes[node].worker.take() else { return };
        self.budget.child_deaths -= 1;
        if setting.has(Fault::ChildRestartedUnderTheSameEpoch) {
            self.start_child(node, Work { child: work.child + 1, ..work });
        } else {
            self.nodes[node].stopping = None;
            if setting.acts == Acts::Delegate {
                self.nodes[node].end(work.epoch);
            }
            self.tell(setting, node, Event::Stopped { epoch: work.epoch });
        }
    }

    fn crash(&mut self, setting: &Setting, node: usize) {
        self.database.crash(self.holder(node));
        self.nodes[node] = Node::starting(setting, self.nodes[node].start + 1);
        self.budget.crashes -= 1;
    }

    /// Whether something that goes well leads from here to another state within the horizon. If there is no way to a
    /// leader from here, there is none from there either: so only the last of them need be asked.
    pub fn goes_on_within(&self, setting: &Setting) -> bool {
        self.tick < setting.horizon || self.benign_actions().next().is_some()
    }

    /// No further misfortune strikes from here on, and those that last go on; whether somebody leads in time.
    pub fn comes_to_a_leader(&self, setting: &Setting) -> bool {
        let mut world = self.clone();
        world.budget = Budget::default();
        for _ in 0..40 {
            world.settle_down(setting);
            if world.has_leader() {
                return true;
            }
            world.tick += 1;
            if world.database.session_is_silent(world.time()) {
                world.database.end_session();
            }
        }
        false
    }

    fn settle_down(&mut self, setting: &Setting) {
        for _ in 0..20 {
            let Some(action) = self.benign_actions().next() else { return };
            self.perform(setting, action);
        }
    }

    fn benign_actions(&self) -> impl Iterator<Item = Action> {
        let commits = self.database.open.iter().map(|open| Action::Commit(*open));
        let requests = self.requests.iter().map(|request| match self.never_arrives(request) {
            true => Action::Lose(*request),
            false => Action::Apply(*request),
        });
        let replies = self.replies.iter().map(|reply| Action::Deliver(*reply));
        let nodes = (0..self.nodes.len()).flat_map(|node| self.own_actions(node));
        commits.chain(requests).chain(replies).chain(nodes)
    }

    fn never_arrives(&self, request: &Request) -> bool {
        let cut = self.nodes[request.from.node].fence_is_cut;
        cut && matches!(request.what, Wish::Raise { .. })
    }

    /// What a node does by itself when nothing goes wrong.
    fn own_actions(&self, at: usize) -> impl Iterator<Item = Action> {
        let node = &self.nodes[at];
        let wakes = node.wake_at.is_some_and(|wake_at| wake_at <= self.clock(at));
        // A delegate hears everything in order.
        let ends = !node.is_stuck && node.charges.is_empty();
        [
            (!node.charges.is_empty()).then_some(Action::Obey(at)),
            wakes.then_some(Action::Wake(at)),
            node.preparing.filter(|_| ends).map(|_| Action::Prepared(at)),
            node.stopping.filter(|_| ends).map(|_| Action::WorkStops(at)),
        ]
        .into_iter()
        .flatten()
    }

    fn misfortunes(&self, setting: &Setting, at: usize, actions: &mut Vec<Action>) {
        let (node, budget) = (&self.nodes[at], &self.budget);
        if budget.give_ups > 0 {
            actions.extend(node.waiting.iter().map(|command| Action::GiveUp(at, *command)));
        }
        if let Some(worker) = node.worker {
            let checks =
                setting.acts == Acts::Child || self.open_gate(at) == Some(worker.work.epoch);
            if worker.checked {
                actions.push(Action::Act(at));
            } else if budget.writes > 0 && checks {
                actions.push(Action::Check(at));
            }
            if budget.child_deaths > 0 {
                actions.push(Action::ChildDies(at));
            }
            if budget.stalls > 0 {
                actions.push(Action::Stall(at));
            }
        }
        let strikes = [
            (budget.crashes > 0, Action::Crash(at)),
            (budget.drains > 0 && node.gate.is_some(), Action::Drain(at)),
            (setting.budget.drains > 0 && node.elector.is_at_rest(), Action::UndoDrain(at)),
            (budget.nudges > 0, Action::Nudge(at)),
            (budget.fence_cuts > 0, Action::CutFence(at)),
            (budget.stuck > 0, Action::GetStuck(at)),
            (self.may_be_told(at), Action::TellOfSession(at)),
        ];
        actions.extend(strikes.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
    }

    /// Its session is gone, and the news is on its way.
    fn may_be_told(&self, at: usize) -> bool {
        let held = self.nodes[at].elector.holding();
        held.is_some() && held == self.database.ended_session_of(self.holder(at))
    }

    fn disasters(&self, setting: &Setting, actions: &mut Vec<Action>) {
        // Whoever has never read the clock cannot know that it was set.
        if self.budget.clock_steps > 0 && self.nodes.iter().all(|node| node.has_read) {
            actions.extend(setting.steps.iter().map(|by| Action::SetClock(*by)));
        }
        if self.budget.failovers > 0 {
            actions.extend([true, false].map(|lossy| Action::FailOver { lossy }));
        }
        let may_end = match setting.session_ends {
            SessionEnds::AtAnyTime => self.database.has_session(),
            SessionEnds::WhenSilent => self.database.session_is_silent(self.time()),
        };
        if may_end && self.database.has_session() && self.budget.session_ends > 0 {
            actions.push(Action::EndSession);
        }
    }

    fn perform(&mut self, setting: &Setting, action: Action) {
        match action {
            Action::Tick => self.tick += 1,
            Action::Wake(node) => self.tell(setting, node, Event::Woke),
            Action::Apply(request) => self.apply(setting, request, request),
            Action::ApplyAfterAWait(request) => {
                let sent_at = self.clock(request.from.node);
                self.apply(setting, request, Request { sent_at, ..request });
            }
            Action::Deliver(reply) => {
                self.replies.retain(|waiting| *waiting != reply);
                self.deliver(setting, reply);
            }
            Action::DeliverAndKeep(reply) => {
                self.budget.doubled -= 1;
                self.deliver(setting, reply);
            }
            Action::GiveUp(node, command) => {
                self.budget.give_ups = self.budget.give_ups.saturating_sub(1);
                self.give_up(setting, node, command);
            }
            Action::Lose(request) => {
                self.requests.retain(|waiting| *waiting != request);
                if request.from == self.holder(request.from.node) {
                    self.give_up(setting, request.from.node, request.command);
                }
            }
            Action::Obey(node) => {
                if let Some(charge) = self.nodes[node].charges.pop_front() {
                    self.obey(setting, node, charge);
                }
            }
            Action::Prepared(node) => {
                if let Some(epoch) = self.nodes[node].preparing.take() {
                    self.tell(setting, node, Event::Prepared { epoch });
                }
            }
            Action::WorkStops(node) => {
                self.nodes[node].worker = None;
                if let Some(epoch) = self.nodes[node].stopping.take() {
                    if setting.acts == Acts::Delegate {
                        self.nodes[node].end(epoch);
                    }
                    self.tell(setting, node, Event::Stopped { epoch });
                }
            }
            Action::Check(node) => {
                self.budget.writes -= 1;
                self.nodes[node].worker.iter_mut().for_each(|worker| worker.checked = true);
            }
            Action::Act(node) => self.act(setting, node),
            Action::Commit(transaction) => self.database.commit(transaction),
            Action::ChildDies(node) => self.child_dies(setting, node),
            Action::Crash(node) => self.crash(setting, node),
            Action::Drain(node) => {
                self.budget.drains -= 1;
                self.tell(setting, node, Event::DrainAsked);
            }
            Action::UndoDrain(node) => self.tell(setting, node, Event::DrainEnded),
            Action::EndSession => {
                self.budget.session_ends -= 1;
                self.database.end_session();
            }
            Action::TellOfSession(node) => {
                if let Some(epoch) = self.nodes[node].elector.holding() {
                    self.tell(setting, node, Event::SessionEnded { epoch });
                }
            }
            Action::Nudge(node) => {
                self.budget.nudges -= 1;
                self.tell(setting, node, Event::Nudged);
            }
            Action::Stall(node) => {
                self.budget.stalls -= 1;
                if let Some(Worker { work, .. }) = self.nodes[node].worker {
                    self.tell(setting, node, Event::Stalled { epoch: work.epoch });
                }
            }
            Action::SetClock(by) => {
                self.budget.clock_steps -= 1;
                self.database.set_clock(by);
            }
            Action::FailOver { lossy } => {
                self.budget.failovers -= 1;
                self.database.fail_over(lossy);
            }
            Action::CutFence(node) => {
                self.budget.fence_cuts -= 1;
                self.nodes[node].fence_is_cut = true;
            }
            Action::GetStuck(node) => {
                self.budget.stuck -= 1;
                self.nodes[node].is_stuck = true;
            }
        }
    }

    fn give_up(&mut self, setting: &Setting, node: usize, command: CommandId) {
        self.nodes[node].waiting.retain(|waiting| *waiting != command);
        self.tell(setting, node, Event::Unknown { command });
    }
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.tick < self.horizon {
            actions.push(Action::Tick);
        }
        actions.extend(world.benign_actions().filter(|action| match action {
            Action::Apply(request) => world.database.can_apply(request),
            _ => true,
        }));
        if world.budget.doubled > 0 {
            actions.extend(world.replies.iter().map(|reply| Action::DeliverAndKeep(*reply)));
        }
        for node in 0..self.nodes {
            world.misfortunes(self, node, actions);
        }
        if self.lock == LockKind::Session {
            let now = |request: &Request| world.clock(request.from.node);
            let waited = world.requests.iter().filter(|request| {
                matches!(request.what, Wish::Acquire { .. }) && request.sent_at < now(request)
            });
            actions.extend(waited.map(|request| Action::ApplyAfterAWait(*request)));
        }
        world.disasters(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.perform(self, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

fn answered(event: &Event) -> Option<CommandId> {
    match event {
        Event::Granted { command, .. }
        | Event::Held { command, .. }
        | Event::Renewed { command, .. }
        | Event::Lost { command }
        | Event::Released { command }
        | Event::Observed { command, .. } => Some(*command),
        _ => None,
    }
}

/// A witness that has read nothing yet.
pub fn witness(setting: &Setting) -> Witness {
    Witness::new(setting.timing().margin())
}
