//! Requests on their way into one round, and the answers on their way out.

use std::collections::{HashMap, HashSet};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::{
    desk::{Leased, Refusal, Reply, Request},
    waiting::Waiter,
};
use crate::{
    agent::Heartbeat,
    job::{JobEpoch, NewJob, Row},
    queue::Room,
    round::{Grant, Recalled, Reported, Round, Submitted, Verdict, Written},
};

/// How many bytes of payloads and results are written together: nobody waits long behind them.
const LARGEST: usize = 8 * 1024 * 1024;

/// A round with whoever waits for it.
#[derive(Default)]
pub(super) struct Gathering {
    pub round: Round,
    submits: Vec<Reply<Submitted>>,
    /// How many results each brought.
    reports: Vec<(usize, Reply<Vec<Verdict>>)>,
    recalls: Vec<Reply<Recalled>>,
    /// Which heartbeat each sent.
    hears: Vec<(usize, Reply<Vec<String>>)>,
    leases: Vec<Waiter>,
    jobs: HashSet<(String, String)>,
    /// Ids alone: the namespace may not be known yet.
    reported: HashSet<String>,
    heard: HashMap<(String, String), usize>,
    /// What there is room for.
    pub room: Room,
}

/// What is left to do when all were answered.
#[derive(Default)]
pub(super) struct Leftover {
    /// Agents that got nothing after all.
    pub unserved: Vec<Waiter>,
    /// Leases whose agent was gone before it got them.
    pub strays: Vec<String>,
    /// How many jobs the database did not hand over.
    pub misqueued: usize,
    /// Agents that have more leases than one round moves ahead.
    pub unheard: Vec<Heartbeat>,
}

impl Gathering {
    /// One that touches no more than so many jobs, give or take one request.
    pub(super) fn of(most: usize, spares: bool) -> Self {
        let round = Round { most, spares, ..Round::default() };
        Self { round, room: Room { bytes: LARGEST, jobs: most }, ..Self::default() }
    }

    /// How many requests it has.
    pub(super) fn len(&self) -> usize {
        let Self { submits, reports, recalls, hears, leases, .. } = self;
        submits.len() + reports.len() + recalls.len() + hears.len() + leases.len()
    }

    /// Takes a request in, or gives it back: it must wait for the next round. Leases and burials are not taken here.
    #[must_use]
    pub(super) fn add(&mut self, request: Request) -> Option<Request> {
        if self.room.is_none() {
            return Some(request);
        }
        match request {
            Request::Submit(job, reply) => return self.submit(job, reply),
            Request::Report(results, reply) => return self.report(results, reply),
            Request::Hear(heartbeat, reply) => self.hear(heartbeat, reply),
            Request::Recall(recall, reply) => {
                self.room.take(1, 0);
                self.round.recalls.push(recall);
                self.recalls.push(reply);
            }
            Request::Bury(..) | Request::Lease(..) => return Some(request),
        }
        None
    }

    fn submit(&mut self, job: NewJob, reply: Reply<Submitted>) -> Option<Request> {
        // An id twice in one statement: the second must find the first.
        if !self.jobs.insert((job.namespace.clone(), job.job_id.clone())) {
            return Some(Request::Submit(job, reply));
        }
        self.room.take(1, job.payload.get().len());
        self.round.jobs.push(job);
        self.submits.push(reply);
        None
    }

    fn report(&mut self, results: Vec<Reported>, reply: Reply<Vec<Verdict>>) -> Option<Request> {
        // A job twice in one statement: the second must find the first.
        if results.iter().any(|one| self.reported.contains(&one.job_id)) {
            return Some(Request::Report(results, reply));
        }
        self.reported.extend(results.iter().map(|one| one.job_id.clone()));
        self.room.take(results.len(), results.iter().map(Reported::size).sum());
        self.reports.push((results.len(), reply));
        self.round.results.extend(results);
        None
    }

    /// The last word of an agent counts.
    fn hear(&mut self, heartbeat: Heartbeat, reply: Reply<Vec<String>>) {
        self.room.take(1 + heartbeat.leases.as_ref().map_or(0, Vec::len), heartbeat.size());
        let name = (heartbeat.namespace.clone(), heartbeat.name.clone());
        let place = *self.heard.entry(name).or_insert(self.round.heartbeats.len());
        match self.round.heartbeats.get_mut(place) {
            Some(before) => *before = heartbeat,
            None => self.round.heartbeats.push(heartbeat),
        }
        self.hears.push((place, reply));
    }

    /// Leases that no agent knows of if this was written.
    pub(super) fn would_be_strays(&self) -> Vec<String> {
        self.round.grants.iter().map(|grant| grant.lease_id.clone()).collect()
    }

    /// Hands these jobs to an agent.
    pub(super) fn grant(&mut self, waiter: Waiter, jobs: Vec<(Row, JobEpoch)>) {
        self.round.grants.push(Grant {
            lease_id: Uuid::new_v4().to_string(),
            namespace: waiter.asked.namespace.clone(),
            agent: waiter.asked.agent.clone(),
            lasts: waiter.asked.lasts,
            jobs,
        });
        self.leases.push(waiter);
    }

    /// Answers everybody. Whoever is gone meanwhile has it written all the same.
    pub(super) fn answer(self, written: &mut Written) -> Leftover {
        let mut leftover = Leftover::default();
        for (reply, submitted) in self.submits.into_iter().zip(written.submitted.drain(..)) {
            let _ = reply.send(Ok(submitted));
        }
        let mut verdicts = written.verdicts.iter().copied();
        for (count, reply) in self.reports {
            let _ = reply.send(Ok(verdicts.by_ref().take(count).collect()));
        }
        for (reply, recalled) in self.recalls.into_iter().zip(written.recalled.drain(..)) {
            let _ = reply.send(Ok(recalled));
        }
        for (place, reply) in self.hears {
            let _ = reply.send(Ok(written.gone.get(place).cloned().unwrap_or_default()));
        }
        if written.extended >= self.round.most {
            leftover.unheard = self.round.heartbeats;
        }
        let tasks = self.round.grants.into_iter().zip(written.tasks.drain(..));
        for ((grant, tasks), waiter) in tasks.zip(self.leases) {
            leftover.misqueued += grant.jobs.len() - tasks.len();
            if tasks.is_empty() {
                leftover.unserved.push(waiter);
                continue;
            }
            let leased = Leased { lease_id: grant.lease_id, tasks };
            if let Err(Ok(leased)) = waiter.reply.send(Ok(leased)) {
                leftover.strays.push(leased.lease_id);
            }
        }
        leftover
    }

    /// Sends everybody away.
    pub(super) fn refuse(self, why: Refusal) {
        let Self { submits, reports, recalls, hears, leases, .. } = self;
        submits.into_iter().for_each(|reply| deny(reply, why));
        reports.into_iter().for_each(|(_, reply)| deny(reply, why));
        recalls.into_iter().for_each(|reply| deny(reply, why));
        hears.into_iter().for_each(|(_, reply)| deny(reply, why));
        leases.into_iter().for_each(|waiter| deny(waiter.reply, why));
    }
}

/// Whoever is gone waits for no answer.
fn deny<T>(reply: Reply<T>, why: Refusal) {
    let _ = reply.send(Err(why));
}

/// Sends one away.
pub(super) fn refuse(request: Request, why: Refusal) {
    match request {
        Request::Submit(_, reply) => deny(reply, why),
        Request::Lease(_, reply) => deny(reply, why),
        Request::Report(_, reply) => deny(reply, why),
        Request::Hear(_, reply) => deny(reply, why),
        Request::Recall(_, reply) => deny(reply, why),
        Request::Bury(_, reply) => deny(reply, why),
    }
}

/// Sends everybody away who still stands before a desk that has closed.
pub(super) async fn refuse_all(mut requests: mpsc::Receiver<Request>, why: Refusal) {
    requests.close();
    while let Some(request) = requests.recv().await {
        refuse(request, why);
    }
}
