//! What is counted.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::round::Verdict;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// The counters of one controller.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Jobs that were stored.
    pub(crate) submitted: Counter,
    /// Jobs that were handed to agents.
    pub(crate) leased: Counter,
    /// Jobs that were taken back from agents.
    pub(crate) recalled: Counter,
    /// Transactions.
    pub(crate) rounds: Counter,
    /// Requests that those carried.
    pub(crate) requests: Counter,
    /// Transactions that failed.
    pub(crate) failed: Counter,
    /// Jobs that were taken from the queue and that the database did not hand over.
    pub(crate) misqueued: Counter,
    /// Jobs that wait for an agent.
    pub(crate) queued: Gauge,
    /// Agents that wait for a job.
    pub(crate) waiting: Gauge,
    /// Those who follow the events here.
    pub(crate) followers: Gauge,
    results: Family<Outcome, Counter>,
}

impl Metrics {
    /// Counts into a registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { submitted, leased, recalled, rounds, requests, failed, misqueued, .. } =
            &metrics;
        for (name, help, counter) in [
            ("tenure_jobs_submitted", "Jobs that were stored", submitted),
            ("tenure_jobs_leased", "Jobs that were handed to agents", leased),
            ("tenure_jobs_recalled", "Jobs that were taken back from agents", recalled),
            ("tenure_jobs_rounds", "Transactions of the leader", rounds),
            ("tenure_jobs_requests", "Requests that those transactions carried", requests),
            ("tenure_jobs_rounds_failed", "Transactions of the leader that failed", failed),
            (
                "tenure_jobs_misqueued",
                "Jobs that were queued here and not in the database",
                misqueued,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register("tenure_jobs_results", "Results by outcome", metrics.results.clone());
        let Self { queued, waiting, followers, .. } = &metrics;
        registry.register("tenure_jobs_queued", "Jobs that wait for an agent", queued.clone());
        registry.register(
            "tenure_jobs_polls_waiting",
            "Agents that wait for a job",
            waiting.clone(),
        );
        registry.register("tenure_jobs_followers", "Streams of events", followers.clone());
        metrics
    }

    pub(crate) fn judged(&self, verdict: Verdict) {
        let outcome = match verdict {
            Verdict::Accepted => "accepted",
            Verdict::Duplicate => "duplicate",
            Verdict::NotFound => "not_found",
            Verdict::StaleJob { .. } => "stale_job",
            Verdict::StaleLease { .. } => "stale_lease",
        };
        self.results.get_or_create(&Outcome { outcome }).inc();
    }
}
