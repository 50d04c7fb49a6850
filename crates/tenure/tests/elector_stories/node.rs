//! A node and its clock, and what it says.

use std::time::Duration;

use tenure::{
    Epoch, Timing,
    elector::{Command, CommandId, Elector, Event},
};
use tenure_database::BootInstant;

pub const LEASE: Duration = Duration::from_secs(10);
pub const FIRST: Epoch = Epoch::new(1);

/// A node and its clock.
pub struct Node {
    pub elector: Elector,
    pub now: BootInstant,
}

impl Node {
    pub fn new(timing: Timing) -> Self {
        Self { elector: Elector::new(timing), now: BootInstant::from_nanos(1_000_000_000) }
    }

    pub fn hears(&mut self, event: Event) -> Vec<Command> {
        let commands = self.elector.step(self.now, event);
        commands.into_iter().filter(|command| !matches!(command, Command::WakeAt { .. })).collect()
    }

    /// When it wants to be woken, and how far that may be spread.
    pub fn wakes(&mut self) -> Option<(BootInstant, Duration)> {
        let commands = self.elector.clone().step(self.now, Event::Woke);
        commands.into_iter().find_map(|command| match command {
            Command::WakeAt { at, spread } => Some((at, spread)),
            _ => None,
        })
    }

    pub fn sleeps(&mut self, time: Duration) -> Vec<Command> {
        self.now = self.now + time;
        self.hears(Event::Woke)
    }

    /// Asks for the lock, and returns the number of the question.
    pub fn asks(&mut self) -> CommandId {
        acquire(&self.hears(Event::Woke)).expect("it asks for the lock")
    }

    pub fn is_granted(&mut self, epoch: Epoch) -> Vec<Command> {
        let (command, sent_at) = (self.asks(), self.now);
        self.hears(Event::Granted { command, sent_at, epoch, settle: Duration::ZERO })
    }

    /// Wins, raises the fence, prepares and leads.
    pub fn leads(&mut self) -> Vec<Command> {
        self.is_granted(FIRST);
        self.hears(Event::FenceRaised { epoch: FIRST });
        self.hears(Event::Prepared { epoch: FIRST })
    }

    pub fn renews(&mut self) -> CommandId {
        let commands = self.sleeps(LEASE / 3 + Duration::from_millis(1));
        commands
            .iter()
            .find_map(|command| match command {
                Command::Renew { command, .. } => Some(*command),
                _ => None,
            })
            .expect("it renews")
    }
}

pub fn acquire(commands: &[Command]) -> Option<CommandId> {
    commands.iter().find_map(|command| match command {
        Command::Acquire { command, .. } => Some(*command),
        _ => None,
    })
}

pub fn observe(commands: &[Command]) -> CommandId {
    let observed = commands.iter().find_map(|command| match command {
        Command::Observe { command } => Some(*command),
        _ => None,
    });
    observed.unwrap()
}

pub fn release(commands: &[Command]) -> Option<(CommandId, Epoch)> {
    commands.iter().find_map(|command| match command {
        Command::Release { command, epoch } => Some((*command, *epoch)),
        _ => None,
    })
}

pub fn node() -> Node {
    Node::new(Timing::lease(LEASE).build().unwrap())
}
