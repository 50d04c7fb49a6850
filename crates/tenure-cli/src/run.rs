//! `tenure run`: a program that acts only while its node leads.

use std::{ffi::OsString, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use prometheus_client::registry::Registry;
use rustix::{
    process::getpgrp,
    stdio::stdin,
    termios::{isatty, tcgetpgrp},
};
use tenure::{
    Candidate, DatabaseUrl, Election, HolderId, OnDeadline, OnFailedRenew, Scope, Takeover, Timing,
    election::Builder,
    fence::{PostgresFence, SqliteFence},
    lock::{
        Processes,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::SqliteLease,
    },
    schema,
};
use tenure_database::{
    Deadline,
    migrate::{self, Standing},
    postgres::PostgresUrl,
    sqlite,
};
use tenure_run::{Metrics, Nursery, Programs, Restart, Supervisor};

use crate::database::{self, CONNECT, PATIENCE};

/// The argument that makes this binary a keeper.
pub const KEEPER: &str = "keeper";
/// What is left of the margin for killing and proving, after the grace.
const KILLING: Duration = Duration::from_millis(500);

/// Which lock decides who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChoice {
    Lease,
    Advisory,
}

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
}

/// How fast a failover is, and what a child gets of that time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub lease: Duration,
    pub term_grace: Option<Duration>,
    pub takeover: Takeover,
}

impl Pace {
    fn grace(&self) -> Duration {
        self.term_grace.unwrap_or_else(|| (self.lease / 4).min(Duration::from_secs(2)))
    }

    /// The child is asked, made to end and proven dead inside the margin.
    pub fn timing(&self, lock: LockChoice) -> Result<Timing> {
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
            LockChoice::Lease => Timing::lease(lease),
            LockChoice::Advisory => Timing::heartbeat(lease / 4, lease - margin)
                .on_deadline(OnDeadline::EndTerm)
                .on_failed_renew(OnFailedRenew::RideOut),
        };
        let builder = builder.margin(margin).renew_interval(lease / 4).takeover(self.takeover);
        builder.drain_grace(Duration::ZERO).build().context("--lease")
    }
}

impl Run {
    /// Runs until the program has ended and is not to be run again; the code to exit with.
    pub async fn run(self) -> Result<u8> {
        let timing = self.pace.timing(self.lock)?;
        let holder = self.node_id.clone().unwrap_or_else(HolderId::fresh);
        let candidate = Candidate::new(self.scope.clone(), holder);
        let keeper = ["/proc/self/exe", KEEPER].map(OsString::from).to_vec();
        let nursery = Nursery::new(keeper).context("cannot inherit orphans")?;
        let builder = self.builder(&candidate, timing, nursery.processes()).await?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, self.scope.as_str(), timing.margin());
        let programs = Programs {
            leader: self.leader,
            standby: self.standby,
            grace: self.pace.grace(),
            in_front: isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|front| front == getpgrp()),
        };
        let supervisor =
            Supervisor::start(builder, &candidate, nursery, programs, self.restart, metrics)?;
        Ok(supervisor.run().await?)
    }

    async fn builder(
        &self,
        candidate: &Candidate,
        timing: Timing,
        processes: &Processes,
    ) -> Result<Builder> {
        let candidate = candidate.clone();
        match (&self.db, self.lock) {
            (DatabaseUrl::Sqlite(data), LockChoice::Lease) => {
                prepare_file(data)?;
                let lock = SqliteLease::new(data, candidate.clone(), timing)?;
                let fence = SqliteFence::new(data, timing)?;
                Ok(Election::builder(candidate, timing, lock).fence(fence))
            }
            (DatabaseUrl::Sqlite(_), LockChoice::Advisory) => {
                bail!("--lock advisory needs Postgres (--db postgres://…)")
            }
            (DatabaseUrl::Postgres(url), LockChoice::Lease) => {
                prepare_server(url).await?;
                let table = LeaseTable::default();
                let place = (**url).clone();
                let lock = PostgresLease::new(place.clone(), table, candidate.clone(), timing)?;
                let fence = PostgresFence::new(place, timing);
                Ok(Election::builder(candidate, timing, lock).fence(fence))
            }
            (DatabaseUrl::Postgres(url), LockChoice::Advisory) => {
                prepare_server(url).await?;
                let place = (**url).clone();
                let settings = AdvisorySettings {
                    processes: Some(processes.clone()),
                    ..AdvisorySettings::at(place.clone())
                };
                let lock = PostgresAdvisory::new(settings, candidate.clone(), timing)?;
                let fence = PostgresFence::new(place, timing);
                Ok(Election::builder(candidate, timing, lock).fence(fence))
            }
        }
    }
}

fn prepare_file(data: &Path) -> Result<()> {
    let mut file = sqlite::open(data, PATIENCE)?;
    migrate::sqlite::migrate(&mut file, schema::COMPONENT, &schema::SQLITE)?;
    Ok(())
}

/// Migrates where the role may; otherwise the schema must be there.
async fn prepare_server(url: &PostgresUrl) -> Result<()> {
    let mut session = url.connect(Deadline::after(CONNECT)).await?;
    let (component, known) = (schema::COMPONENT, &schema::POSTGRES);
    let standing = migrate::postgres::standing(&session, component, known).await?;
    database::warn_when_ahead(&standing);
    if matches!(standing, Standing::Behind(_)) {
        let migrated = migrate::postgres::migrate(&mut session, component, known).await;
        migrated.map_err(anyhow::Error::from).map_err(|error| {
            match database::lacks_rights(&error) {
                true => error.context("the schema is missing and this role may not make it: run `tenure migrate` as the owner"),
                false => error,
            }
        })?;
    }
    Ok(())
}
