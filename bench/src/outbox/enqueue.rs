//! Enqueuing: in batches beside a bare INSERT … SELECT into the same table, and one by one by many callers.

use anyhow::Result;
use tenure_database::BootInstant;
use tokio_postgres::types::Json;

use super::{BATCH, PARTICIPANTS, ROWS, Server, costs::Costs, fill, instructions};
use crate::figures::{beside, heading, median};

const ROUNDS: usize = 5;
const CALLERS: usize = 16;
/// How many each caller enqueues.
const EACH: usize = 1_000;

pub async fn run() -> Result<()> {
    heading(&format!(
        "outbox, enqueue: {ROWS} rows of about 200 bytes in batches of {BATCH} over {PARTICIPANTS} participants, \
         median of {ROUNDS} rounds in turn"
    ));
    let server = Server::start().await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        server.empty().await?;
        bare.push(insert(&server).await?);
        server.empty().await?;
        ours.push(enqueue(&server).await?);
    }
    let ours = median(&mut ours);
    beside("at least 30,000 and 0.45 of", ours, "a bare INSERT … SELECT", median(&mut bare), "/s");
    one_by_one(&server).await
}

async fn enqueue(server: &Server) -> Result<f64> {
    let costs = Costs::now(&server.admin).await?;
    let began = BootInstant::now();
    fill(&server.store(), ROWS).await?;
    let rate = ROWS as f64 / BootInstant::now().since(began).as_secs_f64();
    println!("    {:<44} {rate:>10.0} /s", "enqueue_payment_outbox_batch");
    costs.print(&server.admin, ROWS).await?;
    Ok(rate)
}

/// The same rows, with numbers that nobody has to find.
async fn insert(server: &Server) -> Result<f64> {
    let insert = "INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id,
                      idempotency_key, rail_type, payload)
                  SELECT uuidv7(), i, p, s, k, r, b
                  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::jsonb[])
                      AS u(i, p, s, k, r, b)";
    let client = server.postgres.connect().await?;
    let insert = client.prepare(insert).await?;
    let began = BootInstant::now();
    for first in (0..ROWS).step_by(BATCH) {
        let rows = instructions(first, BATCH)?;
        let numbers: Vec<_> = (first..first + BATCH).map(|number| number as i64).collect();
        let payloads: Vec<_> = rows.iter().map(|row| Json(&row.payload)).collect();
        let instructions: Vec<_> = rows.iter().map(|row| &row.instruction_id).collect();
        let participants: Vec<_> = rows.iter().map(|row| &row.participant_id).collect();
        let keys: Vec<_> = rows.iter().map(|row| &row.idempotency_key).collect();
        let rails: Vec<_> = rows.iter().map(|row| &row.rail_type).collect();
        client
            .execute(&insert, &[&instructions, &participants, &numbers, &keys, &rails, &payloads])
            .await?;
    }
    let rate = ROWS as f64 / BootInstant::now().since(began).as_secs_f64();
    println!("    {:<44} {rate:>10.0} /s", "a bare INSERT … SELECT");
    Ok(rate)
}

async fn one_by_one(server: &Server) -> Result<()> {
    heading(&format!("outbox, enqueue one by one: {CALLERS} callers, {EACH} each"));
    server.empty().await?;
    let ours = calls(server, "SELECT * FROM enqueue_payment_outbox($1, $2, $3, $4, $5)").await?;
    server.empty().await?;
    let bare = "INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id,
                    idempotency_key, rail_type, payload)
                VALUES (uuidv7(), $1, $2, (random() * 9e18)::bigint, $3, $4, $5)";
    let bare = calls(server, bare).await?;
    beside("at least 2,500", ours, "a bare INSERT", bare, "/s");
    Ok(())
}

async fn calls(server: &Server, sql: &'static str) -> Result<f64> {
    let mut callers = tokio::task::JoinSet::new();
    let began = BootInstant::now();
    for caller in 0..CALLERS {
        let client = server.postgres.connect().await?;
        callers.spawn(async move {
            let sql = client.prepare(sql).await?;
            for row in instructions(caller * EACH, EACH)? {
                let payload = Json(&row.payload);
                let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [
                    &row.instruction_id,
                    &row.participant_id,
                    &row.idempotency_key,
                    &row.rail_type,
                    &payload,
                ];
                client.query(&sql, &parameters).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok((CALLERS * EACH) as f64 / BootInstant::now().since(began).as_secs_f64())
}
