//! An election: its lock, and the fence in the database that holds the data.

use std::path::Path;

use anyhow::{Result, bail};
use tenure::{
    AdvisoryEnvironment, Candidate, DatabaseUrl, Election, Timing,
    election::Builder,
    fence::{Fence, PostgresFence, SqlServerFence, SqliteFence},
    lock::{
        Processes,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::SqliteLease,
        sqlserver_lease::{self, SqlServerLease},
    },
};
use tenure_database::{postgres::PostgresUrl, sqlserver::SqlServerUrl};

/// Which lock decides who leads.
#[derive(Clone, Debug)]
pub enum LockChoice {
    Lease,
    Advisory(Box<AdvisoryEnvironment>),
    /// The members of the cluster.
    Etcd(Vec<String>),
}

impl LockChoice {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Advisory(_) => "advisory",
            Self::Etcd(_) => "etcd",
        }
    }
}

/// Who contends, and how.
pub struct Contender<'r> {
    pub db: &'r DatabaseUrl,
    pub lock: &'r LockChoice,
    pub candidate: Candidate,
    pub timing: Timing,
    /// Who acts in its terms, where a successor may rely on seeing them gone.
    pub processes: Option<&'r Processes>,
}

impl Contender<'_> {
    /// Everything ready to be started; the schema must be there.
    pub fn builder(self) -> Result<Builder> {
        let fence = self.fence()?;
        Ok(self.unfenced()?.fence(fence))
    }

    /// The fence in the database that holds the data.
    pub fn fence(&self) -> Result<Box<dyn Fence>> {
        Ok(match self.db {
            DatabaseUrl::Sqlite(data) => Box::new(SqliteFence::new(data, self.timing)?),
            DatabaseUrl::Postgres(url) => {
                Box::new(PostgresFence::new((**url).clone(), self.timing))
            }
            DatabaseUrl::SqlServer(url) => {
                Box::new(SqlServerFence::new((**url).clone(), self.timing))
            }
        })
    }

    /// The same as [`Contender::builder`], for whoever brings a fence.
    pub fn unfenced(self) -> Result<Builder> {
        match self.db {
            DatabaseUrl::Sqlite(data) => self.on_file(data),
            DatabaseUrl::Postgres(url) => self.on_server(url),
            DatabaseUrl::SqlServer(url) => self.on_sqlserver(url),
        }
    }

    fn on_file(self, data: &Path) -> Result<Builder> {
        let Self { candidate, timing, lock, .. } = self;
        match lock {
            LockChoice::Lease => {
                let lock = SqliteLease::new(data, candidate.clone(), timing)?;
                Ok(Election::builder(candidate, timing, lock))
            }
            LockChoice::Advisory(_) => bail!("--lock advisory needs Postgres (--db postgres://…)"),
            LockChoice::Etcd(endpoints) => etcd(endpoints, candidate, timing),
        }
    }

    fn on_sqlserver(self, url: &SqlServerUrl) -> Result<Builder> {
        let Self { candidate, timing, lock, .. } = self;
        match lock {
            LockChoice::Lease => {
                let table = sqlserver_lease::LeaseTable::default();
                let lock = SqlServerLease::new(url.clone(), table, candidate.clone(), timing)?;
                Ok(Election::builder(candidate, timing, lock))
            }
            LockChoice::Advisory(_) => bail!("--lock advisory needs Postgres (--db postgres://…)"),
            LockChoice::Etcd(endpoints) => etcd(endpoints, candidate, timing),
        }
    }

    fn on_server(self, url: &PostgresUrl) -> Result<Builder> {
        let Self { candidate, timing, lock, processes, .. } = self;
        match lock {
            LockChoice::Lease => {
                let table = LeaseTable::default();
                let lock = PostgresLease::new(url.clone(), table, candidate.clone(), timing)?;
                Ok(Election::builder(candidate, timing, lock))
            }
            LockChoice::Advisory(environment) => {
                advisory(environment, url, processes, candidate, timing)
            }
            LockChoice::Etcd(endpoints) => etcd(endpoints, candidate, timing),
        }
    }
}

fn advisory(
    environment: &AdvisoryEnvironment,
    url: &PostgresUrl,
    processes: Option<&Processes>,
    candidate: Candidate,
    timing: Timing,
) -> Result<Builder> {
    let settings =
        AdvisorySettings { processes: processes.cloned(), ..environment.lock(Some(url))? };
    let lock = PostgresAdvisory::new(settings, candidate.clone(), timing)?;
    // Whoever starts a command asks for it to contend, unless it is told not to.
    let enabled = environment.enabled.unwrap_or(true);
    let builder = Election::builder(candidate, timing, lock).enabled(enabled);
    Ok(match environment.stale_after {
        Some(age) => builder.warn_when_stale(age),
        None => builder,
    })
}

#[cfg(feature = "etcd")]
fn etcd(endpoints: &[String], candidate: Candidate, timing: Timing) -> Result<Builder> {
    use tenure::lock::etcd::{EtcdLock, EtcdSettings};
    let lock = EtcdLock::new(EtcdSettings::at(endpoints.to_vec()), candidate.clone(), timing)?;
    Ok(Election::builder(candidate, timing, lock))
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &[String], _: Candidate, _: Timing) -> Result<Builder> {
    bail!("this tenure was built without etcd: build it with `cargo build --features etcd`")
}
