//! Polls for jobs while a place is free, and runs what it is given.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_database::BootInstant;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::Shared,
    backoff::Backoff,
    controller::{Cause, Reply},
    heartbeat::Capabilities,
    job::{Finished, Job, Outcome, Task},
    results::Delivery,
};

/// The most jobs that one poll may ask for.
const MOST_AT_ONCE: usize = 64;
/// No poll while this many results wait: a controller that takes none must not fill the memory with more.
const MOST_WAITING: usize = 64;
/// How much longer than its own wait a poll may take.
const POLL_TAKES: Duration = Duration::from_secs(10);
/// The longest rest after a poll that came back empty before its time.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// What came of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    Leased,
    Empty,
    Refused,
    Unheard(Cause),
}

impl Polled {
    pub const ALL: [Self; 6] = [
        Self::Leased,
        Self::Empty,
        Self::Refused,
        Self::Unheard(Cause::NotLeader),
        Self::Unheard(Cause::Forbidden),
        Self::Unheard(Cause::Failed),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Empty => "empty",
            Self::Refused => "refused",
            Self::Unheard(cause) => cause.as_str(),
        }
    }
}

#[derive(Serialize)]
struct Asked<'a> {
    agent: &'a str,
    namespace: &'a str,
    capabilities: Capabilities<'a>,
    max_tasks: usize,
    timeout_ms: u64,
    /// What it works on: of no other lease was it told.
    leases: Vec<String>,
}

#[derive(Deserialize)]
struct Leased {
    lease_id: String,
    tasks: Vec<Task>,
}

/// The jobs of an agent, from the poll to the result.
pub(crate) struct Leases {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    jobs: JoinSet<()>,
    finished: mpsc::UnboundedSender<Delivery>,
    /// How many results wait.
    waiting: watch::Receiver<usize>,
    backoff: Backoff,
}

impl Leases {
    pub fn new(
        shared: Arc<Shared>,
        finished: mpsc::UnboundedSender<Delivery>,
        waiting: watch::Receiver<usize>,
    ) -> Self {
        let places = Arc::new(Semaphore::new(shared.settings.concurrency));
        let (jobs, backoff) = (JoinSet::new(), Backoff::default());
        Self { shared, places, jobs, finished, waiting, backoff }
    }

    /// Takes jobs until it is told to stop, and waits for those that run.
    pub async fn run(mut self, stop: &CancellationToken) {
        while stop.run_until_cancelled(self.take_some()).await.is_some() {}
        while self.jobs.join_next().await.is_some() {}
    }

    /// One poll, and the pause that it asks for. Between an answer and the beginning of its jobs nothing waits, so
    /// none is lost but those of an answer on its way.
    async fn take_some(&mut self) {
        // It fails only when nobody hands in results any more, and then the agent ends.
        let _ = self.waiting.wait_for(|waiting| *waiting < MOST_WAITING).await;
        let places = self.free_places().await;
        while self.jobs.try_join_next().is_some() {}
        let pause = self.poll(places).await;
        tokio::time::sleep(pause).await;
    }

    /// All that are free; at least one.
    async fn free_places(&self) -> OwnedSemaphorePermit {
        let free = Arc::clone(&self.places).acquire_owned().await;
        let mut free = free.expect("the places are never closed");
        let others = self.places.available_permits().min(MOST_AT_ONCE - 1);
        let others = u32::try_from(others).unwrap_or(0);
        if let Ok(others) = Arc::clone(&self.places).try_acquire_many_owned(others) {
            free.merge(others);
        }
        free
    }

    /// How long to pause after it.
    async fn poll(&mut self, places: OwnedSemaphorePermit) -> Duration {
        let until = BootInstant::now() + self.shared.settings.poll;
        let (polled, pause) = match self.ask_for(places.num_permits()).await {
            Reply::Done { body, .. } => self.answered(&body, places, until),
            Reply::Refused(refusal) => {
                tracing::warn!(target: "tenure", %refusal, "agent_poll_refused");
                (Polled::Refused, self.backoff.pause())
            }
            Reply::Unheard(unheard) => {
                (Polled::Unheard(unheard.cause), unheard.pause(&mut self.backoff))
            }
        };
        self.shared.metrics.polled(polled);
        pause
    }

    async fn ask_for(&self, max_tasks: usize) -> Reply {
        let Shared { settings, controller, capabilities, held, .. } = &*self.shared;
        let asked = Asked {
            agent: &settings.name,
            namespace: &settings.namespace,
            capabilities: Capabilities { ops: capabilities },
            max_tasks,
            timeout_ms: u64::try_from(settings.poll.as_millis()).unwrap_or(u64::MAX),
            leases: held.ids(),
        };
        controller.call("/v1/leases", &asked, settings.poll + POLL_TAKES).await
    }

    fn answered(
        &mut self,
        body: &[u8],
        places: OwnedSemaphorePermit,
        until: BootInstant,
    ) -> (Polled, Duration) {
        let leased = match leased(body) {
            Ok(leased) => leased,
            Err(error) => {
                tracing::warn!(target: "tenure", %error, "agent_lease_not_understood");
                return (Polled::Refused, self.backoff.pause());
            }
        };
        self.backoff.reset();
        match leased {
            Some(leased) => {
                self.begin_all(leased, places);
                (Polled::Leased, Duration::ZERO)
            }
            None => (Polled::Empty, rest(until.left())),
        }
    }

    fn begin_all(&mut self, leased: Leased, mut places: OwnedSemaphorePermit) {
        for task in leased.tasks {
            match places.split(1) {
                Some(place) => {
                    self.begin(Job::new(task, &leased.lease_id, &self.shared.settings), place);
                }
                // Its lease runs out, and somebody else is given it.
                None => {
                    tracing::warn!(target: "tenure", job_id = task.job_id, "agent_job_not_asked_for");
                }
            }
        }
    }

    fn begin(&mut self, job: Job, place: OwnedSemaphorePermit) {
        let shared = Arc::clone(&self.shared);
        let begun = Begun::new(&shared, &job, self.finished.clone());
        self.jobs.spawn(async move {
            let outcome = shared.ops.run(&job, &begun.ends()).await;
            tracing::debug!(
                target: "tenure",
                job_id = job.job_id,
                job_epoch = job.job_epoch,
                status = outcome.status(),
                "agent_job_done"
            );
            begun.tell(outcome);
            drop(place);
        });
    }
}

/// A job that was begun: whatever becomes of it is told, unless it is somebody else's by then.
struct Begun {
    shared: Arc<Shared>,
    finished: mpsc::UnboundedSender<Delivery>,
    delivery: Option<Delivery>,
}

impl Begun {
    fn new(shared: &Arc<Shared>, job: &Job, finished: mpsc::UnboundedSender<Delivery>) -> Self {
        shared.metrics.running.inc();
        let result = Finished {
            job_id: job.job_id.clone(),
            job_epoch: job.job_epoch,
            outcome: Outcome::failed("the op has panicked"),
            stands_in: false,
        };
        let delivery = Some(Delivery { lease: shared.held.hold(&job.lease_id), result });
        Self { shared: Arc::clone(shared), finished, delivery }
    }

    /// Cancelled when it is to end.
    fn ends(&self) -> CancellationToken {
        self.delivery.as_ref().map(|delivery| delivery.lease.ends()).unwrap_or_default()
    }

    fn tell(mut self, outcome: Outcome) {
        let is_cut = matches!(outcome, Outcome::GivenBack);
        if let Some(delivery) = &mut self.delivery {
            delivery.result.outcome = outcome;
        }
        // Somebody else has it already: there is nothing to give back.
        if let Some(lost) = self.delivery.take_if(|one| is_cut && one.lease.was_lost()) {
            let (job_id, lease_id) = (&*lost.result.job_id, lost.lease.id());
            tracing::warn!(target: "tenure", job_id, lease_id, "agent_job_lost");
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.shared.metrics.running.dec();
        if let Some(delivery) = self.delivery.take() {
            self.shared.metrics.done(&delivery.result.outcome);
            // Nobody listens when the whole agent was dropped.
            let _ = self.finished.send(delivery);
        }
    }
}

/// What an answer leases; an empty body leases nothing, and an empty list neither.
fn leased(body: &[u8]) -> Result<Option<Leased>, serde_json::Error> {
    if body.is_empty() {
        return Ok(None);
    }
    let leased: Leased = serde_json::from_slice(body)?;
    Ok((!leased.tasks.is_empty()).then_some(leased))
}

/// The rest of a wait that was not waited for: never a busy loop, whatever the controller does.
fn rest(left: Duration) -> Duration {
    left.min(LONGEST_REST).mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_poll_rests_for_no_longer_than_it_would_have_waited() {
        for left in [0, 1, 999, 1_000, 120_000].map(Duration::from_millis) {
            let rest = rest(left);
            assert!(rest <= left.min(LONGEST_REST) && rest >= left.min(LONGEST_REST) / 2);
        }
    }

    #[test]
    fn an_empty_answer_leases_nothing() {
        assert!(leased(b"").unwrap().is_none());
        assert!(leased(br#"{"lease_id":"l","tasks":[]}"#).unwrap().is_none());
        assert!(leased(b"<html>").is_err());
        let task = br#"{"lease_id":"l","leader_epoch":3,
            "tasks":[{"job_id":"j","job_epoch":1,"op":"o","payload":null,"pinned_agent":null}]}"#;
        assert_eq!(leased(task).unwrap().unwrap().tasks[0].payload.get(), "null");
    }
}
