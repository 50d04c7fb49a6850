//! Says that the agent is there, which is what makes its job leases last.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_database::BootInstant;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::Shared,
    backoff::Backoff,
    controller::{Reply, SHORT_CALL},
};

/// How long a job lease lasts at the controller unless a heartbeat extends it.
pub(crate) const JOB_LEASE: Duration = Duration::from_secs(30);

/// What an agent can do.
#[derive(Serialize)]
pub(crate) struct Capabilities<'a> {
    pub ops: &'a [String],
}

#[derive(Serialize)]
struct Said<'a> {
    name: &'a str,
    labels: Labels<'a>,
    capabilities: Capabilities<'a>,
    worker_profile: Profile,
    metrics: Load,
    /// What it works on: no other lease is extended.
    leases: Vec<String>,
}

/// What it is answered.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Heard {
    gone: Vec<String>,
}

#[derive(Serialize)]
struct Labels<'a> {
    namespace: &'a str,
}

#[derive(Serialize)]
struct Profile {
    concurrency: usize,
    version: &'static str,
}

#[derive(Serialize)]
struct Load {
    running: i64,
    waiting_results: i64,
}

pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    backoff: Backoff,
    silence: Silence,
}

/// How long nobody has heard the agent.
#[derive(Debug)]
struct Silence {
    /// When the last one that was heard was begun: its lease may count from there.
    heard: BootInstant,
    was_told: bool,
}

impl Silence {
    /// Whether it has lasted for a whole job lease; once for each.
    fn is_too_long(&mut self, now: BootInstant) -> bool {
        let is_too_long = now.since(self.heard) >= JOB_LEASE;
        is_too_long && !std::mem::replace(&mut self.was_told, true)
    }
}

impl Heartbeat {
    pub fn new(shared: Arc<Shared>) -> Self {
        let silence = Silence { heard: BootInstant::now(), was_told: false };
        Self { shared, backoff: Backoff::default(), silence }
    }

    /// The first at once, and one after the other until the agent has ended.
    pub async fn run(mut self, ended: &CancellationToken) {
        let beats = async {
            loop {
                let pause = self.beat().await;
                tokio::time::sleep(pause).await;
            }
        };
        ended.run_until_cancelled(beats).await;
    }

    /// One heartbeat; how long until the next.
    async fn beat(&mut self) -> Duration {
        let begun = BootInstant::now();
        let interval = self.shared.settings.heartbeat.mul_f64(0.9 + fastrand::f64() / 5.0);
        let pause = match self.say().await {
            Reply::Done { body, .. } => {
                self.lose(&body);
                self.shared.metrics.heartbeats.inc();
                self.backoff.reset();
                self.silence = Silence { heard: begun, was_told: false };
                return interval;
            }
            Reply::Refused(refusal) => {
                tracing::warn!(target: "tenure", %refusal, "agent_heartbeat_refused");
                interval
            }
            // Sooner than usual: leases are running out.
            Reply::Unheard(unheard) => unheard.pause(&mut self.backoff).min(interval),
        };
        let running = self.shared.metrics.running.get();
        if running > 0 && self.silence.is_too_long(BootInstant::now()) {
            // They go on all the same: whether their results count is decided by their job_epoch.
            tracing::warn!(target: "tenure", running, "agent_jobs_may_be_leased_to_others");
        }
        pause
    }

    /// What the controller says is somebody else's is worked on no more. One that says nothing takes nothing.
    fn lose(&self, body: &[u8]) {
        let heard: Heard = serde_json::from_slice(body).unwrap_or_default();
        heard.gone.iter().for_each(|lease_id| self.shared.held.is_gone(lease_id));
    }

    async fn say(&self) -> Reply {
        let Shared { settings, controller, capabilities, metrics, held, .. } = &*self.shared;
        let said = Said {
            name: &settings.name,
            labels: Labels { namespace: &settings.namespace },
            capabilities: Capabilities { ops: capabilities },
            worker_profile: Profile {
                concurrency: settings.concurrency,
                version: env!("CARGO_PKG_VERSION"),
            },
            metrics: Load {
                running: metrics.running.get(),
                waiting_results: metrics.waiting.get(),
            },
            leases: held.ids(),
        };
        controller.call("/v1/agents/heartbeat", &said, SHORT_CALL).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_of_a_whole_job_lease_is_told_once() {
        let heard = BootInstant::from_nanos(5);
        let mut silence = Silence { heard, was_told: false };
        assert!(!silence.is_too_long(heard + JOB_LEASE / 2));
        assert!(silence.is_too_long(heard + JOB_LEASE));
        assert!(!silence.is_too_long(heard + JOB_LEASE * 2));
    }
}
