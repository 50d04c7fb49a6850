//! One instance: takes submissions always, and executes while it leads.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use prometheus_client::registry::Registry as MetricsRegistry;
use tenure::{
    Election, ElectionEnded, Metrics as ElectionMetrics, Timing,
    election::{Builder, Handle},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    executor::{Executor, OfTerms, Pace},
    gateway::Gateway,
    intake::{Grouping, Intake},
    observe::Metrics,
    registry::Registry,
    store::{OneShot, Store},
    waiters::Waiters,
    webhook::Webhooks,
};

/// How an instance behaves.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// How submissions share round trips to the database.
    pub grouping: Grouping,
    /// How many attempts at once.
    pub concurrency: usize,
    /// How often the leader refreshes its schedule, news or not.
    pub refresh_interval: Duration,
    /// How often the leader compares its schedule with all that is pending.
    pub reconcile_interval: Duration,
    /// How long after an attempt the next one is due.
    pub retry_after: SignedDuration,
    /// How long a gateway, or a webhook, may take.
    pub gateway_timeout: Duration,
    /// How long recording an outcome may take.
    pub record_within: Duration,
    /// What becomes of a one-shot that a leader began and did not live to record.
    pub one_shot: OneShot,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            grouping: Grouping::default(),
            concurrency: 256,
            refresh_interval: Duration::from_secs(1),
            reconcile_interval: Duration::from_secs(300),
            retry_after: SignedDuration::from_secs(5),
            gateway_timeout: Duration::from_secs(10),
            record_within: Duration::from_secs(5),
            one_shot: OneShot::Repeat,
        }
    }
}

impl Behaviour {
    /// An attempt is begun only if the gate is open for as long as the call and the record may take. Settings
    /// under which that could never be are refused.
    pub fn check(&self, timing: &Timing) -> Result<(), StartError> {
        let (open, needs) = (timing.gate_open_for(), self.gateway_timeout + self.record_within);
        // After a renewal there must be time for an attempt until the next one is due.
        let most = open.saturating_sub(timing.renew_interval());
        if needs < most {
            return Ok(());
        }
        Err(StartError::NoTimeForAttempts {
            gateway_timeout: self.gateway_timeout,
            record_within: self.record_within,
            most,
        })
    }
}

/// An instance that runs.
pub struct Instance {
    election: Election,
    /// Hears what other instances have done; ends with this one.
    _hears: AbortOnDropHandle<()>,
    /// The targets.
    pub registry: Arc<Registry>,
    /// Where intents are kept.
    pub store: Arc<dyn Store>,
    /// Takes submissions.
    pub intake: Intake,
    /// Those who wait for an outcome.
    pub waiters: Waiters,
    /// What is counted.
    pub metrics: Metrics,
}

impl Instance {
    /// Starts taking submissions and contending. `builder` has the lock and the fence.
    pub fn start(
        builder: Builder,
        registry: Registry,
        store: Arc<dyn Store>,
        behaviour: Behaviour,
        counted: &mut MetricsRegistry,
    ) -> Result<Self, StartError> {
        behaviour.check(builder.timing())?;
        let metrics = Metrics::register(counted);
        let election_metrics = ElectionMetrics::default();
        election_metrics.register(counted);
        let gateway = Gateway::new(behaviour.gateway_timeout)?;
        let webhooks = Webhooks::new(behaviour.gateway_timeout)?;
        let pace = Pace {
            concurrency: behaviour.concurrency.max(1),
            refresh_interval: behaviour.refresh_interval,
            reconcile_interval: behaviour.reconcile_interval,
            retry_after: behaviour.retry_after,
            record_within: behaviour.record_within,
            one_shot: behaviour.one_shot,
        };
        let executor = Executor::new(Arc::clone(&store), gateway, webhooks, metrics.clone(), pace);
        let work = OfTerms(Arc::clone(&executor));
        let election = builder.work(work).metrics(&election_metrics).start()?;
        executor.behind(election.gate());
        let waiters = Waiters::default();
        let hears = AbortOnDropHandle::new(tokio::spawn(waiters.clone().hear(store.news())));
        let intake = Intake::start(Arc::clone(&store), metrics.clone(), behaviour.grouping);
        let registry = Arc::new(registry);
        Ok(Self { election, _hears: hears, registry, store, intake, waiters, metrics })
    }

    /// The election, for whoever shows it or drains it.
    #[must_use]
    pub fn election(&self) -> Handle {
        self.election.handle()
    }

    /// Waits until the election cannot go on.
    pub async fn ended(&mut self) -> Result<(), ElectionEnded> {
        self.election.ended().await
    }

    /// Stops in order: calls that were sent are awaited and recorded, then the term is released.
    pub async fn stop(self) -> Result<(), ElectionEnded> {
        self.election.stop().await
    }
}

/// Why an instance could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No attempt would ever be begun.
    #[error(
        "a gateway timeout of {gateway_timeout:?} and {record_within:?} to record its outcome must be below \
         {most:?}, the time that the lease leaves between two renewals: shorten it, or lengthen the lease"
    )]
    NoTimeForAttempts {
        /// How long a gateway may take.
        gateway_timeout: Duration,
        /// How long recording may take.
        record_within: Duration,
        /// What both together must be below.
        most: Duration,
    },
    /// No HTTP client could be made.
    #[error("cannot make an HTTP client")]
    Client(#[from] reqwest::Error),
    /// No thread could be started.
    #[error("cannot start the election's thread")]
    Thread(#[from] std::io::Error),
}
