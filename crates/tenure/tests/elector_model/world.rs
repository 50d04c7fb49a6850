//! Everything around the electors: clocks, network, database, work, and what can go wrong.

use std::time::Duration;

use stateright::{Model, Property};
use tenure::{
    Backoff, Epoch, Takeover, Timing,
    elector::{Admits, Command, CommandId, Elector, Event},
    timing::TimingBuilder,
};
use tenure_database::BootInstant;

use crate::{
    database::{Database, Holder, LockKind, Request, Transaction, Wish, Work},
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
    /// The last tick of the exploration.
    pub horizon: u64,
    pub budget: Budget,
    pub fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnds {
    WhenSilent,
    AtAnyTime,
}

/// How often each misfortune may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub give_ups: u8,
    pub doubled: u8,
    pub crashes: u8,
    pub child_deaths: u8,
    pub drains: u8,
    pub session_ends: u8,
    pub writes: u8,
}

/// A mistake put in on purpose, for the checker to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    DeadlineAnchoredAtTheReply,
    WaitCountedFromTheSending,
    UnconditionalRaise,
    ReleaseBeforeTheWorkStopped,
    ChildRestartedUnderTheSameEpoch,
    EarlierTermsForgottenWithADeadHolder,
}

/// One tick is four units of the database's clock; a node's clock counts three, four or five.
const UNITS: u64 = 4;
const LEASE: u64 = 8;

impl Setting {
    pub fn timing(&self) -> Timing {
        let units = Duration::from_nanos;
        let pause = Backoff { min: units(UNITS), max: units(UNITS), cap: units(UNITS) };
        let builder: TimingBuilder = match self.lock {
            LockKind::Lease | LockKind::LeaseElsewhere => {
                Timing::lease(units(LEASE)).renew_interval(units(3))
            }
            // The gate is trusted for the late threshold; the margin comes on top.
            LockKind::Session => Timing::heartbeat(units(3), units(6)),
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
            .build()
            .unwrap()
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub fn start(&self) -> World {
        let unconditional = self.has(Fault::UnconditionalRaise);
        let forgetful = self.has(Fault::EarlierTermsForgottenWithADeadHolder);
        World {
            tick: 0,
            database: Database::new(self.lock, LEASE, self.takeover, unconditional, forgetful),
            nodes: (0..self.nodes).map(|_| Node::starting(self, 0)).collect(),
            requests: Vec::new(),
            replies: Vec::new(),
            budget: self.budget,
            released_while_working: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub tick: u64,
    pub database: Database,
    pub nodes: Vec<Node>,
    requests: Vec<Request>,
    replies: Vec<Reply>,
    budget: Budget,
    pub released_while_working: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    start: u8,
    elector: Elector,
    wake_at: Option<BootInstant>,
    gate: Option<Gate>,
    /// Commands whose answer has neither come nor been given up.
    waiting: Vec<CommandId>,
    preparing: Option<Epoch>,
    stopping: Option<Epoch>,
    worker: Option<Worker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Gate {
    epoch: Epoch,
    until: BootInstant,
    admits: Admits,
}

/// Work between two checks of the gate, or between the check and the act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Worker {
    work: Work,
    checked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    to: Holder,
    event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Wake(usize),
    Apply(Request),
    Deliver(Reply),
    DeliverAndKeep(Reply),
    GiveUp(usize, CommandId),
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
}

impl Node {
    fn starting(setting: &Setting, start: u8) -> Self {
        Self {
            start,
            elector: Elector::new(setting.timing()),
            wake_at: Some(BootInstant::default()),
            gate: None,
            waiting: Vec::new(),
            preparing: None,
            stopping: None,
            worker: None,
        }
    }
}

impl World {
    /// The database's clock.
    pub fn now(&self) -> u64 {
        self.tick * UNITS
    }

    /// A node's own clock: slow, exact or fast.
    fn clock(&self, node: usize) -> BootInstant {
        BootInstant::from_nanos(self.tick * [3, 5, 4][node % 3])
    }

    fn holder(&self, node: usize) -> Holder {
        Holder { node, start: self.nodes[node].start }
    }

    /// The term for which this node would let work begin or go on at this moment.
    pub fn open_gate(&self, node: usize) -> Option<Epoch> {
        let gate = self.nodes[node].gate?;
        (self.clock(node) < gate.until).then_some(gate.epoch)
    }

    /// A node whose gate admits new work in the term that the lock proves.
    pub fn has_leader(&self) -> bool {
        let current = self.database.current(self.now());
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
            Command::Acquire { command, floor } => {
                self.send(node, command, Wish::Acquire { floor });
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
                self.open(node, Gate { epoch, until, admits });
            }
            Command::CloseGate { .. } => self.nodes[node].gate = None,
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

    fn open(&mut self, node: usize, gate: Gate) {
        self.nodes[node].gate = Some(gate);
        let working = self.nodes[node].worker.is_some_and(|worker| worker.work.epoch == gate.epoch);
        if gate.admits == Admits::NewWork && !working {
            self.start_child(node, Work { epoch: gate.epoch, child: 0 });
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
        let Reply { to, mut event } = reply;
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
        self.tell(setting, to.node, event);
    }

    fn act(&mut self, setting: &Setting, node: usize) {
        let Some(worker) = &mut self.nodes[node].worker else { return };
        worker.checked = false;
        let work = worker.work;
        if let Err(refused) = self.database.begin(self.now(), self.holder(node), work) {
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
            self.tell(setting, node, Event::Stopped { epoch: work.epoch });
        }
    }

    fn crash(&mut self, setting: &Setting, node: usize) {
        self.database.crash(self.holder(node));
        self.nodes[node] = Node::starting(setting, self.nodes[node].start + 1);
        self.budget.crashes -= 1;
    }

    /// Everything that is under way goes well from here on; returns whether somebody leads in time.
    pub fn comes_to_a_leader(&self, setting: &Setting) -> bool {
        let mut world = self.clone();
        world.budget.writes = 0;
        for _ in 0..40 {
            world.settle_down(setting);
            if world.has_leader() {
                return true;
            }
            world.tick += 1;
            if world.database.session_is_silent(world.now()) {
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
        let requests = self.requests.iter().map(|request| Action::Apply(*request));
        let replies = self.replies.iter().map(|reply| Action::Deliver(*reply));
        let nodes = (0..self.nodes.len()).flat_map(|node| self.own_actions(node));
        commits.chain(requests).chain(replies).chain(nodes)
    }

    /// What a node does by itself when nothing goes wrong.
    fn own_actions(&self, at: usize) -> impl Iterator<Item = Action> {
        let node = &self.nodes[at];
        let wakes = node.wake_at.is_some_and(|wake_at| wake_at <= self.clock(at));
        [
            wakes.then_some(Action::Wake(at)),
            node.preparing.map(|_| Action::Prepared(at)),
            node.stopping.map(|_| Action::WorkStops(at)),
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
            if worker.checked {
                actions.push(Action::Act(at));
            } else if budget.writes > 0 && self.open_gate(at) == Some(worker.work.epoch) {
                actions.push(Action::Check(at));
            }
            if budget.child_deaths > 0 {
                actions.push(Action::ChildDies(at));
            }
        }
        if budget.crashes > 0 {
            actions.push(Action::Crash(at));
        }
        if budget.drains > 0 && node.gate.is_some() {
            actions.push(Action::Drain(at));
        }
        if node.elector.is_at_rest() && setting.budget.drains > 0 {
            actions.push(Action::UndoDrain(at));
        }
    }

    fn perform(&mut self, setting: &Setting, action: Action) {
        match action {
            Action::Tick => self.tick += 1,
            Action::Wake(node) => self.tell(setting, node, Event::Woke),
            Action::Apply(request) => {
                self.requests.retain(|waiting| *waiting != request);
                let event = self.database.apply(self.now(), request);
                self.answer(Reply { to: request.from, event });
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
                self.nodes[node].waiting.retain(|waiting| *waiting != command);
                self.tell(setting, node, Event::Unknown { command });
            }
            Action::Prepared(node) => {
                if let Some(epoch) = self.nodes[node].preparing.take() {
                    self.tell(setting, node, Event::Prepared { epoch });
                }
            }
            Action::WorkStops(node) => {
                self.nodes[node].worker = None;
                if let Some(epoch) = self.nodes[node].stopping.take() {
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
        }
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
        let may_end = match self.session_ends {
            SessionEnds::AtAnyTime => world.database.has_session(),
            SessionEnds::WhenSilent => world.database.session_is_silent(world.now()),
        };
        if may_end && world.database.has_session() && world.budget.session_ends > 0 {
            actions.push(Action::EndSession);
        }
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
