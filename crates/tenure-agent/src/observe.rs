//! What an agent counts. No label holds an id.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::{job::Outcome, leases::Polled, results::Dropped};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStatus {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

/// All metrics of one agent.
#[derive(Clone, Debug)]
pub struct Metrics {
    done: Family<OfStatus, Counter>,
    dropped: Family<OfReason, Counter>,
    polls: Family<OfOutcome, Counter>,
    /// Results that were accepted.
    pub(crate) accepted: Counter,
    /// Heartbeats that were accepted.
    pub(crate) heartbeats: Counter,
    /// Jobs under way.
    pub(crate) running: Gauge,
    /// Results that nobody has accepted yet.
    pub(crate) waiting: Gauge,
}

impl Metrics {
    /// Registers them; all are there from now on, with 0.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            done: Family::default(),
            dropped: Family::default(),
            polls: Family::default(),
            accepted: Counter::default(),
            heartbeats: Counter::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
        };
        for status in ["succeeded", "failed", "given_back"] {
            drop(metrics.done.get_or_create(&OfStatus { status }));
        }
        for dropped in Dropped::ALL {
            drop(metrics.dropped.get_or_create(&OfReason { reason: dropped.as_str() }));
        }
        for polled in Polled::ALL {
            drop(metrics.polls.get_or_create(&OfOutcome { outcome: polled.as_str() }));
        }
        metrics.add_to(registry);
        metrics
    }

    fn add_to(&self, registry: &mut Registry) {
        let (done, dropped, polls) = (self.done.clone(), self.dropped.clone(), self.polls.clone());
        registry.register("agent_jobs_done", "Jobs that ended, by status", done);
        registry.register(
            "agent_results_dropped",
            "Results that nobody will have, by reason",
            dropped,
        );
        registry.register("agent_polls", "Polls for jobs, by what came of them", polls);
        let accepted = self.accepted.clone();
        registry.register("agent_results_accepted", "Results that were accepted", accepted);
        let heartbeats = self.heartbeats.clone();
        registry.register("agent_heartbeats", "Heartbeats that were accepted", heartbeats);
        registry.register("agent_jobs_running", "Jobs under way", self.running.clone());
        let waiting = self.waiting.clone();
        registry.register("agent_results_waiting", "Results not accepted yet", waiting);
    }

    pub(crate) fn done(&self, outcome: &Outcome) {
        self.done.get_or_create(&OfStatus { status: outcome.status() }).inc();
    }

    pub(crate) fn dropped(&self, why: Dropped) {
        self.dropped.get_or_create(&OfReason { reason: why.as_str() }).inc();
    }

    pub(crate) fn polled(&self, polled: Polled) {
        self.polls.get_or_create(&OfOutcome { outcome: polled.as_str() }).inc();
    }
}
