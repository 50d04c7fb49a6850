//! The clerk: takes what lies on the desk, writes it in one transaction, answers, and begins again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tenure::{LeaderGate, Term, election::Handle, fence::FenceError};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::{
    Pace,
    desk::{Refusal, Request},
    gathering::{Gathering, Leftover, refuse, refuse_all},
    inherited::Inherited,
    reaper::Reaper,
    waiting::{Waiter, Waiting},
};
use crate::{
    job::HIGHEST_PRIORITY,
    observe::Metrics,
    queue::Queue,
    round::{Round, Verdict, Written},
    store::{Store, StoreError},
};

/// How many requests are looked at for one round.
const MOST: usize = 1_024;
/// How many queued jobs are read at once when a term begins.
const PAGE: i64 = 5_000;

/// How long to leave a database alone that did not answer.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a heartbeat may wait for others to share its transaction.
const GATHERING: Duration = Duration::from_millis(100);
/// How often a leader that hands over looks whether its gate is shut.
const DRAIN_LOOKS: Duration = Duration::from_millis(20);

/// How far the queue was read.
#[derive(Clone, Copy)]
struct Loading {
    priority: i16,
    above: i64,
}

impl Loading {
    const START: Self = Self { priority: HIGHEST_PRIORITY, above: 0 };
}

/// Why the clerk stopped.
enum Over {
    /// The fence has refused its term.
    Fenced,
    /// It was told to, and all that it waited for is done.
    Drained,
}

/// Heartbeats that wait for a round: for another's, or for their own when the first has waited long enough.
#[derive(Default)]
struct Beats {
    requests: Vec<Request>,
    due: Option<Instant>,
}

impl Beats {
    fn add(&mut self, request: Request) {
        self.due.get_or_insert_with(|| Instant::now() + GATHERING);
        self.requests.push(request);
    }

    fn are_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    fn take(&mut self) -> Vec<Request> {
        self.due = None;
        std::mem::take(&mut self.requests)
    }
}

pub(super) struct Clerk {
    store: Arc<dyn Store>,
    election: Handle,
    gate: LeaderGate,
    term: Term,
    pace: Pace,
    metrics: Metrics,
    queue: Queue,
    waiting: Waiting,
    /// What must wait for another round.
    later: VecDeque<Request>,
    /// Heartbeats, which are in no hurry.
    beats: Beats,
    /// Leases of earlier terms.
    inherited: Inherited,
    /// What is taken back without anybody asking for it.
    reaper: Reaper,
    /// How many jobs a round may touch: half as many after one that was not written, and more again with each that
    /// was. However slow the database is, something gets written.
    most: usize,
    loading: Option<Loading>,
    /// Whether a round may still be written that was given up.
    is_in_doubt: bool,
    is_draining: bool,
}

impl Clerk {
    pub(super) fn new(
        store: Arc<dyn Store>,
        election: Handle,
        term: Term,
        pace: Pace,
        dead_agent: Option<String>,
        metrics: Metrics,
    ) -> Self {
        Self {
            gate: election.gate(),
            store,
            election,
            term,
            pace,
            metrics,
            queue: Queue::default(),
            waiting: Waiting::default(),
            later: VecDeque::new(),
            beats: Beats::default(),
            inherited: Inherited::default(),
            reaper: Reaper::new(pace.takeover_window, pace.hearing, dead_agent),
            most: Round::MOST,
            loading: Some(Loading::START),
            is_in_doubt: false,
            is_draining: false,
        }
    }

    /// Works until it is told to stop and whoever works has reported, or the gate is shut by then; or until the
    /// fence refuses.
    pub(super) async fn work(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        stop: &CancellationToken,
    ) {
        self.inherit().await;
        let mut looks = tokio::time::interval(self.pace.reap_every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let over = loop {
            if self.is_draining && self.is_done().await {
                break Over::Drained;
            }
            self.load().await;
            self.receive(&mut requests, &mut looks, stop).await;
            if let Err(over) = self.round().await {
                break over;
            }
            self.show();
        };
        let why = match over {
            Over::Fenced => Refusal::Fenced(self.term.epoch()),
            Over::Drained => Refusal::NotLeader,
        };
        self.refuse_all(why);
        refuse_all(requests, why).await;
        self.metrics.queued.set(0);
        self.metrics.waiting.set(0);
    }

    /// Waits until there is something to do, and lays it where the next round finds it.
    async fn receive(
        &mut self,
        requests: &mut mpsc::Receiver<Request>,
        looks: &mut Interval,
        stop: &CancellationToken,
    ) {
        let mut received = Vec::new();
        if !self.has_work() {
            tokio::select! {
                biased;
                () = stop.cancelled(), if !self.is_draining => self.drain(),
                _ = looks.tick() => self.look().await,
                () = until(self.waiting.next()) => {}
                () = until(self.beats.due) => {}
                () = tokio::time::sleep(DRAIN_LOOKS), if self.is_draining => {}
                _ = requests.recv_many(&mut received, MOST) => {}
            }
        } else if stop.is_cancelled() && !self.is_draining {
            self.drain();
        }
        while received.len() < MOST
            && let Ok(request) = requests.try_recv()
        {
            received.push(request);
        }
        for request in received {
            match request {
                Request::Hear(..) => self.beats.add(request),
                request => self.later.push_back(request),
            }
        }
    }

    fn has_work(&self) -> bool {
        self.reaper.has_work()
            || !self.later.is_empty()
            || (self.loading.is_some() && !self.is_draining)
    }

    /// Nothing new begins: who waits for a job goes elsewhere.
    fn drain(&mut self) {
        self.is_draining = true;
        self.waiting.refuse(Refusal::NotLeader);
        self.reaper.drain();
    }

    /// Whether a leader that hands over has nothing left to wait for.
    async fn is_done(&self) -> bool {
        let is_shut = self.gate.ensure_epoch(self.term.epoch()).is_err();
        // Without an answer there is no knowing; the gate shuts in time.
        is_shut
            || self.later.is_empty() && self.store.open_leases().await.is_ok_and(|open| open == 0)
    }

    /// Reads what earlier terms have granted. Without an answer, those leases run out by themselves.
    async fn inherit(&mut self) {
        match self.store.inherited(&self.term).await {
            Ok(leases) => self.inherited = Inherited::new(leases),
            Err(error) => complain(&error, "leases_not_inherited"),
        }
    }

    /// Reads some more of what waits in the database.
    async fn load(&mut self) {
        let Some(Loading { priority, above }) = self.loading.filter(|_| !self.is_draining) else {
            return;
        };
        match self.store.queued(priority, above, PAGE).await {
            Ok(page) => {
                let is_last = (page.len() as i64) < PAGE;
                let last = page.last().map_or(above, |job| job.row);
                page.into_iter().for_each(|job| self.queue.push(job));
                self.loading = match (is_last, priority) {
                    (false, _) => Some(Loading { priority, above: last }),
                    (true, 0) => None,
                    (true, _) => Some(Loading { priority: priority - 1, above: 0 }),
                };
            }
            Err(error) => {
                complain(&error, "jobs_not_loaded");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Looks whether something has run out.
    async fn look(&mut self) {
        match self.store.has_run_out(&self.term, self.reaper.run_out()).await {
            Ok(has_run_out) => self.reaper.looked(has_run_out),
            Err(error) => complain(&error, "jobs_not_looked_after"),
        }
    }

    async fn round(&mut self) -> Result<(), Over> {
        self.waiting.dismiss(Instant::now());
        if self.gate.standing().is_none_or(|standing| standing.epoch != self.term.epoch()) {
            self.refuse_all(Refusal::NotLeader);
            // It may open again, or the term ends.
            tokio::time::sleep(DRAIN_LOOKS).await;
            return Ok(());
        }
        let gathering = self.gather();
        if gathering.round.is_empty() {
            return Ok(());
        }
        self.metrics.rounds.inc();
        self.metrics.requests.inc_by(gathering.len() as u64);
        match self.store.write(&self.term, &gathering.round).await {
            Ok(written) => {
                self.finish(gathering, written);
                Ok(())
            }
            Err(error) => {
                self.give_up(gathering, &error)?;
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    /// Sends everybody away who waits for something.
    fn refuse_all(&mut self, why: Refusal) {
        self.waiting.refuse(why);
        self.reaper.refuse(why);
        let asked = self.later.drain(..).chain(self.beats.take());
        asked.for_each(|request| refuse(request, why));
    }

    fn gather(&mut self) -> Gathering {
        let mut gathering = Gathering::of(self.most, self.reaper.spares());
        if let Some((reaping, burial)) = self.reaper.next() {
            gathering.round.reaping = Some(reaping);
            gathering.round.burials.extend(burial);
            return gathering;
        }
        for (waiter, jobs) in self.waiting.serve(&mut self.queue, &mut gathering.room) {
            gathering.grant(waiter, jobs);
        }
        for request in std::mem::take(&mut self.later) {
            self.take_in(request, &mut gathering);
        }
        if self.is_draining || !gathering.round.is_empty() || self.beats.are_due() {
            for request in self.beats.take() {
                self.take_in(request, &mut gathering);
            }
        }
        gathering
    }

    fn take_in(&mut self, request: Request, gathering: &mut Gathering) {
        match request {
            request if self.is_draining && !matches!(request, Request::Report(..)) => {
                refuse(request, Refusal::NotLeader);
            }
            // There may be jobs for it that have no room in this round.
            Request::Lease(..) if gathering.room.is_none() => self.later.push_back(request),
            Request::Lease(asked, reply) => {
                self.reaper.add_strays(self.inherited.unknown_to(&asked));
                let waiter = Waiter::new(asked, reply);
                let jobs = waiter.pick(&mut self.queue, &mut gathering.room);
                match jobs.is_empty() {
                    true => self.wait(waiter),
                    false => gathering.grant(waiter, jobs),
                }
            }
            Request::Bury(agent, reply) => self.reaper.bury(agent, reply),
            request => self.later.extend(gathering.add(request)),
        }
    }

    fn wait(&mut self, waiter: Waiter) {
        if waiter.asked.wait.is_zero() || waiter.reply.is_closed() {
            waiter.leave();
        } else if self.waiting.len() >= self.pace.most_waiting {
            let _ = waiter.reply.send(Err(Refusal::Crowded));
        } else {
            self.waiting.add(waiter);
        }
    }

    fn finish(&mut self, gathering: Gathering, mut written: Written) {
        self.count(&written);
        std::mem::take(&mut written.queued).into_iter().for_each(|job| self.queue.push(job));
        if let Some(reaping) = &gathering.round.reaping {
            self.reaper.written(reaping, written.reaped, gathering.round.most);
        }
        self.most = (self.most * 2).min(Round::MOST);
        let Leftover { unserved, strays, misqueued, unheard } = gathering.answer(&mut written);
        unserved.into_iter().for_each(|waiter| self.wait(waiter));
        self.reaper.add_strays(strays);
        for heartbeat in unheard {
            let (nobody, _) = oneshot::channel();
            self.later.push_back(Request::Hear(heartbeat, nobody));
        }
        // Whoever writes has waited for whatever was given up: only now all of it can be read.
        if std::mem::take(&mut self.is_in_doubt) {
            self.loading = Some(Loading::START);
        }
        self.metrics.misqueued.inc_by(misqueued as u64);
    }

    fn count(&self, written: &Written) {
        let leased: usize = written.tasks.iter().map(Vec::len).sum();
        self.metrics.leased.inc_by(leased as u64);
        self.metrics.submitted.inc_by(written.submitted.len() as u64);
        let recalled = written.queued.iter().filter(|job| job.job_epoch > 1).count();
        self.metrics.recalled.inc_by(recalled as u64);
        written.verdicts.iter().for_each(|verdict: &Verdict| self.metrics.judged(*verdict));
    }

    /// Nobody knows whether the round was written: what waits is read anew.
    fn give_up(&mut self, gathering: Gathering, error: &StoreError) -> Result<(), Over> {
        self.metrics.failed.inc();
        complain(error, "jobs_not_written");
        if let StoreError::Fence(refused @ FenceError::Refused { epoch, .. }) = error {
            self.election.report(refused);
            gathering.refuse(Refusal::Fenced(*epoch));
            return Err(Over::Fenced);
        }
        self.most = (self.most / 2).max(1);
        self.reaper.add_strays(gathering.would_be_strays());
        self.reaper.not_written();
        gathering.refuse(Refusal::Unavailable);
        self.queue = Queue::default();
        (self.loading, self.is_in_doubt) = (Some(Loading::START), true);
        Ok(())
    }

    fn show(&self) {
        let number = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        self.metrics.queued.set(number(self.queue.len()));
        self.metrics.waiting.set(number(self.waiting.len()));
    }
}

fn complain(error: &StoreError, what: &'static str) {
    let sql_error = tenure_database::error::chain(error);
    tracing::error!(target: "tenure", sql_error, what, "controller_store_failed");
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
