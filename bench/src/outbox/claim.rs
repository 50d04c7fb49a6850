//! A claim of a hundred, however many rows there are that it must not take.

use anyhow::Result;
use tenure_database::BootInstant;
use tokio_postgres::Client;

use super::Server;
use crate::figures::{beside, heading, median, ms};

const CLAIMS: usize = 200;
const SMALL: i64 = 10_000;
const LARGE: i64 = 1_000_000;
const LEASED: i32 = 20_000;
/// Nine of ten are due in an hour.
const FILL: &str =
    "INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id,
        idempotency_key, rail_type, payload, next_attempt_at)
    SELECT uuidv7(), 'i' || n, 'p' || n % 100, n, 'k', 'bench', '{\"amount\": 1}',
        now() + CASE WHEN n % 10 = 0 THEN interval '-1 minute' ELSE interval '1 hour' END
            + n * interval '1 microsecond'
    FROM generate_series(1, $1::bigint) AS n";

pub async fn run() -> Result<()> {
    heading(&format!("outbox, a claim of 100, median of {CLAIMS}; 90 % of the rows are not due"));
    let server = Server::start().await?;
    let small = measured(&server, SMALL, 0).await?;
    let large = measured(&server, LARGE, 0).await?;
    let leased = measured(&server, LARGE, LEASED).await?;
    beside("1,000,000 pending, at most 2 times", large, "10,000 pending", small, "ms");
    beside("and 20,000 leased at the head, at most 2 times", leased, "none leased", large, "ms");
    Ok(())
}

/// Each claim is given back without a trace, so that all of them meet the same rows.
async fn measured(server: &Server, rows: i64, leased: i32) -> Result<f64> {
    server.empty().await?;
    server.admin.execute(FILL, &[&rows]).await?;
    let worker = server.postgres.connect().await?;
    if leased > 0 {
        // By somebody else: a session remembers what it has taken.
        claim(&server.postgres.connect().await?, leased).await?;
    }
    let mut samples = Vec::new();
    for _ in 0..CLAIMS {
        worker.batch_execute("BEGIN").await?;
        let began = BootInstant::now();
        let claimed = claim(&worker, 100).await?;
        samples.push(ms(BootInstant::now().since(began)));
        worker.batch_execute("ROLLBACK").await?;
        anyhow::ensure!(claimed == 100, "{claimed} rows claimed instead of 100");
    }
    let median = median(&mut samples);
    println!("    {rows:>9} pending, {leased:>6} leased {median:>30.2} ms");
    Ok(median)
}

async fn claim(client: &Client, count: i32) -> Result<i64> {
    let claim = "SELECT count(*) FROM claim_outbox_batch($1, 'bench', 600)";
    Ok(client.query_one(claim, &[&count]).await?.get(0))
}
