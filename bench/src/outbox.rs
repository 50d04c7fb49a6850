//! The payment outbox: what it takes in, claims and works off, on a server with full durability.

mod claim;
mod costs;
mod drain;
mod enqueue;
mod killed;
mod snapshot;
mod years;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::value::RawValue;
use tenure_database::postgres::PostgresUrl;
use tenure_outbox::{install, instruction::Instruction, store::Store};
use tenure_testkit::postgres::Postgres;
use tokio_postgres::Client;

/// How many rows are enqueued and worked off.
const ROWS: usize = 100_000;
/// How many are enqueued in one transaction.
const BATCH: usize = 1_000;
const PARTICIPANTS: usize = 100;
/// What a payload is filled up to, so that a row has about 200 bytes of it.
const FILLING: usize = 150;
const RAIL: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(30);

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    Enqueue,
    Drain,
    Snapshot,
    Claim,
    Kill,
    Years,
}

pub async fn run(only: Option<Part>) -> Result<()> {
    let is_wanted = |part| only.is_none_or(|only| only == part);
    if is_wanted(Part::Enqueue) {
        enqueue::run().await?;
    }
    if is_wanted(Part::Drain) {
        drain::run().await?;
    }
    if is_wanted(Part::Snapshot) {
        snapshot::run().await?;
    }
    if is_wanted(Part::Claim) {
        claim::run().await?;
    }
    if is_wanted(Part::Kill) {
        killed::run().await?;
    }
    if is_wanted(Part::Years) {
        years::run().await?;
    }
    Ok(())
}

/// A server that writes to disk as in production, with an outbox.
struct Server {
    postgres: Postgres,
    admin: Client,
    url: PostgresUrl,
}

impl Server {
    async fn start() -> Result<Self> {
        let settings = [
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("shared_buffers", "1GB"),
            ("max_wal_size", "8GB"),
        ];
        let postgres = Postgres::with(&settings).await?;
        let admin = postgres.connect().await?;
        install::install(&admin).await?;
        let url = postgres.url().parse()?;
        Ok(Self { postgres, admin, url })
    }

    fn store(&self) -> Store {
        Store::new(&self.url, PATIENCE)
    }

    /// As after an installation; attempts are append-only for everybody, so their table is made anew.
    async fn empty(&self) -> Result<()> {
        let empty = "TRUNCATE payment_outbox_pending, participant_outbox_sequences;
                     DROP TABLE payment_outbox_attempts CASCADE";
        self.admin.batch_execute(empty).await?;
        install::install(&self.admin).await?;
        self.admin.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    async fn count(&self, from: &str) -> Result<i64> {
        let row = self.admin.query_one(&format!("SELECT count(*) FROM {from}"), &[]).await?;
        Ok(row.get(0))
    }
}

/// So many instructions, numbered from `first` on.
fn instructions(first: usize, count: usize) -> Result<Vec<Instruction>> {
    let filling = "x".repeat(FILLING);
    let instruction = |number: usize| {
        let payload = format!(r#"{{"amount": {number}, "currency": "EUR", "text": "{filling}"}}"#);
        Ok(Instruction {
            instruction_id: format!(
                "instruction-{:08x}",
                number.wrapping_mul(2_654_435_761) as u32
            ),
            participant_id: format!(
                "participant-{}",
                (number.wrapping_mul(2_654_435_761) >> 12) % PARTICIPANTS
            ),
            idempotency_key: format!("key-{number}"),
            rail_type: RAIL.to_owned(),
            payload: RawValue::from_string(payload).context("a payload")?,
        })
    };
    (first..first + count).map(instruction).collect()
}

/// Enqueues so many, a batch after the other.
async fn fill(store: &Store, count: usize) -> Result<()> {
    for first in (0..count).step_by(BATCH) {
        store.enqueue(&instructions(first, BATCH.min(count - first))?).await?;
    }
    Ok(())
}
