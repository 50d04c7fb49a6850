//! One node of the model: its elector, its gate, and what acts behind it.

use std::collections::VecDeque;

use tenure::{
    BootInstant, Epoch,
    elector::{Admits, CommandId, Elector},
    lock::Witness,
};

use crate::{
    database::Work,
    world::{Setting, witness},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub start: u8,
    pub elector: Elector,
    pub witness: Witness,
    /// Whether it has ever heard of the database's clock.
    pub has_read: bool,
    pub wake_at: Option<BootInstant>,
    pub gate: Option<Gate>,
    /// What a delegate has still to hear.
    pub charges: VecDeque<Charge>,
    /// The last term whose work has ended: a delegate's gate opens no more for it.
    pub over: Epoch,
    /// When a keeper kills.
    pub kept_until: Option<BootInstant>,
    /// Commands whose answer has neither come nor been given up.
    pub waiting: Vec<CommandId>,
    pub preparing: Option<Epoch>,
    pub stopping: Option<Epoch>,
    pub worker: Option<Worker>,
    /// It reaches the lock, and never the fence.
    pub fence_is_cut: bool,
    /// What it prepares or stops never comes to an end.
    pub is_stuck: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    pub epoch: Epoch,
    pub until: BootInstant,
    pub admits: Admits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charge {
    Act(Gate),
    Shut(Epoch),
}

/// Work between two checks of the gate, or between the check and the act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    pub work: Work,
    pub checked: bool,
}

impl Node {
    pub fn starting(setting: &Setting, start: u8) -> Self {
        Self {
            start,
            elector: Elector::new(setting.timing()),
            witness: witness(setting),
            has_read: false,
            wake_at: Some(BootInstant::default()),
            gate: None,
            charges: VecDeque::new(),
            over: Epoch::ZERO,
            kept_until: None,
            waiting: Vec::new(),
            preparing: None,
            stopping: None,
            worker: None,
            fence_is_cut: false,
            is_stuck: false,
        }
    }

    /// The work of this term has ended.
    pub fn end(&mut self, epoch: Epoch) {
        self.over = self.over.max(epoch);
        self.shut(epoch);
    }

    /// Shuts the gate of this term, and never that of another.
    pub fn shut(&mut self, epoch: Epoch) {
        if self.gate.is_some_and(|gate| gate.epoch == epoch) {
            self.gate = None;
        }
    }
}
