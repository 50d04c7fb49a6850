//! How long a row waits whose worker was killed.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use tenure_database::BootInstant;
use tenure_testkit::{eventually, secs};
use tokio::process::Command;

use super::{RAIL, Server, instructions};
use crate::figures::{heading, ms, spread};

const TRIALS: usize = 5;
/// The first worker's rail never answers; that of the second answers at once.
const QUICK: &str = "type = \"noop\"\n";

pub async fn run() -> Result<()> {
    heading(&format!(
        "outbox, kill -9 of a worker with a lease of 2 s, {TRIALS} times: at most 3,500 ms"
    ));
    let server = Server::start().await?;
    let mut samples = Vec::new();
    for _ in 0..TRIALS {
        samples.push(ms(trial(&server).await?));
    }
    println!("  until another worker has worked its row: {}", spread(&mut samples));
    Ok(())
}

async fn trial(server: &Server) -> Result<Duration> {
    server.empty().await?;
    let folder = tempfile::tempdir()?;
    let start = |rail: &str| -> Result<tokio::process::Child> {
        let rails = folder.path().join("rails.toml");
        fs::write(&rails, format!("[rails.{RAIL}]\n{rail}"))?;
        let tenure = std::env::current_exe()?.with_file_name("tenure");
        Command::new(tenure)
            .args(["--db", &server.postgres.url(), "outbox", "work", "--lease", "2", "--rails"])
            .arg(rails)
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("the binary tenure must be built beside this one")
    };
    server.store().enqueue(&instructions(0, 1)?).await?;
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let stuck = format!("type = \"http\"\nurl = \"http://{}/\"\n", silent.local_addr()?);
    let mut first = start(&stuck)?;
    eventually("it is claimed", secs(10), async || {
        let leased = server.count("payment_outbox_pending WHERE claimed_by IS NOT NULL").await;
        (leased.ok()? == 1).then_some(())
    })
    .await;
    let mut second = start(QUICK)?;
    eventually("both workers are there", secs(10), async || {
        let sessions = server.count("pg_stat_activity WHERE query LIKE '%LISTEN symphony_outbox%' AND pid <> pg_backend_pid()").await;
        (sessions.ok()? >= 2).then_some(())
    })
    .await;
    let killed = BootInstant::now();
    first.kill().await?;
    eventually("the row is worked again", secs(30), async || {
        (server.count("payment_outbox_attempts WHERE state = 'DISPATCHED'").await.ok()? == 1)
            .then_some(())
    })
    .await;
    let took = BootInstant::now().since(killed);
    let lost = server.count("payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'").await?;
    anyhow::ensure!(lost == 1, "{lost} lost attempts on record instead of 1");
    second.kill().await?;
    Ok(took)
}
