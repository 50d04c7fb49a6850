//! What an idle copy takes, with its keeper.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use tenure_run::family;
use tenure_testkit::{eventually_true, postgres::Postgres, secs};

use super::copy::Copy;
use crate::figures::heading;

const LIMIT_MB: f64 = 15.0;

pub async fn run(postgres: &Postgres) -> Result<()> {
    heading("tenure run, idle: memory of a copy that stands by, and of its keeper");
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite:{}", folder.path().join("bench.db").display());
    let server = postgres.url();
    for (name, db, lock, http) in [
        ("SQLite lease", &file, "lease", &[][..]),
        ("Postgres lease", &server, "lease", &[]),
        ("Postgres advisory", &server, "advisory", &[]),
        ("Postgres lease, --http", &server, "lease", &["--http", "0"]),
    ] {
        let options = ["--db", db, "run", "--scope", name, "--lock", lock, "--lease", "10s"];
        let options = [&options[..], http].concat();
        let leader = Copy::start(&options, "echo leads; exec sleep 1000")?;
        leader.lines.next(secs(20))?;
        let idle = Copy::start(&options, "echo leads; exec sleep 1000")?;
        // Past its first looks at the lock.
        tokio::time::sleep(secs(3)).await;
        eventually_true("it has a keeper", secs(10), async || keeper(&idle).is_some()).await;
        let keeper = keeper(&idle).context("a keeper")?;
        let (own, its) = (megabytes(idle.pid(), "Rss")?, megabytes(keeper, "Rss")?);
        let shared = megabytes(idle.pid(), "Pss")? + megabytes(keeper, "Pss")?;
        let both = own + its;
        println!(
            "  {name:<24} resident {own:.1} + {its:.1} = {both:.1} MB, limit {LIMIT_MB:.0} MB, ratio {:.2}; \
             proportional {shared:.1} MB",
            both / LIMIT_MB
        );
    }
    Ok(())
}

fn keeper(copy: &Copy) -> Option<Pid> {
    let below = family::descendants(copy.pid(), &Default::default()).ok()?;
    below.first().map(|one| one.pid)
}

fn megabytes(pid: Pid, what: &str) -> Result<f64> {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_pid()))?;
    let line = rollup.lines().find(|line| line.starts_with(&format!("{what}:")));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).context("a size")?;
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}
