//! `tenure run`: from the end of a leader to the first line of the next child, and what it takes to stop one.

mod copy;
mod freeze;
mod memory;
mod stop_lag;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tenure::{BootInstant, Scope};
use tenure_database::{Deadline, postgres::PostgresUrl};
use tenure_testkit::{postgres::Postgres, secs};

use self::copy::{Copy, Lines};
use crate::{
    failover::{KEY, wait_for_a_waiter},
    figures::{heading, ms, percentile, spread},
};

const TRIALS: usize = 50;
/// What both sides start: a shell that writes a line, and stays.
const CHILD: &str = "echo $TENURE_EPOCH; exec sleep 1000";
/// Without a keeper nobody ends it, so it stays for as long as its input does.
const BARE_CHILD: &str = "echo 1; exec cat";

pub async fn run() -> Result<()> {
    let postgres = Postgres::start().await?;
    failover(&postgres).await?;
    stop_lag::run().await?;
    freeze::run().await?;
    memory::run(&postgres).await
}

/// Takes the lock, starts the child, and stays: what any waiter has to do.
pub async fn wait_and_start(url: &str) -> Result<()> {
    let url: PostgresUrl = url.parse()?;
    let session = url.connect(Deadline::after(secs(10))).await?;
    session.execute("SELECT pg_advisory_lock($1)", &[&KEY]).await?;
    let _child = Command::new("sh").args(["-c", BARE_CHILD]).stdin(Stdio::piped()).spawn()?;
    std::future::pending().await
}

/// A bare waiter as a process of its own; its child is killed with it.
struct Bare {
    process: Child,
    lines: Lines,
}

impl Bare {
    fn start(postgres: &Postgres) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["bare", &postgres.url()])
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = Lines::of(BufReader::new(process.stdout.take().context("output")?).lines());
        Ok(Self { process, lines })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.process);
        copy::kill_family(pid);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn bare_trial(postgres: &Postgres, signal: Signal) -> Result<f64> {
    let client = postgres.connect().await?;
    let holder = Bare::start(postgres)?;
    holder.lines.next(secs(20))?;
    let next = Bare::start(postgres)?;
    wait_for_a_waiter(&client, KEY).await;
    let ended = BootInstant::now();
    kill_process(Pid::from_child(&holder.process), signal)?;
    let (_, first_line) = next.lines.next(secs(20))?;
    Ok(ms(first_line.since(ended)))
}

async fn failover(postgres: &Postgres) -> Result<()> {
    heading(&format!(
        "tenure run, advisory lock: end of the leading supervisor to the next child's first line, {TRIALS} trials"
    ));
    let client = postgres.connect().await?;
    let key = Scope::new("bench")?.key();
    let options = ["--db", &postgres.url(), "run", "--lock", "advisory", "--scope", "bench"];
    for (name, signal) in [("kill -9", Signal::KILL), ("graceful stop", Signal::TERM)] {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let mut leader = Copy::start(&options, CHILD)?;
        leader.lines.next(secs(20))?;
        for _ in 0..TRIALS {
            // In turn, so that both see the same machine.
            bare.push(bare_trial(postgres, signal).await?);
            let follower = Copy::start(&options, CHILD)?;
            wait_for_a_waiter(&client, key).await;
            let ended = BootInstant::now();
            leader.signal(signal)?;
            let (_, first_line) = follower.lines.next(secs(20))?;
            ours.push(ms(first_line.since(ended)));
            leader = follower;
        }
        println!("  {name:<14} {}", spread(&mut ours));
        println!("  {:<14} {}", "bare and start", spread(&mut bare));
        let ratio = percentile(&mut ours, 0.99) / percentile(&mut bare, 0.99);
        println!("  {:<14} {ratio:.2} (p99; at most 3)", "ratio");
    }
    Ok(())
}
