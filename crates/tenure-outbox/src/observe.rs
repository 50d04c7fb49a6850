//! What a worker counts. No label holds an id.

use std::{fmt, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::rail::State;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: Label,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Label(State);

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

/// All metrics of one worker.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Rows that were leased to this worker.
    pub claimed: Counter,
    attempts: Family<OfState, Counter>,
    /// Claims that were lost: somebody else has the row, or had it.
    pub leases_lost: Counter,
    /// Claims that were given back, because nothing was begun under them.
    pub released: Counter,
    /// Leases of others that had expired.
    pub repaired: Counter,
    /// Times that the terminal guard kept an instruction from ending twice: stays 0.
    pub backstops: Counter,
    /// Times that something was about to be there twice that must not: stays 0.
    pub integrity_failures: Counter,
    /// Calls of the database that failed.
    pub database_errors: Counter,
    /// Claims in hand.
    pub held: Gauge,
    /// Dispatches under way.
    pub inflight: Gauge,
    dispatch: Histogram,
}

impl Metrics {
    /// Registers them; all are there from now on, with 0.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            claimed: Counter::default(),
            attempts: Family::default(),
            leases_lost: Counter::default(),
            released: Counter::default(),
            repaired: Counter::default(),
            backstops: Counter::default(),
            integrity_failures: Counter::default(),
            database_errors: Counter::default(),
            held: Gauge::default(),
            inflight: Gauge::default(),
            dispatch: Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]),
        };
        for state in State::ALL {
            drop(metrics.attempts.get_or_create(&OfState { state: Label(state) }));
        }
        metrics.add_to(registry);
        metrics
    }

    fn add_to(&self, registry: &mut Registry) {
        let counters = [
            ("outbox_claimed", "Rows that were leased to this worker", &self.claimed),
            ("outbox_leases_lost", "Claims that were lost", &self.leases_lost),
            ("outbox_released", "Claims that were given back", &self.released),
            ("outbox_repaired", "Expired leases that were taken back", &self.repaired),
            (
                "outbox_terminal_uniqueness_backstop",
                "Times that the terminal guard refused a second end: stays 0",
                &self.backstops,
            ),
            (
                "outbox_integrity_failures",
                "Other uniqueness that was about to be broken: stays 0",
                &self.integrity_failures,
            ),
            ("outbox_database_errors", "Calls of the database that failed", &self.database_errors),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register("outbox_attempts", "Attempts by their outcome", self.attempts.clone());
        registry.register("outbox_held", "Claims in hand", self.held.clone());
        registry.register("outbox_inflight", "Dispatches under way", self.inflight.clone());
        registry.register("outbox_dispatch_seconds", "How long rails took", self.dispatch.clone());
    }

    /// An outcome is on record.
    pub fn recorded(&self, state: State) {
        self.attempts.get_or_create(&OfState { state: Label(state) }).inc();
    }

    /// How many outcomes of this kind are on record.
    #[must_use]
    pub fn count_of(&self, state: State) -> u64 {
        self.attempts.get_or_create(&OfState { state: Label(state) }).get()
    }

    /// A rail has answered.
    pub fn dispatched(&self, latency: Duration) {
        self.dispatch.observe(latency.as_secs_f64());
    }
}
