//! Working off a full outbox while somebody holds a snapshot that keeps vacuum from cleaning up.

use anyhow::Result;

use super::{ROWS, Server, drain::drain, fill};
use crate::figures::{beside, heading, median};

const ROUNDS: usize = 3;
/// More than a minute's work.
const MANY: usize = 1_800_000;
const HOLD: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM payment_outbox_pending";

pub async fn run() -> Result<()> {
    heading(&format!(
        "outbox, drain beside an open snapshot: {ROWS} rows, median of {ROUNDS} rounds in turn"
    ));
    let server = Server::start().await?;
    let (mut held, mut free) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        free.push(drained(&server, ROWS, false).await?);
        held.push(drained(&server, ROWS, true).await?);
    }
    beside("at least 0.9 of", median(&mut held), "without it", median(&mut free), "/s");
    heading(&format!("outbox, drain of a minute beside an open snapshot: {MANY} rows"));
    let free = drained(&server, MANY, false).await?;
    let held = drained(&server, MANY, true).await?;
    beside("at least 0.9 of", held, "without it", free, "/s");
    Ok(())
}

async fn drained(server: &Server, rows: usize, is_held: bool) -> Result<f64> {
    server.empty().await?;
    fill(&server.store(), rows).await?;
    let holder = server.postgres.connect().await?;
    if is_held {
        holder.batch_execute(HOLD).await?;
    }
    drain(server, rows).await
}
