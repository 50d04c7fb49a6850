//! Agents that wait for a job.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::desk::{LeaseAsked, Leased, Refusal, Reply};
use crate::{
    job::{JobEpoch, Row},
    queue::{Queue, Room},
};

/// One of them.
pub(super) struct Waiter {
    pub asked: LeaseAsked,
    pub reply: Reply<Leased>,
    /// When it has waited long enough.
    pub until: Instant,
}

impl Waiter {
    pub(super) fn new(asked: LeaseAsked, reply: Reply<Leased>) -> Self {
        let until = Instant::now() + asked.wait;
        Self { asked, reply, until }
    }

    /// What there is for it now, in what is left of `room`.
    pub(super) fn pick(&self, queue: &mut Queue, room: &mut Room) -> Vec<(Row, JobEpoch)> {
        // Whoever is gone gets nothing that another could have.
        if self.reply.is_closed() {
            return Vec::new();
        }
        let LeaseAsked { namespace, agent, ops, most, .. } = &self.asked;
        queue.take(namespace, agent, ops, *most, room)
    }

    /// There was nothing in time.
    pub(super) fn leave(self) {
        // Whoever is gone waits for no answer.
        let _ = self.reply.send(Ok(Leased::default()));
    }
}

/// All of them, those who came first before the others.
#[derive(Default)]
pub(super) struct Waiting {
    waiters: VecDeque<Waiter>,
    /// The first moment at which one of them may have waited long enough.
    next: Option<Instant>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn add(&mut self, waiter: Waiter) {
        self.next = Some(self.next.map_or(waiter.until, |next| next.min(waiter.until)));
        self.waiters.push_back(waiter);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Lets those go that have waited long enough, or are gone.
    pub(super) fn dismiss(&mut self, now: Instant) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        for waiter in std::mem::take(&mut self.waiters) {
            match waiter.until <= now || waiter.reply.is_closed() {
                true => waiter.leave(),
                false => self.waiters.push_back(waiter),
            }
        }
        self.next = self.waiters.iter().map(|waiter| waiter.until).min();
    }

    /// Those for whom there is something, with it.
    pub(super) fn serve(
        &mut self,
        queue: &mut Queue,
        room: &mut Room,
    ) -> Vec<(Waiter, Vec<(Row, JobEpoch)>)> {
        let mut served = Vec::new();
        if queue.is_empty() {
            return served;
        }
        for waiter in std::mem::take(&mut self.waiters) {
            let picked = waiter.pick(queue, room);
            match picked.is_empty() {
                true => self.waiters.push_back(waiter),
                false => served.push((waiter, picked)),
            }
        }
        served
    }

    /// Sends everybody away.
    pub(super) fn refuse(&mut self, why: Refusal) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.reply.send(Err(why));
        }
        self.next = None;
    }
}
