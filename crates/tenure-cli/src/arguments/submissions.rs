//! `tenure submissions`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tenure::{DatabaseUrl, HolderId, OnFailedRenew, Scope, Timing};
use tenure_http::{Address, Token};
use tenure_submissions::{instance::Behaviour, registry::Registry, store::OneShot};

use super::duration;
use crate::{shown::Http, submissions::Submissions};

#[derive(Debug, Args)]
pub(super) struct TypedSubmissions {
    /// The targets: a JSON file
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// Where to serve: PORT on loopback, or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    http: Address,
    /// A file with the token that callers of /v1 and /ui must bring
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve other machines without a token
    #[arg(long, conflicts_with = "token_file")]
    allow_unauthenticated: bool,
    /// How long a leader that falls silent keeps the others waiting
    #[arg(long, value_name = "TIME", env = "SM_LEASE_DURATION", default_value = "60s", value_parser = duration)]
    lease_duration: Duration,
    /// How often the leader renews its lease
    #[arg(long, value_name = "TIME", env = "SM_RENEW_INTERVAL", default_value = "20s", value_parser = duration)]
    renew_interval: Duration,
    /// The longest pause between two looks at the lease
    #[arg(long, value_name = "TIME", env = "SM_ACQUIRE_INTERVAL", default_value = "30s", value_parser = duration)]
    acquire_interval: Duration,
    /// How often the leader looks for intents that others have stored, told or not
    #[arg(
        long,
        value_name = "TIME",
        env = "SM_SCHEDULE_REFRESH_INTERVAL",
        default_value = "1s",
        value_parser = duration
    )]
    schedule_refresh_interval: Duration,
    /// How often the leader compares its schedule with all that is pending (the metric
    /// submission_reconciled_total counts what it finds, and stays 0)
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    reconcile_interval: Duration,
    /// The name of the lease; instances with the same name and database share the work
    #[arg(
        long,
        value_name = "NAME",
        env = "SM_LEASE_NAME",
        default_value = "submission-manager-executor"
    )]
    lease_name: String,
    /// The name of this instance [default: host, process and chance]
    #[arg(long, value_name = "ID", env = "SM_HOLDER_ID")]
    holder_id: Option<String>,
    /// How many attempts at once; 1 executes one after the other
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// How long a gateway may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    gateway_timeout: Duration,
    /// How long recording an outcome may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    record_within: Duration,
    /// How long after an attempt the next one is due
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    retry_after: Duration,
    /// What becomes of a one_shot intent that a leader began and did not live to record: tried again under the
    /// same Idempotency-Key, or given up, its outcome unknown
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = TypedOneShot::Repeat)]
    one_shot: TypedOneShot,
    /// End when the standard input ends, as with a parent that is gone
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedOneShot {
    Repeat,
    GiveUp,
}

impl TypedSubmissions {
    pub(super) fn meaning(self, db: DatabaseUrl) -> Result<Submissions> {
        let (lease, renew) = (self.lease_duration, self.renew_interval);
        if renew >= lease {
            bail!(
                "renew interval {renew:?} must be below the lease of {lease:?} (--renew-interval, \
                 --lease-duration)"
            );
        }
        let timing = Timing::lease(lease)
            .renew_interval(renew)
            .acquire_interval(self.acquire_interval)
            .on_failed_renew(OnFailedRenew::EndTerm)
            .drain_grace(self.gateway_timeout + self.record_within)
            .build()
            .context("--lease-duration, --renew-interval")?;
        let behaviour = Behaviour {
            concurrency: self.concurrency.into(),
            refresh_interval: self.schedule_refresh_interval,
            reconcile_interval: self.reconcile_interval,
            retry_after: self.retry_after.try_into().context("--retry-after")?,
            gateway_timeout: self.gateway_timeout,
            record_within: self.record_within,
            one_shot: match self.one_shot {
                TypedOneShot::Repeat => OneShot::Repeat,
                TypedOneShot::GiveUp => OneShot::GiveUp,
            },
            ..Behaviour::default()
        };
        behaviour.check(&timing).context("--gateway-timeout, --lease-duration")?;
        for (name, interval) in [
            ("--schedule-refresh-interval", self.schedule_refresh_interval),
            ("--reconcile-interval", self.reconcile_interval),
        ] {
            if interval.is_zero() {
                bail!("{name} must be above 0");
            }
        }
        let token = self.token_file.as_deref().map(Token::read).transpose()?;
        at_most(64, &self.lease_name).context("--lease-name (SM_LEASE_NAME)")?;
        at_most(128, self.holder_id.as_deref().unwrap_or_default())
            .context("--holder-id (SM_HOLDER_ID)")?;
        Ok(Submissions {
            db,
            registry: Registry::read(&self.registry).context("--registry")?,
            http: Http { address: self.http, token },
            allow_unauthenticated: self.allow_unauthenticated,
            lease_name: Scope::new(self.lease_name).context("--lease-name (SM_LEASE_NAME)")?,
            holder_id: self
                .holder_id
                .map(HolderId::new)
                .transpose()
                .context("--holder-id (SM_HOLDER_ID)")?,
            timing,
            behaviour,
            end_with_stdin: self.end_with_stdin,
        })
    }
}

/// As many characters as the lease's column has.
fn at_most(most: usize, text: &str) -> Result<()> {
    let count = text.chars().count();
    if count > most {
        bail!("it has {count} characters, and may have {most} at most");
    }
    Ok(())
}
