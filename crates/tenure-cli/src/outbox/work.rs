//! `tenure outbox work`.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use prometheus_client::registry::Registry;
use sd_notify::NotifyState;
use tenure_database::{Deadline, postgres::PostgresUrl};
use tenure_outbox::{
    doctor::{self, Finding},
    observe::Metrics,
    rail::Rails,
    store::Store,
    worker,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{database::CONNECT, output::complain, shown::Http};

/// How to work, and where to show it.
#[derive(Debug)]
pub struct Work {
    pub rails: Rails,
    pub settings: worker::Settings,
    /// How long a call of the database may take.
    pub patience: Duration,
    pub http: Option<Http>,
}

impl Work {
    pub async fn run(self, url: &PostgresUrl) -> Result<()> {
        look_before(url).await?;
        let stop = stop_when_told()?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let server = match self.http {
            Some(http) => Some(http.bind().await?),
            None => None,
        };
        let serving = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Some(server) = server {
                    tracing::info!(target: "tenure", url = format!("http://{}", server.address()), "http_listening");
                    server.serve(tenure_http::plain_routes(Arc::new(registry)), stop).await;
                }
            }
        });
        let worker_id = self.settings.worker_id.clone();
        tracing::info!(target: "tenure", worker_id, rails = ?self.rails, "outbox_worker_started");
        // Without systemd nobody listens, and that is no error.
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let store = Store::new(url, self.patience);
        let worked = worker::work(url, store, self.rails, self.settings, metrics, &stop).await;
        stop.cancel();
        // A server that panicked has said so.
        let _ = serving.await;
        tracing::info!(target: "tenure", worker_id, "outbox_worker_stopped");
        Ok(worked?)
    }
}

/// A worker that cannot work says so at once, and one that finds another outbox than it knows says that.
async fn look_before(url: &PostgresUrl) -> Result<()> {
    let session = url.connect(Deadline::after(CONNECT)).await?;
    let findings = Deadline::after(CONNECT).run(doctor::examine(&session)).await?;
    let is_essential = |finding: &Finding| match finding {
        Finding::Missing(fact) => fact.starts_with("column payment_outbox_pending."),
        Finding::Unexpected(_) => false,
    };
    if findings.iter().any(is_essential) {
        bail!(
            "there is no outbox in {url}, or an older one: run `tenure outbox install` as its owner"
        );
    }
    if !findings.is_empty() {
        let count = findings.len();
        tracing::warn!(target: "tenure", count, "outbox_differs: `tenure outbox doctor` says how");
    }
    Ok(())
}

/// The first signal asks for an end in order, the second for one at once.
fn stop_when_told() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminated = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("SIGINT")?;
    let told = stop.clone();
    tokio::spawn(async move {
        for is_second in [false, true] {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
            if is_second {
                complain(&anyhow!("told twice to stop: what was begun is not awaited"));
                std::process::exit(1);
            }
            let _ = sd_notify::notify(&[NotifyState::Stopping]);
            told.cancel();
        }
    });
    Ok(stop)
}
