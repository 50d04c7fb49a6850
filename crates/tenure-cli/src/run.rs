//! `tenure run`: a program that acts only while its node leads.

mod pace;

use std::ffi::OsString;

use anyhow::{Context, Result};
use prometheus_client::registry::Registry;
use rustix::{
    process::getpgrp,
    stdio::stdin,
    termios::{isatty, tcgetpgrp},
};
use tenure::{Candidate, DatabaseUrl, HolderId, Metrics, Scope};
use tenure_run::{Nursery, Programs, Restart, Supervisor};

pub use self::pace::Pace;
use crate::{
    components::ENGINE,
    contend::{Contender, LockChoice},
    database,
    shown::{Http, Page, Shown},
};

/// The argument that makes this binary a keeper.
pub const KEEPER: &str = "keeper";

/// What to run, and how to contend for it.
#[derive(Debug)]
pub struct Run {
    pub db: DatabaseUrl,
    pub scope: Scope,
    pub node_id: Option<HolderId>,
    pub lock: LockChoice,
    pub pace: Pace,
    pub leader: Vec<String>,
    pub standby: Option<Vec<String>>,
    pub restart: Restart,
    pub http: Option<Http>,
}

impl Run {
    /// Runs until the program has ended and is not to be run again; the code to exit with.
    pub async fn run(self) -> Result<u8> {
        let timing = self.pace.timing(&self.lock)?;
        let holder = self.node_id.clone().unwrap_or_else(HolderId::fresh);
        let candidate = Candidate::new(self.scope.clone(), holder);
        let keeper = ["/proc/self/exe", KEEPER].map(OsString::from).to_vec();
        let nursery = Nursery::new(keeper).context("cannot inherit orphans")?;
        let contender = Contender {
            db: &self.db,
            lock: &self.lock,
            candidate: candidate.clone(),
            timing,
            processes: Some(nursery.processes()),
        };
        let facts = self.facts();
        let server = match self.http {
            Some(http) => Some(http.bind().await?),
            None => None,
        };
        let (mut registry, metrics) = (Registry::default(), Metrics::default());
        metrics.register(&mut registry);
        database::prepare(&self.db, &[ENGINE]).await?;
        let builder = contender.builder()?.metrics(&metrics);
        let counted =
            tenure_run::Metrics::register(&mut registry, self.scope.as_str(), timing.margin());
        let programs = Programs {
            leader: self.leader,
            standby: self.standby,
            grace: self.pace.grace(),
            in_front: isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|front| front == getpgrp()),
        };
        let supervisor =
            Supervisor::start(builder, &candidate, nursery, programs, self.restart, counted)?;
        let page =
            Page { title: "tenure run", facts, metrics: registry, routes: axum::Router::new() };
        let shown = Shown::start(server, &supervisor.election(), page);
        let ended = supervisor.run().await;
        shown.stop().await;
        Ok(ended?)
    }

    /// For the status page: not the program's arguments, which may hold secrets.
    fn facts(&self) -> Vec<(String, String)> {
        let lease = format!("{:?}", self.pace.lease);
        let fact = |name: &str, value: String| (name.to_owned(), value);
        vec![
            fact("Program", self.leader.first().cloned().unwrap_or_default()),
            fact("Lock", self.lock.name().to_owned()),
            fact("Lease", lease),
        ]
    }
}
