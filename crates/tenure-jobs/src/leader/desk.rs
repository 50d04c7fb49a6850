//! Where requests are handed in, and how they are answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenure::Epoch;
use tokio::sync::{mpsc, oneshot};

use crate::{
    agent::Heartbeat,
    job::NewJob,
    queue::Ops,
    round::{AgentName, Recall, Recalled, Reported, Submitted, Task, Verdict},
};

/// How many requests lie on the desk at once; whoever comes then waits.
const ROOM: usize = 4_096;

/// An answer that somebody waits for.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// What is asked of the leader.
pub(super) enum Request {
    Submit(NewJob, Reply<Submitted>),
    Lease(LeaseAsked, Reply<Leased>),
    Report(Vec<Reported>, Reply<Vec<Verdict>>),
    Hear(Heartbeat, Reply<Vec<String>>),
    Recall(Recall, Reply<Recalled>),
    Bury(AgentName, Reply<()>),
}

/// An agent that asks for jobs.
#[derive(Clone, Debug)]
pub struct LeaseAsked {
    /// Where it works.
    pub namespace: String,
    /// Its name there.
    pub agent: String,
    /// What it can do.
    pub ops: Ops,
    /// How many jobs at most.
    pub most: usize,
    /// How long it waits for the first.
    pub wait: Duration,
    /// How long the lease is to last, if not as long as usual.
    pub lasts: Option<Duration>,
    /// The leases that it works on, if it says so: of no other has it been told.
    pub leases: Option<Vec<String>>,
}

/// What an agent got.
#[derive(Clone, Debug, Default)]
pub struct Leased {
    /// Under which lease.
    pub lease_id: String,
    /// The jobs; none when there was nothing in time.
    pub tasks: Vec<Task>,
}

/// Why nothing was changed, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This node does not lead, or takes no such request any more.
    NotLeader,
    /// The fence has refused this node's term: it led, and leads no more.
    Fenced(Epoch),
    /// The database did not answer: it may have been done.
    Unavailable,
    /// Too many wait already.
    Crowded,
}

/// Where requests are handed in; open from when this node is ready to lead: whoever sees it lead is served.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    open: Arc<Mutex<Option<Open>>>,
}

#[derive(Debug)]
struct Open {
    epoch: Epoch,
    requests: mpsc::Sender<Request>,
    /// Until the clerk comes for it.
    handed_in: Option<mpsc::Receiver<Request>>,
}

impl Desk {
    /// The term that requests are taken in.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.current().as_ref().map(|open| open.epoch)
    }

    /// Stores a job.
    pub async fn submit(&self, job: NewJob) -> Result<Submitted, Refusal> {
        self.ask(|reply| Request::Submit(job, reply)).await
    }

    /// Hands jobs to an agent, as soon as there are any.
    pub async fn lease(&self, asked: LeaseAsked) -> Result<Leased, Refusal> {
        self.ask(|reply| Request::Lease(asked, reply)).await
    }

    /// Records results; a verdict for each.
    pub async fn report(&self, results: Vec<Reported>) -> Result<Vec<Verdict>, Refusal> {
        self.ask(|reply| Request::Report(results, reply)).await
    }

    /// Hears an agent; of the leases that it names, those that are its own no more.
    pub async fn hear(&self, heartbeat: Heartbeat) -> Result<Vec<String>, Refusal> {
        self.ask(|reply| Request::Hear(heartbeat, reply)).await
    }

    /// Takes a job from its agent, if it has one.
    pub async fn recall(&self, recall: Recall) -> Result<Recalled, Refusal> {
        self.ask(|reply| Request::Recall(recall, reply)).await
    }

    /// Makes a tombstone of an agent.
    pub async fn bury(&self, agent: AgentName) -> Result<(), Refusal> {
        self.ask(|reply| Request::Bury(agent, reply)).await
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Refusal> {
        let requests = self.current().as_ref().map(|open| open.requests.clone());
        let requests = requests.ok_or(Refusal::NotLeader)?;
        let (reply, replied) = oneshot::channel();
        requests.send(request(reply)).await.map_err(|_| Refusal::NotLeader)?;
        // A clerk that is gone without a word may have written it.
        replied.await.unwrap_or(Err(Refusal::Unavailable))
    }

    pub(super) fn open(&self, epoch: Epoch) {
        let (requests, handed_in) = mpsc::channel(ROOM);
        *self.current() = Some(Open { epoch, requests, handed_in: Some(handed_in) });
    }

    /// What is handed in in this term, for its clerk.
    pub(super) fn handed_in(&self, epoch: Epoch) -> Option<mpsc::Receiver<Request>> {
        let mut current = self.current();
        current.as_mut().filter(|open| open.epoch == epoch)?.handed_in.take()
    }

    pub(super) fn close(&self) {
        *self.current() = None;
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
