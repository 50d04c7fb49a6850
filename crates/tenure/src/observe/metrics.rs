//! The metrics of every election, labelled by scope.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};
use tenure_database::BootInstant;

use crate::term::Scope;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    scope: String,
}

/// Makes a histogram of milliseconds; a named type, so that a family can hold the way it is made.
type MakeHistogram = fn() -> Histogram;

/// The metrics of all elections of a process. Registered once, in whichever registry is served.
#[derive(Clone, Debug)]
pub struct Metrics {
    acquired: Family<Labels, Counter>,
    lost: Family<Labels, Counter>,
    acquire_attempts: Family<Labels, Counter>,
    blocked: Family<Labels, Counter>,
    is_leader: Family<Labels, Gauge>,
    epoch: Family<Labels, Gauge>,
    heartbeats: Heartbeats,
    acquire_latency_ms: Family<Labels, Histogram, MakeHistogram>,
    heartbeat_update_ms: Family<Labels, Histogram, MakeHistogram>,
}

/// The metrics of one scope.
#[derive(Clone, Debug)]
pub(crate) struct ScopeMetrics {
    labels: Labels,
    heartbeats: Heartbeats,
    pub(crate) acquired: Counter,
    pub(crate) lost: Counter,
    pub(crate) acquire_attempts: Counter,
    pub(crate) blocked: Counter,
    pub(crate) is_leader: Gauge,
    pub(crate) epoch: Gauge,
    pub(crate) acquire_latency_ms: Histogram,
    pub(crate) heartbeat_update_ms: Histogram,
}

/// When each scope's holder was last known to live: its age is told as of the moment it is asked for.
#[derive(Clone, Debug, Default)]
struct Heartbeats(Arc<Mutex<Vec<(Labels, BootInstant)>>>);

impl Default for Metrics {
    fn default() -> Self {
        let milliseconds: MakeHistogram =
            || Histogram::new([1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0]);
        Self {
            acquired: Family::default(),
            lost: Family::default(),
            acquire_attempts: Family::default(),
            blocked: Family::default(),
            is_leader: Family::default(),
            epoch: Family::default(),
            heartbeats: Heartbeats::default(),
            acquire_latency_ms: Family::new_with_constructor(milliseconds),
            heartbeat_update_ms: Family::new_with_constructor(milliseconds),
        }
    }
}

impl Metrics {
    /// Puts the metrics into a registry. Counters get their `_total` there.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("leader_acquired", "Terms whose gate was opened", self.acquired.clone());
        registry.register("leadership_lost", "Terms that ended", self.lost.clone());
        registry.register(
            "acquire_attempts",
            "How often the lock was asked for",
            self.acquire_attempts.clone(),
        );
        registry.register(
            "extrinsic_blocked_not_leader",
            "Acts that the gate refused",
            self.blocked.clone(),
        );
        registry.register("is_leader", "1 while the gate is open, else 0", self.is_leader.clone());
        registry.register(
            "leader_epoch",
            "The latest epoch that this node knows",
            self.epoch.clone(),
        );
        registry.register(
            "acquire_latency_ms",
            "How long the lock took to answer an acquire, waiting included",
            self.acquire_latency_ms.clone(),
        );
        registry.register(
            "heartbeat_update_ms",
            "How long a renewal took",
            self.heartbeat_update_ms.clone(),
        );
        registry.register_collector(Box::new(self.heartbeats.clone()));
    }

    /// The metrics of a scope, all of them present from now on.
    pub(crate) fn of(&self, scope: &Scope) -> ScopeMetrics {
        let labels = Labels { scope: scope.as_str().to_owned() };
        ScopeMetrics {
            heartbeats: self.heartbeats.clone(),
            acquired: self.acquired.get_or_create_owned(&labels),
            lost: self.lost.get_or_create_owned(&labels),
            acquire_attempts: self.acquire_attempts.get_or_create_owned(&labels),
            blocked: self.blocked.get_or_create_owned(&labels),
            is_leader: self.is_leader.get_or_create_owned(&labels),
            epoch: self.epoch.get_or_create_owned(&labels),
            acquire_latency_ms: self.acquire_latency_ms.get_or_create_owned(&labels),
            heartbeat_update_ms: self.heartbeat_update_ms.get_or_create_owned(&labels),
            labels,
        }
    }
}

impl ScopeMetrics {
    /// The holder of the scope proved itself this long ago, by the database's clock.
    pub(crate) fn heartbeat_seen(&self, age: Duration) {
        self.heartbeats.seen(&self.labels, BootInstant::now() - age);
    }
}

impl Heartbeats {
    fn seen(&self, labels: &Labels, at: BootInstant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|(known, _)| known == labels) {
            Some((_, seen)) => *seen = at,
            None => all.push((labels.clone(), at)),
        }
    }
}

impl Collector for Heartbeats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = BootInstant::now();
        let help = "Milliseconds since the holder last proved itself, by the database's clock.";
        let family: Family<Labels, Gauge> = Family::default();
        for (labels, seen) in all.iter() {
            let age = i64::try_from(now.since(*seen).as_millis()).unwrap_or(i64::MAX);
            family.get_or_create(labels).set(age);
        }
        let kind = ConstGauge::new(0_i64).metric_type();
        family.encode(encoder.encode_descriptor("heartbeat_age_ms", help, None, kind)?)
    }
}
