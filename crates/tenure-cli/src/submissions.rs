//! `tenure submissions`: many instances take requests, one executes.

use std::{io, thread, time::Duration};

use anyhow::{Result, bail};
use prometheus_client::registry::Registry as MetricsRegistry;
use tenure::{Candidate, DatabaseUrl, HolderId, Scope, Timing};
use tenure_http::{Guard, Server};
use tenure_submissions::{
    database::{contender, store},
    http,
    instance::{Behaviour, Instance},
    registry::Registry,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use crate::{
    components::{ENGINE, SUBMISSIONS},
    database,
    shown::{Http, Page, Shown},
};

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to serve, and how to contend for executing it.
#[derive(Debug)]
pub struct Submissions {
    pub db: DatabaseUrl,
    pub registry: Registry,
    pub http: Http,
    pub allow_unauthenticated: bool,
    pub lease_name: Scope,
    pub holder_id: Option<HolderId>,
    pub timing: Timing,
    pub behaviour: Behaviour,
    pub end_with_stdin: bool,
}

impl Submissions {
    /// Serves until it is told to stop; then all that was begun is finished and recorded.
    pub async fn run(self) -> Result<()> {
        let (token, is_open) = (self.http.token.clone(), self.allow_unauthenticated);
        // Whoever may submit may not drain: the token is for /v1 and /ui alone.
        let server = Http { token: None, ..self.http }.bind().await?;
        refuse_open(&server, token.is_some() || is_open)?;
        database::prepare(&self.db, &[ENGINE, SUBMISSIONS]).await?;
        for (target, variable) in self.registry.missing_variables() {
            tracing::warn!(target: "tenure", submission_target = target, variable, "webhook_variable_not_set");
        }
        let holder = self.holder_id.unwrap_or_else(HolderId::fresh);
        let builder = contender(&self.db, Candidate::new(self.lease_name, holder), self.timing)?;
        let facts = vec![("Targets".to_owned(), self.registry.len().to_string())];
        let store = store(&self.db, PATIENCE)?;
        let mut metrics = MetricsRegistry::default();
        let instance =
            Instance::start(builder, self.registry, store, self.behaviour, &mut metrics)?;
        let guard = match token {
            None if is_open => Guard::Anybody,
            token => Guard::new(token, server.address().ip()),
        };
        let routes = http::routes(&instance, guard);
        let page = Page { title: "tenure submissions", facts, metrics, routes };
        let shown = Shown::start(Some(server), &instance.election(), page);
        finish(instance, shown, self.end_with_stdin).await
    }
}

/// Whoever is told to stop takes nothing more, and finishes what it has.
async fn finish(mut instance: Instance, shown: Shown, end_with_stdin: bool) -> Result<()> {
    let stdin_ended = stdin_ended(end_with_stdin);
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let waiters = instance.waiters.clone();
    tokio::select! {
        ended = instance.ended() => {
            shown.stop().await;
            ended?;
            bail!("the election has ended");
        }
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
        Ok(()) = stdin_ended => {}
    }
    // Whoever waits for an outcome is answered with what there is.
    waiters.close();
    shown.stop().await;
    Ok(instance.stop().await?)
}

/// Hears of the end of the standard input, on a thread that keeps nobody from ending; or never.
fn stdin_ended(is_awaited: bool) -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    if is_awaited {
        thread::spawn(move || {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            // Whoever waited may have ended.
            let _ = tell.send(());
        });
    }
    told
}

/// Other machines are served without a token only when the operator has said so.
fn refuse_open(server: &Server, is_meant: bool) -> Result<()> {
    if is_meant || server.address().ip().to_canonical().is_loopback() {
        return Ok(());
    }
    bail!(
        "--http {} serves other machines, and there is no token: give --token-file, or say \
         --allow-unauthenticated",
        server.address()
    )
}
