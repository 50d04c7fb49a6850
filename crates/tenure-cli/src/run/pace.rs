//! How fast a failover is, and what a child gets of that time.

use std::{env, time::Duration};

use anyhow::{Context, Result, bail};
use tenure::{
    AdvisoryEnvironment, OnDeadline, OnFailedRenew, Takeover, Timing, timing::TimingBuilder,
};

use crate::contend::LockChoice;

/// What is left of the margin for killing and proving, after the grace.
const KILLING: Duration = Duration::from_millis(500);
const _: () = assert!(KILLING.as_millis() >= 2 * tenure_run::kept::PATIENCE.as_millis());

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub lease: Duration,
    pub term_grace: Option<Duration>,
    pub takeover: Takeover,
}

impl Pace {
    pub fn grace(&self) -> Duration {
        self.term_grace.unwrap_or_else(|| (self.lease / 4).min(Duration::from_secs(2)))
    }

    /// The child is asked, made to end and proven dead inside the margin.
    pub fn timing(&self, lock: &LockChoice) -> Result<Timing> {
        let (lease, grace) = (self.lease, self.grace());
        let usual = Timing::lease(lease).build().context("--lease")?.margin();
        let margin = usual.max(grace + KILLING);
        if margin * 2 > lease {
            bail!(
                "--term-grace {grace:?} and {KILLING:?} for killing must fit into half of the lease of \
                 {lease:?}: shorten it, or lengthen --lease"
            );
        }
        let builder = match lock {
            LockChoice::Advisory(environment) => self.heartbeat(environment, margin),
            LockChoice::Lease | LockChoice::Etcd(_) => {
                Timing::lease(lease).renew_interval(lease / 4)
            }
        };
        let builder = builder.margin(margin).takeover(self.takeover);
        // While it drains, the child is ending; it leads until that has ended.
        builder.drain_grace(grace + KILLING).build().context("--lease")
    }

    /// The lease means the silence after which another may lead; whoever sets the heartbeat by its older
    /// names means them.
    fn heartbeat(&self, environment: &AdvisoryEnvironment, margin: Duration) -> TimingBuilder {
        let is_set = ["HEARTBEAT_INTERVAL_MS", "HEARTBEAT_LATE_THRESHOLD_MS"]
            .iter()
            .any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
        let (interval, late) = match is_set {
            true => (environment.heartbeat, environment.late_threshold),
            false => (self.lease / 4, self.lease - margin),
        };
        Timing::heartbeat(interval, late)
            .backoff(environment.backoff)
            .on_deadline(OnDeadline::EndTerm)
            .on_failed_renew(OnFailedRenew::RideOut)
    }
}
