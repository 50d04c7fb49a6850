//! A whole agent, from the first poll to the last result.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    controller::Controller, heartbeat::Heartbeat, held::HeldLeases, leases::Leases,
    observe::Metrics, ops::Ops, results::HandIn, settings::Settings,
};

/// How long results are still handed in once no job runs any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why an agent cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A setting cannot work.
    #[error("the agent's {setting} {problem}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no way to make HTTP calls, for want of certificates perhaps.
    #[error("no HTTP client")]
    Client(#[source] reqwest::Error),
}

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// Results that nobody has accepted: the log says which. Their jobs run again once their leases have expired.
    pub not_handed_in: usize,
}

/// What the parts of an agent share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub settings: Settings,
    pub ops: Ops,
    /// The names of the ops.
    pub capabilities: Vec<String>,
    pub controller: Controller,
    pub metrics: Metrics,
    pub held: HeldLeases,
}

/// An agent that may begin: its settings can work.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

impl Agent {
    /// Refuses settings that cannot work; nothing is called yet.
    pub fn new(settings: Settings, ops: Ops, metrics: Metrics) -> Result<Self, AgentError> {
        settings.check().map_err(|(setting, problem)| AgentError::Setting { setting, problem })?;
        let (controller, capabilities) = (Controller::new(&settings)?, ops.names());
        let held = HeldLeases::default();
        let shared = Shared { settings, ops, capabilities, controller, metrics, held };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Works until it is told to stop; then takes no more jobs, and hands in what it has. What has not ended within the
    /// grace is cut short and given back: somebody else does it. Dropped before its end, it kills its jobs as well.
    pub async fn run(self, stop: &CancellationToken, hurry: &CancellationToken) -> Drained {
        let shared = self.shared;
        let stop = stop.child_token();
        let (give_up, ended) = (CancellationToken::new(), CancellationToken::new());
        let (told, finished) = mpsc::unbounded_channel();
        let (count, waiting) = watch::channel(0);
        let leases = Leases::new(Arc::clone(&shared), told, waiting);
        let results = HandIn::new(Arc::clone(&shared), finished, count);
        let heartbeat = Heartbeat::new(Arc::clone(&shared));
        let work = async {
            let ((), left) = tokio::join!(leases.run(&stop), results.run(&give_up));
            ended.cancel();
            left
        };
        let patience = patience(&shared, &stop, &give_up);
        let end = async {
            tokio::select! {
                () = patience => {}
                () = hurry.cancelled() => {}
                () = ended.cancelled() => {}
            }
            stop.cancel();
            shared.held.cut();
            give_up.cancel();
        };
        let (not_handed_in, (), ()) = tokio::join!(work, heartbeat.run(&ended), end);
        Drained { not_handed_in }
    }
}

/// How long everybody may take once the agent was told to stop.
async fn patience(shared: &Shared, stop: &CancellationToken, give_up: &CancellationToken) {
    stop.cancelled().await;
    let (grace, running) = (shared.settings.grace, shared.metrics.running.get());
    tracing::info!(target: "tenure", ?grace, running, "agent_draining");
    tokio::time::sleep(grace).await;
    shared.held.cut();
    tokio::time::sleep(FAREWELL).await;
    give_up.cancel();
}

/// Runs an agent until `stop` is cancelled and it has drained, or `hurry` is and everything was ended at once.
pub async fn run(
    settings: Settings,
    ops: Ops,
    metrics: Metrics,
    stop: CancellationToken,
    hurry: CancellationToken,
) -> Result<Drained, AgentError> {
    Ok(Agent::new(settings, ops, metrics)?.run(&stop, &hurry).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_does_not_show_its_token() {
        let settings = Settings {
            name: "a".to_owned(),
            controllers: vec!["http://127.0.0.1:1".parse().unwrap()],
            token: Some("s3cret".to_owned()),
            ..Settings::default()
        };
        let metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
        let agent = Agent::new(settings, Ops::built_in(), metrics).unwrap();
        assert!(!format!("{agent:?}").contains("s3cret"));
    }
}
