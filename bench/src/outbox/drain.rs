//! Working off a full outbox with a rail that does nothing, beside a worker that goes row by row.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use prometheus_client::registry::Registry;
use tenure_database::BootInstant;
use tenure_outbox::{
    observe::Metrics,
    rail::{Noop, Rails},
    store::Lease,
    worker::{self, Settings},
};
use tenure_testkit::{eventually_true, secs};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{RAIL, ROWS, Server, costs::Costs, fill};
use crate::figures::{beside, heading, median};

const DRAINS: usize = 5;
/// How many rows the one goes through that goes row by row.
const FEW: usize = 2_000;

pub async fn run() -> Result<()> {
    heading(&format!(
        "outbox, drain: {ROWS} rows worked off by one worker with a rail that does nothing, {DRAINS} times"
    ));
    let server = Server::start().await?;
    let mut rates = Vec::new();
    for _ in 0..DRAINS {
        server.empty().await?;
        fill(&server.store(), ROWS).await?;
        rates.push(drain(&server, ROWS).await?);
    }
    let single = row_by_row(&server).await?;
    let (slowest, fastest) =
        (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
    beside("at least 20,000; median", median(&mut rates), "one worker row by row", single, "/s");
    beside("fastest, at most 1.5 times", fastest, "the slowest", slowest, "/s");
    Ok(())
}

/// Completions a second until nothing is pending.
pub async fn drain(server: &Server, rows: usize) -> Result<f64> {
    let costs = Costs::now(&server.admin).await?;
    let before = server.count("payment_outbox_attempts WHERE state = 'DISPATCHED'").await?;
    let settings = Settings {
        worker_id: "bench".to_owned(),
        lease: Lease::of(30),
        batch: 500,
        concurrency: 500,
        poll_interval: Duration::from_secs(1),
        repair_interval: Duration::from_secs(12),
        repair_batch: 100,
        grace: Duration::from_secs(30),
    };
    let rails = Rails::new(Duration::from_secs(30)).with(RAIL, Arc::new(Noop));
    let metrics = Metrics::register(&mut Registry::default());
    let stop = CancellationToken::new();
    let began = BootInstant::now();
    let worked = tokio::spawn({
        let (url, store, metrics, stop) =
            (server.url.clone(), server.store(), metrics.clone(), stop.clone());
        async move { worker::work(&url, store, rails, settings, metrics, &stop).await }
    });
    eventually_true("everything is recorded", secs(300), async || {
        metrics.count_of(tenure_outbox::rail::State::Dispatched) == rows as u64
    })
    .await;
    let rate = rows as f64 / BootInstant::now().since(began).as_secs_f64();
    stop.cancel();
    worked.await??;
    let done = server.count("payment_outbox_attempts WHERE state = 'DISPATCHED'").await? - before;
    ensure!(done == rows as i64, "{done} terminal attempts instead of {rows}");
    println!("    {:<44} {rate:>10.0} /s", "tenure outbox work");
    costs.print(&server.admin, rows).await?;
    Ok(rate)
}

/// What the seed's functions give when each row is claimed and completed by itself.
async fn row_by_row(server: &Server) -> Result<f64> {
    server.empty().await?;
    fill(&server.store(), FEW).await?;
    let client = server.postgres.connect().await?;
    let claim = "SELECT outbox_id, lease_token FROM claim_outbox_batch(1, 'single', 30)";
    let claim = client.prepare(claim).await?;
    let complete = "SELECT attempt_no FROM complete_outbox_attempt($1, $2, 'single', 'DISPATCHED')";
    let complete = client.prepare(complete).await?;
    let began = BootInstant::now();
    for _ in 0..FEW {
        let row = client.query_one(&claim, &[]).await?;
        let (id, token): (Uuid, Uuid) = (row.get(0), row.get(1));
        client.query_one(&complete, &[&id, &token]).await?;
    }
    Ok(FEW as f64 / BootInstant::now().since(began).as_secs_f64())
}
