//! Transitions as logs and metrics.
//!
//! The log events carry both vocabularies that operators know: `holder_id`, `lease_epoch`, `expires_at`
//! and `sql_error` beside `scope_key`, `holder_identity`, `epoch` and `reason`.

mod metrics;

use std::{sync::Arc, time::Duration};

use tenure_database::error;

pub use self::metrics::Metrics;
pub(crate) use self::metrics::ScopeMetrics;
use crate::{
    elector::EndReason,
    lock::{Candidate, LockError, Reading},
    term::Epoch,
    timing::Timing,
};

/// Tells what one election does.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    candidate: Candidate,
    timing: Timing,
    pub(crate) metrics: Arc<ScopeMetrics>,
}

/// One log event with the fields of both vocabularies.
macro_rules! event {
    ($level:ident, $self:ident, $epoch:expr, { $($fields:tt)* }, $name:literal) => {
        tracing::$level!(
            target: "tenure",
            scope = %$self.candidate.scope,
            scope_key = $self.candidate.scope.key(),
            holder_id = %$self.candidate.holder,
            holder_identity = %$self.candidate.holder,
            lease_epoch = $epoch.get(),
            epoch = $epoch.get(),
            $($fields)*
            $name
        )
    };
}

impl Observer {
    pub(crate) fn new(candidate: Candidate, timing: Timing, metrics: &Metrics) -> Self {
        let metrics = Arc::new(metrics.of(&candidate.scope));
        Self { candidate, timing, metrics }
    }

    pub(crate) fn acquired(&self, epoch: Epoch, reading: &Reading) {
        self.metrics.heartbeat_seen(Duration::ZERO);
        event!(info, self, epoch, { expires_at = self.expires_at(reading).map(|at| at.to_string()), }, "leader_acquired");
    }

    /// The gate opened; `again` when only a late heartbeat had shut it.
    pub(crate) fn led(&self, epoch: Epoch, again: bool) {
        if !again {
            self.metrics.acquired.inc();
        }
        self.metrics.is_leader.set(1);
        self.metrics.epoch.set(epoch.get());
        event!(info, self, epoch, { again, }, "leader_gate_opened");
    }

    pub(crate) fn renewed(&self, epoch: Epoch, took: Duration, reading: &Reading) {
        self.metrics.heartbeat_update_ms.observe(took.as_secs_f64() * 1e3);
        self.metrics.heartbeat_seen(Duration::ZERO);
        event!(debug, self, epoch, { expires_at = self.expires_at(reading).map(|at| at.to_string()), }, "leader_renewed");
    }

    pub(crate) fn shut(&self, epoch: Epoch, reason: EndReason) {
        self.metrics.is_leader.set(0);
        if reason != EndReason::Late {
            self.metrics.lost.inc();
        }
        event!(info, self, epoch, { reason = reason.as_str(), }, "leader_lost");
    }

    /// A term was won, and ended before its gate had opened.
    pub(crate) fn never_led(&self, epoch: Epoch, reason: EndReason) {
        event!(warn, self, epoch, { reason = reason.as_str(), }, "leader_could_not_begin");
    }

    /// Another server answers, or another history of the same one: a failover or a restore, which may have lost
    /// what was committed last.
    pub(crate) fn server_changed(&self, server: &str) {
        event!(warn, self, Epoch::ZERO, { server, }, "leader_server_changed");
    }

    /// The winner waits until no gate of an earlier term can be open.
    pub(crate) fn settles(&self, epoch: Epoch, wait: Duration) {
        let wait_ms = wait.as_millis() as u64;
        event!(info, self, epoch, { wait_ms, }, "leader_sits_out_earlier_terms");
    }

    pub(crate) fn asked(&self, took: Duration) {
        self.metrics.acquire_attempts.inc();
        self.metrics.acquire_latency_ms.observe(took.as_secs_f64() * 1e3);
    }

    pub(crate) fn held_by_another(&self, epoch: Epoch, heartbeat_age: Option<Duration>) {
        self.metrics.epoch.set(epoch.get());
        if let Some(age) = heartbeat_age {
            self.metrics.heartbeat_seen(age);
        }
    }

    pub(crate) fn lease_differs(&self, epoch: Epoch, theirs: Duration, ours: Duration) {
        let (theirs_ms, ours_ms) = (theirs.as_millis() as u64, ours.as_millis() as u64);
        let todo = "give all who contend for this scope the same lease";
        event!(warn, self, epoch, { theirs_ms, ours_ms, todo, }, "leader_lease_differs");
    }

    /// An observation, never a reason to take over.
    pub(crate) fn stale_leader(&self, epoch: Epoch, age: Duration) {
        let age_ms = age.as_millis() as u64;
        event!(warn, self, epoch, { heartbeat_age_ms = age_ms, }, "leader_heartbeat_stale");
    }

    pub(crate) fn acquire_failed(&self, error: &LockError) {
        let sql_error = error::chain(error);
        event!(warn, self, Epoch::ZERO, { sql_error, }, "leader_acquire_failed");
    }

    pub(crate) fn renew_failed(&self, epoch: Epoch, error: &LockError) {
        let sql_error = error::chain(error);
        event!(warn, self, epoch, { sql_error, }, "leader_renew_failed");
    }

    pub(crate) fn call_failed(
        &self,
        epoch: Epoch,
        call: &'static str,
        error: &dyn std::error::Error,
    ) {
        let sql_error = error::chain(error);
        event!(warn, self, epoch, { call, sql_error, }, "leader_call_failed");
    }

    pub(crate) fn cannot_go_on(&self, why: &str) {
        event!(error, self, Epoch::ZERO, { reason = why, }, "leader_election_ended");
    }

    /// By the database's clock, where it was told.
    pub(crate) fn expires_at(&self, reading: &Reading) -> Option<jiff::Timestamp> {
        let now = reading.clock.map(|clock| clock.server).or(reading.shown)?;
        let expires = now + self.timing.lease_duration();
        let millis = i64::try_from(expires.as_millis()).ok()?;
        jiff::Timestamp::from_millisecond(millis).ok()
    }
}
