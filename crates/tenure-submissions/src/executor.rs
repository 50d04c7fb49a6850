//! The leader's work: takes what is due, hands it to gateways, and records what came of it.
//!
//! ```text
//!            ┌────────── refresh ◄── news, every interval
//!            ▼
//!  schedule ──► reserve (fenced) ──► attempts, many at once ──► record (fenced) ──► schedule, webhooks
//!       gate before              gate right before the call
//! ```
//!
//! Everything happens in one loop that owns the schedule; what takes time runs beside it and reports back. A
//! refusal of the fence, or an error of a refresh, a reservation or a record, ends the term: nobody knows what
//! the database holds then, and the next leader reads it anew.

mod attempt;
mod clock;
mod telling;
mod term;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::SignedDuration;
use tenure::{
    LeaderGate, Term,
    election::{Tenure, Work, WorkError},
};
use tokio::sync::Mutex;

use self::term::{Rebuilt, TermOfWork};
use crate::{
    gateway::Gateway,
    observe::Metrics,
    store::{OneShot, Store},
    webhook::Webhooks,
};

/// How the executor works.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many attempts at once; 1 gives a single loop.
    pub concurrency: usize,
    /// How often to refresh the schedule, news or not.
    pub refresh_interval: Duration,
    /// How often to compare the schedule with all that is pending.
    pub reconcile_interval: Duration,
    /// How long after an attempt the next one is due.
    pub retry_after: SignedDuration,
    /// How long recording an outcome may take.
    pub record_within: Duration,
    /// What becomes of a one-shot that a leader began and did not live to record.
    pub one_shot: OneShot,
}

/// What runs while this instance leads.
pub struct Executor {
    store: Arc<dyn Store>,
    gateway: Gateway,
    webhooks: Webhooks,
    metrics: Metrics,
    pace: Pace,
    /// Known once the election has begun.
    gate: std::sync::OnceLock<LeaderGate>,
    rebuilt: Mutex<Option<Rebuilt>>,
}

impl Executor {
    /// It executes nothing until it leads.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        gateway: Gateway,
        webhooks: Webhooks,
        metrics: Metrics,
        pace: Pace,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            gateway,
            webhooks,
            metrics,
            pace,
            gate: std::sync::OnceLock::new(),
            rebuilt: Mutex::default(),
        })
    }

    /// The gate that is asked before everything; without it nothing is executed.
    pub fn behind(&self, gate: LeaderGate) {
        // The first one counts: an executor has one election.
        let _ = self.gate.set(gate);
    }
}

impl Executor {
    /// How long a call and the record of its outcome may take.
    fn time_of_an_attempt(&self) -> Duration {
        self.gateway.timeout() + self.pace.record_within
    }
}

/// The executor, as the election runs it.
pub struct OfTerms(pub Arc<Executor>);

#[async_trait]
impl Work for OfTerms {
    /// Reads all that is pending; the gate opens afterwards, if the term is still there.
    async fn prepare(&self, term: &Term) -> Result<(), WorkError> {
        let executor = &self.0;
        let rebuilt = Rebuilt::read(executor, term).await?;
        *executor.rebuilt.lock().await = Some(rebuilt);
        Ok(())
    }

    async fn lead(&self, tenure: Tenure) {
        let executor = &self.0;
        let (Some(rebuilt), Some(gate)) =
            (executor.rebuilt.lock().await.take(), executor.gate.get())
        else {
            return;
        };
        TermOfWork::new(Arc::clone(executor), gate.clone(), tenure, rebuilt).run().await;
    }

    /// On loss the schedule is discarded.
    async fn ended(&self, _: &Term) {
        self.0.rebuilt.lock().await.take();
        self.0.metrics.queue_depth.set(0);
        self.0.metrics.inflight.set(0);
    }
}
