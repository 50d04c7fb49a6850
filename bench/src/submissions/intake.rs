//! POST /v1/intents over 256 connections: beside one INSERT per request, and beside a bare grouped INSERT.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio_postgres::Client;

use super::{
    postgres,
    served::{Kind, Served},
    targets, wrk,
};
use crate::figures::{beside, heading, median};

const CONNECTIONS: usize = 256;
const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_secs(4);

pub async fn run() -> Result<()> {
    heading(&format!(
        "submissions, intake: POST /v1/intents a second, {CONNECTIONS} connections of wrk, fsync on, median of \
         {ROUNDS} rounds in turn"
    ));
    let (postgres, client) = postgres().await?;
    // Somebody else leads: nothing is executed meanwhile.
    let lead = "INSERT INTO submission_manager_leases
                VALUES ('submission-manager-executor', 'bench', 1, now(), now(), now() + interval '1 day')";
    client.execute(lead, &[]).await?;
    let folder = tempfile::tempdir()?;
    let registry = folder.path().join("targets.json");
    std::fs::write(&registry, targets("http://127.0.0.1:1"))?;
    let (mut ours, mut single, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(measure(None, round, &postgres, &client, &registry).await?);
        single.push(measure(Some(Kind::Single), round, &postgres, &client, &registry).await?);
        bare.push(measure(Some(Kind::Bare), round, &postgres, &client, &registry).await?);
    }
    let ours = median(&mut ours);
    beside("ours, at least 3 times", ours, "one INSERT per request", median(&mut single), "/s");
    beside("ours, at least 0.7 of", ours, "a bare grouped INSERT", median(&mut bare), "/s");
    Ok(())
}

async fn measure(
    kind: Option<Kind>,
    round: usize,
    postgres: &Postgres,
    client: &Client,
    registry: &Path,
) -> Result<f64> {
    client.batch_execute("TRUNCATE submission_intents; CHECKPOINT").await?;
    let served = match kind {
        None => Served::ours(postgres, registry, &[])?,
        Some(kind) => Served::other(kind, postgres, registry)?,
    };
    let address = served.url.strip_prefix("http://").context("a URL")?;
    eventually_true("it listens", secs(20), async || {
        tokio::net::TcpStream::connect(address).await.is_ok()
    })
    .await;
    let url = format!("{}/v1/intents", served.url);
    wrk::rate(&url, &format!("w{round}"), CONNECTIONS, secs(1)).await?;
    let rate = wrk::rate(&url, &format!("r{round}"), CONNECTIONS, SLICE).await?;
    println!("    {:<44} {rate:>10.0} /s", format!("{kind:?}"));
    Ok(rate)
}
