//! `tenure agent`: a worker of the controller.

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use prometheus_client::registry::Registry;
use tenure_agent::{Drained, Metrics, Ops, Settings};
use tenure_http::{Address, Server};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Results that nobody took are lost with the process.
const LOST_RESULTS: u8 = 3;

/// What to work on, and with what.
#[derive(Debug)]
pub struct Agent {
    pub settings: Settings,
    pub ops: Ops,
    pub http: Option<Address>,
}

impl Agent {
    /// Works until it is told to stop, and then hands in what it has; a second word ends it at once.
    pub async fn run(self) -> Result<ExitCode> {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (stop, hurry, served) =
            (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let serving = match &self.http {
            Some(address) => {
                let server = Server::bind(address, None).await;
                let server =
                    server.with_context(|| format!("cannot listen on {address} (--http)"))?;
                let routes = tenure_http::plain_routes(Arc::new(registry));
                Some(tokio::spawn(server.serve(routes, served.clone())))
            }
            None => None,
        };
        let told = tokio::spawn(hear(stop.clone(), hurry.clone())?);
        let drained = tenure_agent::run(self.settings, self.ops, metrics, stop, hurry).await;
        told.abort();
        served.cancel();
        if let Some(serving) = serving {
            // A task that failed has nothing left to stop.
            let _ = serving.await;
        }
        let Drained { not_handed_in } = drained?;
        Ok(if not_handed_in == 0 { ExitCode::SUCCESS } else { LOST_RESULTS.into() })
    }
}

/// The first word stops, the second hurries.
fn hear(
    stop: CancellationToken,
    hurry: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        for token in [stop, hurry] {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
            token.cancel();
        }
    })
}
