//! What the submission manager counts. No label holds an id.

use std::{fmt, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::intent::{ExhaustedReason, Status};

/// A label out of a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStatus {
    status: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    reason: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    outcome_status: Word,
}

/// What an attempt counts as.
pub(crate) const OUTCOMES: [&str; 3] = ["accepted", "rejected", "error"];

type MakeHistogram = fn() -> Histogram;

/// All metrics of one instance.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Intents that were stored.
    pub created: Counter,
    /// Submissions that were there before.
    pub idempotent_hits: Counter,
    /// Submissions whose id has something else.
    pub conflicts: Counter,
    terminal: Family<OfStatus, Counter>,
    exhausted: Family<OfReason, Counter>,
    attempts: Family<OfOutcome, Counter>,
    /// Attempts after which the intent is tried again.
    pub retries: Counter,
    /// Attempts that a leader before began and did not live to record.
    pub repeats: Counter,
    /// Outcomes whose intent had moved on when they were recorded.
    pub moved_on: Counter,
    /// Pending intents that refreshes had missed: stays 0.
    pub reconciled: Counter,
    /// Intents that wait in the leader's schedule.
    pub queue_depth: Gauge,
    /// Attempts under way.
    pub inflight: Gauge,
    time_to_terminal: Family<OfStatus, Histogram, MakeHistogram>,
    attempt_duration: Histogram,
    queue_delay: Histogram,
}

impl Metrics {
    /// Registers them; all are there from now on, with 0.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            created: Counter::default(),
            idempotent_hits: Counter::default(),
            conflicts: Counter::default(),
            terminal: Family::default(),
            exhausted: Family::default(),
            attempts: Family::default(),
            retries: Counter::default(),
            repeats: Counter::default(),
            moved_on: Counter::default(),
            reconciled: Counter::default(),
            queue_depth: Gauge::default(),
            inflight: Gauge::default(),
            time_to_terminal: Family::new_with_constructor(|| {
                Histogram::new([0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0])
            }),
            attempt_duration: Histogram::new([0.1, 0.25, 0.5, 1.0, 2.5, 5.0]),
            queue_delay: Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0]),
        };
        metrics.fill();
        metrics.add_to(registry);
        metrics
    }

    fn fill(&self) {
        for status in Status::TERMINAL {
            let label = OfStatus { status: Word(status.as_str()) };
            drop(self.terminal.get_or_create(&label));
            drop(self.time_to_terminal.get_or_create(&label));
        }
        for reason in ExhaustedReason::ALL {
            drop(self.exhausted.get_or_create(&OfReason { reason: Word(reason.as_str()) }));
        }
        for outcome in OUTCOMES {
            drop(self.attempts.get_or_create(&OfOutcome { outcome_status: Word(outcome) }));
        }
    }

    fn add_to(&self, registry: &mut Registry) {
        let mut counter = |name, help, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter("submission_intents_created", "Intents that were stored", &self.created);
        counter(
            "submission_idempotent_hits",
            "Submissions that were there before",
            &self.idempotent_hits,
        );
        counter(
            "submission_idempotency_conflicts",
            "Submissions whose id has something else",
            &self.conflicts,
        );
        counter(
            "submission_retries_scheduled",
            "Attempts after which the intent is tried again",
            &self.retries,
        );
        counter(
            "submission_attempts_repeated",
            "Attempts that a leader before had begun and not recorded",
            &self.repeats,
        );
        counter(
            "submission_outcomes_moved_on",
            "Outcomes whose intent had moved on",
            &self.moved_on,
        );
        counter(
            "submission_reconciled",
            "Pending intents that refreshes had missed: stays 0",
            &self.reconciled,
        );
        registry.register(
            "submission_intents_terminal",
            "Intents that ended, by how",
            self.terminal.clone(),
        );
        registry.register(
            "submission_exhausted",
            "Intents that were given up, by why",
            self.exhausted.clone(),
        );
        registry.register(
            "submission_attempts",
            "Attempts, by what came of them",
            self.attempts.clone(),
        );
        registry.register(
            "submission_queue_depth",
            "Intents that wait in the leader's schedule",
            self.queue_depth.clone(),
        );
        registry.register(
            "submission_inflight_attempts",
            "Attempts under way",
            self.inflight.clone(),
        );
        registry.register(
            "submission_intent_time_to_terminal_seconds",
            "From submission to the end",
            self.time_to_terminal.clone(),
        );
        registry.register(
            "submission_attempt_duration_seconds",
            "How long a gateway took",
            self.attempt_duration.clone(),
        );
        registry.register(
            "submission_queue_delay_seconds",
            "From due to begun",
            self.queue_delay.clone(),
        );
    }

    pub(crate) fn ended(&self, status: Status, after: Duration) {
        let label = OfStatus { status: Word(status.as_str()) };
        self.terminal.get_or_create(&label).inc();
        self.time_to_terminal.get_or_create(&label).observe(after.as_secs_f64());
    }

    pub(crate) fn exhausted(&self, reason: ExhaustedReason) {
        self.exhausted.get_or_create(&OfReason { reason: Word(reason.as_str()) }).inc();
    }

    pub(crate) fn attempted(&self, outcome: &'static str, took: Duration) {
        self.attempts.get_or_create(&OfOutcome { outcome_status: Word(outcome) }).inc();
        self.attempt_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn begun(&self, after_due: Duration) {
        self.queue_delay.observe(after_due.as_secs_f64());
    }
}
