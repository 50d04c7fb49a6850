//! What a command shows of itself while it runs: over HTTP, and to systemd.

use std::{io, sync::Arc};

use anyhow::{Context, Result};
use axum::Router;
use prometheus_client::registry::Registry;
use sd_notify::NotifyState;
use tenure::{
    Role,
    election::{Handle, Leadership},
};
use tenure_http::{Address, Health, Node, Server, Token};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Where to serve, and what a caller must bring.
#[derive(Clone, Debug)]
pub struct Http {
    pub address: Address,
    pub token: Option<Token>,
}

impl Http {
    /// Listens, and answers nobody yet.
    pub async fn bind(self) -> Result<Server> {
        let Self { address, token } = self;
        let server = Server::bind(&address, token).await;
        server.with_context(|| format!("cannot listen on {address} (--http)"))
    }
}

/// What is served.
pub struct Page {
    /// The headline of the status page.
    pub title: &'static str,
    /// What it says beside.
    pub facts: Vec<(String, String)>,
    pub metrics: Registry,
    /// What this command serves of its own.
    pub routes: Router,
}

/// What runs beside the command's own work, until it is stopped.
pub struct Shown {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Shown {
    /// Begins to serve, and tells systemd that this process is ready.
    pub fn start(server: Option<Server>, election: &Handle, page: Page) -> Self {
        match server {
            Some(server) => {
                let routes = routes(&server, election.clone(), page);
                Self::serving(server, routes, election)
            }
            None => Self::beside(election),
        }
    }

    /// The same, for whoever has all the routes.
    pub fn serving(server: Server, routes: Router, election: &Handle) -> Self {
        let url = format!("http://{}", server.address());
        tracing::info!(target: "tenure", %url, "http_listening");
        let mut shown = Self::beside(election);
        shown.tasks.push(tokio::spawn(server.serve(routes, shown.stop.clone())));
        shown
    }

    /// Tells systemd, and serves nothing.
    pub fn beside(election: &Handle) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = vec![tokio::spawn(tell_systemd(election.leadership(), stop.clone()))];
        if let Some(interval) = sd_notify::watchdog_enabled() {
            tasks.push(tokio::spawn(show_life(interval / 3, stop.clone())));
        }
        Self { stop, tasks }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            // A task that failed has nothing left to stop.
            let _ = task.await;
        }
    }
}

fn routes(server: &Server, election: Handle, page: Page) -> Router {
    let url = format!("http://{}", server.address());
    let node = Node {
        election,
        title: page.title.to_owned(),
        facts: page.facts,
        url: Some(url),
        told: None,
        health: Health::Word,
        metrics: Arc::new(page.metrics),
    };
    tenure_http::routes(node, server.guard()).merge(page.routes)
}

/// Says that the process is ready, and from then on what it is.
async fn tell_systemd(mut leadership: watch::Receiver<Leadership>, stop: CancellationToken) {
    tell(&[NotifyState::Ready]);
    loop {
        let words = words(&leadership.borrow_and_update());
        tell(&[NotifyState::Status(&words)]);
        match stop.run_until_cancelled(leadership.changed()).await {
            Some(Ok(())) => {}
            _ => return tell(&[NotifyState::Stopping]),
        }
    }
}

async fn show_life(interval: std::time::Duration, stop: CancellationToken) {
    let mut due = tokio::time::interval(interval);
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        tell(&[NotifyState::Watchdog]);
    }
}

/// Without systemd nobody listens, and that is no error.
fn tell(state: &[NotifyState<'_>]) {
    let told: io::Result<()> = sd_notify::notify(state);
    if let Err(error) = told {
        tracing::warn!(target: "tenure", %error, "systemd_not_told");
    }
}

fn words(leadership: &Leadership) -> String {
    match (leadership.role, &leadership.leader) {
        (Role::Leader, Some((_, epoch))) => format!("leading term {epoch}"),
        (Role::Draining, _) => "handing over".to_owned(),
        (_, Some((leader, epoch))) => format!("standing by; {leader} leads term {epoch}"),
        (_, None) => "standing by; no leader is known".to_owned(),
    }
}
