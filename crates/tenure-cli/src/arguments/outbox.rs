//! `tenure outbox …`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use tenure::DatabaseUrl;
use tenure_http::Address;
use tenure_outbox::{instruction::Instruction, rail::Rails, store::Lease, worker::Settings};

use super::{duration, help};
use crate::{
    outbox::{Enqueue, Outbox, PATIENCE, Source, What, Work, fresh_worker_id},
    shown::Http,
};

/// No database is given up on sooner.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(super) enum TypedOutbox {
    /// Install the tables, functions, roles and grants, or bring them up to date
    ///
    /// In one transaction, under a lock, so that several may run at once. It can be repeated at will, and takes
    /// over tables of an older make with their rows.
    #[command(after_help = help::OUTBOX_INSTALL)]
    Install {
        /// Print the SQL, and connect to nothing
        #[arg(long)]
        print: bool,
    },
    /// Enqueue instructions: one, or many from a file
    #[command(after_help = help::OUTBOX_ENQUEUE)]
    Enqueue(TypedEnqueue),
    /// Hand instructions to their rails, until told to stop
    #[command(after_help = help::OUTBOX_WORK)]
    Work(TypedWork),
    /// Take back leases that have expired, as workers do by themselves
    #[command(after_help = help::OUTBOX_REPAIR)]
    Repair {
        /// How many at once
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
        batch: u16,
    },
    /// Show what is pending, leased, done and failed
    #[command(after_help = help::OUTBOX_STATS)]
    Stats {
        /// Print JSON with the columns of the view supervisor_outbox_status
        #[arg(long)]
        json: bool,
    },
    /// Compare a live database with what it should be, and say what differs
    ///
    /// Functions, grants, columns, constraints, indexes, triggers and roles. It only reads, as any role.
    #[command(after_help = help::OUTBOX_DOCTOR)]
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct TypedEnqueue {
    /// A file with one JSON object per line; - is the standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["instruction_id", "participant_id", "idempotency_key", "rail_type", "payload"])]
    file: Option<PathBuf>,
    /// The payment
    #[arg(long, value_name = "ID", required_unless_present = "file")]
    instruction_id: Option<String>,
    /// Whose it is
    #[arg(long, value_name = "ID", required_unless_present = "file")]
    participant_id: Option<String>,
    /// What a rail tells a repeat by
    #[arg(long, value_name = "KEY", required_unless_present = "file")]
    idempotency_key: Option<String>,
    /// Which rail takes it
    #[arg(long, value_name = "TYPE", required_unless_present = "file")]
    rail_type: Option<String>,
    /// A JSON object
    #[arg(long, value_name = "JSON", required_unless_present = "file")]
    payload: Option<String>,
    /// How many are enqueued in one transaction
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
}

#[derive(Debug, Args)]
pub(super) struct TypedWork {
    /// The rails: a TOML file
    #[arg(long, value_name = "FILE")]
    rails: PathBuf,
    /// The name of this worker [default: host, process and chance]
    #[arg(long, value_name = "ID", env = "OUTBOX_WORKER_ID")]
    worker_id: Option<String>,
    /// How long the rows of a worker that died wait for another: whole seconds
    #[arg(long, value_name = "SECONDS", env = "OUTBOX_LEASE_SECONDS", default_value = "30", value_parser = seconds)]
    lease: u16,
    /// How many rows are claimed at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
    /// How many dispatches at once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,
    /// How long a rail may take that has no timeout of its own
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    dispatch_timeout: Duration,
    /// The longest pause between two looks for work, told of it or not
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    poll_interval: Duration,
    /// How many expired leases are taken back at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    repair_batch: u16,
    /// Serve health and metrics: PORT on loopback, or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    http: Option<Address>,
}

/// Whole seconds, with or without their unit.
fn seconds(typed: &str) -> Result<u16, String> {
    let wrong = || "write it in whole seconds, from 1 to 3600, like 30 or 30s".to_owned();
    let seconds: u16 = typed.strip_suffix('s').unwrap_or(typed).parse().map_err(|_| wrong())?;
    match seconds {
        1..=3600 => Ok(seconds),
        _ => Err(wrong()),
    }
}

impl TypedOutbox {
    pub(super) fn meaning(self, db: DatabaseUrl) -> Result<Outbox> {
        let what = match self {
            Self::Install { print: true } => What::Print,
            Self::Install { print: false } => What::Install,
            Self::Enqueue(typed) => What::Enqueue(typed.meaning()?),
            Self::Work(typed) => What::Work(Box::new(typed.meaning()?)),
            Self::Repair { batch } => What::Repair { batch: batch.into() },
            Self::Stats { json } => What::Stats { json },
            Self::Doctor { json } => What::Doctor { json },
        };
        let url = match db {
            DatabaseUrl::Postgres(url) => Some(*url),
            _ if matches!(what, What::Print) => None,
            DatabaseUrl::Sqlite(_) | DatabaseUrl::SqlServer(_) => {
                bail!(
                    "the outbox is in a Postgres database: --db postgres://USER@HOST/DATABASE (or TENURE_DB)"
                )
            }
        };
        Ok(Outbox { url, what })
    }
}

impl TypedEnqueue {
    fn meaning(self) -> Result<Enqueue> {
        let batch = self.batch.into();
        let one = (
            self.instruction_id,
            self.participant_id,
            self.idempotency_key,
            self.rail_type,
            self.payload,
        );
        let source = match (self.file, one) {
            (Some(path), _) => Source::File(path),
            (
                None,
                (
                    Some(instruction_id),
                    Some(participant_id),
                    Some(idempotency_key),
                    Some(rail_type),
                    Some(payload),
                ),
            ) => Source::One(Box::new(Instruction {
                instruction_id,
                participant_id,
                idempotency_key,
                rail_type,
                payload: RawValue::from_string(payload).context("--payload is no JSON")?,
            })),
            _ => bail!("give --file, or all of one instruction"),
        };
        Ok(Enqueue { source, batch })
    }
}

impl TypedWork {
    fn meaning(self) -> Result<Work> {
        let lease = Lease::of(self.lease);
        for (name, time) in
            [("--dispatch-timeout", self.dispatch_timeout), ("--poll-interval", self.poll_interval)]
        {
            if time.is_zero() {
                bail!("{name} must be above 0");
            }
        }
        let worker_id = self.worker_id.unwrap_or_else(fresh_worker_id);
        if worker_id.trim().is_empty() {
            bail!("--worker-id (OUTBOX_WORKER_ID) must not be blank");
        }
        let rails = Rails::read(&self.rails, self.dispatch_timeout).context("--rails")?;
        // A call that hangs must leave time for another before a lease is over.
        let patience = (lease.relied_on() / 3).clamp(LEAST_PATIENCE, PATIENCE);
        let grace = rails.longest_timeout() + patience;
        Ok(Work {
            rails,
            patience,
            settings: Settings {
                worker_id,
                lease,
                batch: self.batch.into(),
                concurrency: self.concurrency.into(),
                poll_interval: self.poll_interval,
                repair_interval: (lease.relied_on() / 2).max(Duration::from_secs(1)),
                repair_batch: self.repair_batch.into(),
                grace,
            },
            http: self.http.map(|address| Http { address, token: None }),
        })
    }
}
