//! Benchmarks. Each prints its figures beside a limit that is measured in the same run, and the ratio.

mod failover;
mod fence;
mod figures;
mod gate;
mod idle;
mod jobs;
mod outbox;
mod run;
mod submissions;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Prints each figure with the limit measured in the same run. Needs a quiet machine.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// What a check of the gate costs, beside one bare read of the clock.
    Gate,
    /// How long it takes from the end of a leader to the next one's open gate.
    Failover,
    /// What the fence costs a one-row write, beside the same write without it.
    Fence,
    /// How many statements an idle follower costs the database.
    Idle,
    /// What `tenure run` takes to fail over and to stop, and its memory; needs the binary `tenure` beside it.
    Run,
    /// What the submission manager takes in and executes, and how it keeps a million intents; needs the binary
    /// `tenure` beside it, and wrk.
    Submissions {
        /// Only one of its parts.
        #[arg(long)]
        only: Option<submissions::Part>,
    },
    /// What the payment outbox takes in, claims and works off; needs the binary `tenure` beside it.
    Outbox {
        /// Only one of its parts.
        #[arg(long)]
        only: Option<outbox::Part>,
    },
    /// What the controller hands out and records, what agents that wait cost, and how it hands over; needs the binary
    /// `tenure` beside it.
    Jobs {
        /// Only one of its parts.
        #[arg(long)]
        only: Option<jobs::Part>,
    },
    /// All of them.
    All,
    /// A contending process, for the others.
    #[command(hide = true)]
    Node { settings: String },
    /// A server to compare with, for the others.
    #[command(hide = true)]
    Serve { kind: submissions::Kind, url: String, registry: PathBuf },
    /// Weighs the schedule of a database, for the others.
    #[command(hide = true)]
    Weigh { url: String },
    /// A bare holder of an advisory lock, for the others.
    #[command(hide = true)]
    Holder { url: String },
    /// A bare waiter for an advisory lock that starts a process, for the others.
    #[command(hide = true)]
    Bare { url: String },
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    // Nodes are started with their settings as the only argument.
    if let Some(settings) = std::env::args().nth(1).filter(|first| first.starts_with('{')) {
        return tenure_testkit::node::serve(&settings).await;
    }
    match Arguments::parse().bench {
        Bench::Gate => gate::run().await?,
        Bench::Failover => failover::run().await?,
        Bench::Fence => fence::run().await?,
        Bench::Idle => idle::run().await?,
        Bench::Run => run::run().await?,
        Bench::Submissions { only } => submissions::run(only).await?,
        Bench::Outbox { only } => outbox::run(only).await?,
        Bench::Jobs { only } => jobs::run(only).await?,
        Bench::Serve { kind, url, registry } => submissions::serve(kind, &url, &registry).await?,
        Bench::Weigh { url } => submissions::weigh(&url).await?,
        Bench::All => {
            gate::run().await?;
            failover::run().await?;
            fence::run().await?;
            idle::run().await?;
            run::run().await?;
            submissions::run(None).await?;
            outbox::run(None).await?;
            jobs::run(None).await?;
        }
        Bench::Node { settings } => return tenure_testkit::node::serve(&settings).await,
        Bench::Bare { url } => run::wait_and_start(&url).await?,
        Bench::Holder { url } => failover::hold(&url).await?,
    }
    Ok(ExitCode::SUCCESS)
}
