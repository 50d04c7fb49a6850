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
    round::{Grant, Reported, Round, Submitted, Verdict, Written},
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
    /// Those who only wait for the commit.
    others: Vec<Reply<()>>,
    leases: Vec<Waiter>,
    jobs: HashSet<(String, String)>,
    /// Ids alone: the namespace may not be known yet.
    reported: HashSet<String>,
    heard: HashMap<(String, String), usize>,
    bytes: usize,
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
}

impl Gathering {
    /// How many requests it has.
    pub(super) fn len(&self) -> usize {
        self.submits.len() + self.reports.len() + self.others.len() + self.leases.len()
    }

    /// Takes a request in, or gives it back: it must wait for the next round. Leases are not taken here.
    #[must_use]
    pub(super) fn add(&mut self, request: Request) -> Option<Request> {
        if self.bytes > LARGEST {
            return Some(request);
        }
        match request {
            Request::Submit(job, reply) => return self.submit(job, reply),
            Request::Report(results, reply) => return self.report(results, reply),
            Request::Hear(heartbeat, reply) => self.hear(heartbeat, reply),
            Request::Recall(recall, reply) => {
                self.round.recalls.push(recall);
                self.others.push(reply);
            }
            Request::Bury(agent, reply) => {
                if !self.round.burials.contains(&agent) {
                    self.round.burials.push(agent);
                }
                self.others.push(reply);
            }
            Request::Lease(..) => return Some(request),
        }
        None
    }

    fn submit(&mut self, job: NewJob, reply: Reply<Submitted>) -> Option<Request> {
        // An id twice in one statement: the second must find the first.
        if !self.jobs.insert((job.namespace.clone(), job.job_id.clone())) {
            return Some(Request::Submit(job, reply));
        }
        self.bytes += job.payload.get().len();
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
        self.bytes += results.iter().map(Reported::size).sum::<usize>();
        self.reports.push((results.len(), reply));
        self.round.results.extend(results);
        None
    }

    /// The last word of an agent counts.
    fn hear(&mut self, heartbeat: Heartbeat, reply: Reply<()>) {
        self.bytes += heartbeat.size();
        let name = (heartbeat.namespace.clone(), heartbeat.name.clone());
        match self.heard.get(&name) {
            Some(&place) => self.round.heartbeats[place] = heartbeat,
            None => {
                self.heard.insert(name, self.round.heartbeats.len());
                self.round.heartbeats.push(heartbeat);
            }
        }
        self.others.push(reply);
    }

    /// How many bytes there is room for.
    pub(super) fn room(&self) -> usize {
        LARGEST.saturating_sub(self.bytes)
    }

    /// Leases that no agent knows of if this was written: those that it would have granted, and the strays it took.
    pub(super) fn would_be_strays(&self) -> Vec<String> {
        let granted = self.round.grants.iter().map(|grant| grant.lease_id.clone());
        granted.chain(self.round.strays.iter().cloned()).collect()
    }

    /// So much of the room is taken.
    pub(super) fn took(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Hands these jobs to an agent.
    pub(super) fn grant(&mut self, waiter: Waiter, jobs: Vec<(Row, JobEpoch)>) {
        let lease_id = Uuid::new_v4().to_string();
        let (namespace, agent) = (waiter.asked.namespace.clone(), waiter.asked.agent.clone());
        self.round.grants.push(Grant { lease_id, namespace, agent, jobs });
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
        for reply in self.others {
            let _ = reply.send(Ok(()));
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
        let Self { submits, reports, others, leases, .. } = self;
        submits.into_iter().for_each(|reply| deny(reply, why));
        reports.into_iter().for_each(|(_, reply)| deny(reply, why));
        others.into_iter().for_each(|reply| deny(reply, why));
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
        Request::Hear(_, reply) | Request::Recall(_, reply) | Request::Bury(_, reply) => {
            deny(reply, why);
        }
    }
}

/// Sends everybody away who still stands before a desk that has closed.
pub(super) async fn refuse_all(mut requests: mpsc::Receiver<Request>, why: Refusal) {
    requests.close();
    while let Some(request) = requests.recv().await {
        refuse(request, why);
    }
}
