//! Which lock decides who leads, for those whose usual one depends on the database.

use std::{env, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use tenure::{AdvisoryEnvironment, DatabaseUrl, Timing, timing::TimingBuilder};

use super::duration;
use crate::contend::LockChoice;

/// The key of the controller's advisory lock, unless `LEADER_LOCK_KEY` says otherwise.
const KEY: i64 = 915_707_001;

#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum TypedLock {
    Lease,
    Advisory,
    Etcd,
}

/// How to contend for being the controller that leads.
#[derive(Clone, Debug, Args)]
pub struct TypedContest {
    /// What decides who leads [default: advisory on Postgres, lease on SQLite]
    #[arg(long, value_enum)]
    pub lock: Option<TypedLock>,
    /// The members of the cluster, for --lock etcd
    #[arg(long, value_name = "ENDPOINTS", env = "TENURE_ETCD", value_delimiter = ',')]
    pub etcd: Vec<String>,
    /// How long a leader that falls silent keeps the others waiting
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub lease: Duration,
    /// How long agents may still report to a leader that hands over
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub drain_grace: Duration,
    /// The longest pause of a standby between two looks at a lease, in seconds
    #[arg(long, value_name = "SECONDS", env = "LEADER_POLL_S", default_value_t = 0.5)]
    pub leader_poll_s: f64,
}

impl TypedContest {
    pub fn meaning(self, db: &DatabaseUrl) -> Result<(LockChoice, Timing)> {
        let usual = match db {
            DatabaseUrl::Postgres(_) => TypedLock::Advisory,
            DatabaseUrl::Sqlite(_) => TypedLock::Lease,
            DatabaseUrl::SqlServer(_) => {
                bail!("jobs are kept in Postgres or SQLite: --db postgres://… or sqlite:FILE")
            }
        };
        let lock = match self.lock.unwrap_or(usual) {
            TypedLock::Lease => LockChoice::Lease,
            TypedLock::Advisory => {
                let mut environment = AdvisoryEnvironment::read()?;
                environment.key.get_or_insert(KEY);
                LockChoice::Advisory(Box::new(environment))
            }
            TypedLock::Etcd if self.etcd.is_empty() => {
                bail!("--lock etcd needs --etcd ENDPOINTS (or TENURE_ETCD), say localhost:2379")
            }
            TypedLock::Etcd => LockChoice::Etcd(self.etcd),
        };
        let poll =
            Duration::try_from_secs_f64(self.leader_poll_s).ok().filter(|poll| !poll.is_zero());
        let poll = poll.context("LEADER_POLL_S must be a number of seconds above 0")?;
        let timing = timing(&lock, self.lease)?.drain_grace(self.drain_grace);
        let timing = timing.acquire_interval(poll.min(self.lease)).build().context("--lease")?;
        Ok((lock, timing))
    }
}

/// The lease means the silence after which another may lead. The fence is behind whatever a controller does, so
/// nobody sits a predecessor out.
fn timing(lock: &LockChoice, lease: Duration) -> Result<TimingBuilder> {
    let interval = lease / 4;
    Ok(match lock {
        LockChoice::Lease | LockChoice::Etcd(_) => Timing::lease(lease).renew_interval(interval),
        LockChoice::Advisory(environment) => {
            let margin = Timing::lease(lease).build().context("--lease")?.margin();
            Timing::heartbeat(interval, lease - margin)
                .margin(margin)
                .backoff(environment.backoff)
                .on_deadline(tenure::OnDeadline::EndTerm)
                .on_failed_renew(tenure::OnFailedRenew::RideOut)
        }
    })
}

/// What the environment has instead of `--db`, for those who are started by it.
pub fn database_url() -> Option<String> {
    env::var("DATABASE_URL").ok().filter(|url| !url.is_empty())
}
