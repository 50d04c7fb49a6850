//! What a supervisor counts.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// The metrics of a supervisor's children.
#[derive(Clone, Debug)]
pub struct Metrics {
    started: Counter,
    stopped_late: Counter,
    stop_lag_ms: Histogram,
    margin: Duration,
}

impl Metrics {
    /// Registers them; all are there from now on. Within `margin` a stop must be over.
    #[must_use]
    pub fn register(registry: &mut Registry, scope: &str, margin: Duration) -> Self {
        let lags = [5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0];
        let metrics = Self {
            started: Counter::default(),
            stopped_late: Counter::default(),
            stop_lag_ms: Histogram::new(lags),
            margin,
        };
        let margin_ms: Gauge = Gauge::default();
        margin_ms.set(i64::try_from(margin.as_millis()).unwrap_or(i64::MAX));
        let label = ("scope".into(), scope.to_owned().into());
        let registry = registry.sub_registry_with_label(label);
        registry.register(
            "tenure_child_starts",
            "Leader's children that were started",
            metrics.started.clone(),
        );
        registry.register(
            "tenure_child_stopped_late",
            "Stops that took longer than the margin",
            metrics.stopped_late.clone(),
        );
        registry.register(
            "tenure_child_stop_lag_ms",
            "From the end of a term to the death of the last descendant of its child",
            metrics.stop_lag_ms.clone(),
        );
        registry.register("tenure_child_stop_margin_ms", "What a stop may take at most", margin_ms);
        metrics
    }

    pub(crate) fn started(&self) {
        self.started.inc();
    }

    pub(crate) fn stopped(&self, lag: Duration) {
        self.stop_lag_ms.observe(lag.as_secs_f64() * 1e3);
        if lag > self.margin {
            self.stopped_late.inc();
            let (lag, margin) = (lag.as_millis(), self.margin.as_millis());
            tracing::error!(target: "tenure", lag, margin, "child_stopped_late");
        }
    }
}
