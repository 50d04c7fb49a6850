//! Enqueuing, claiming and completing beside ten million attempts of earlier years.

use anyhow::{Result, ensure};
use tenure_database::BootInstant;
use tenure_outbox::{
    rail::Outcome,
    store::{Completion, Lease},
};

use super::{Server, instructions};
use crate::figures::{beside, heading, median, ms};

const ATTEMPTS: i64 = 10_000_000;
const CHUNK: i64 = 500_000;
const ROUNDS: usize = 200;
const BATCH: usize = 100;
/// Instructions that were done at their first attempt, in the order of years.
const FILL: &str =
    "INSERT INTO payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id,
        sequence_id, idempotency_key, rail_type, payload, attempt_no, state, completed_at)
    SELECT uuidv7(), uuidv7(), 'old-' || md5(n::text), 'p' || n % 100, n, 'k-' || n, 'bench',
        '{\"amount\": 1}', 1, 'DISPATCHED', now() - interval '3 years' + n * interval '9 seconds'
    FROM generate_series($1::bigint, $2::bigint) AS n";

pub async fn run() -> Result<()> {
    heading(&format!(
        "outbox, beside {ATTEMPTS} attempts: batches of {BATCH}, median of {ROUNDS}, at most 1.5 times as long"
    ));
    let server = Server::start().await?;
    let fresh = measured(&server, 0).await?;
    for first in (1..=ATTEMPTS).step_by(CHUNK as usize) {
        server.admin.execute(FILL, &[&first, &(first + CHUNK - 1)]).await?;
    }
    server.admin.batch_execute("VACUUM ANALYZE payment_outbox_attempts").await?;
    server.admin.batch_execute("CHECKPOINT").await?;
    let later = measured(&server, 1_000_000).await?;
    for (what, (later, fresh)) in
        ["enqueue", "claim", "complete"].iter().zip(later.iter().zip(&fresh))
    {
        beside(what, *later, "beside none", *fresh, "ms");
    }
    Ok(())
}

/// Each step of a batch, in milliseconds.
async fn measured(server: &Server, first: usize) -> Result<[f64; 3]> {
    let (store, lease) = (server.store(), Lease::of(30));
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let rows = instructions(first + round * BATCH, BATCH)?;
        let began = BootInstant::now();
        store.enqueue(&rows).await?;
        let enqueued = BootInstant::now();
        let claims = store.claim(BATCH, "bench", &lease).await?;
        let claimed = BootInstant::now();
        ensure!(claims.len() == BATCH, "{} rows claimed", claims.len());
        let completions: Vec<_> = claims
            .into_iter()
            .map(|claim| Completion {
                claim,
                outcome: Outcome::dispatched(),
                latency: std::time::Duration::ZERO,
                retry_after: std::time::Duration::ZERO,
            })
            .collect();
        let telling = BootInstant::now();
        store.complete("bench", &completions).await?;
        let completed = BootInstant::now();
        samples[0].push(ms(enqueued.since(began)));
        samples[1].push(ms(claimed.since(enqueued)));
        samples[2].push(ms(completed.since(telling)));
    }
    Ok(samples.map(|mut samples| median(&mut samples)))
}
