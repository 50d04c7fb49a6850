//! A million pending intents: how long until the schedule is ready, what it weighs, and what a refresh costs.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, pin_mut};
use tenure::BootInstant;
use tenure_submissions::{
    schedule::{Change, Gathered, Schedule},
    store::{Position, Store, postgres::PostgresStore},
};
use tenure_testkit::{postgres::Postgres, secs};
use tokio_postgres::Client;

use super::postgres;
use crate::figures::{beside, heading, median, ms, percentile, spread};

const INTENTS: i64 = 1_000_000;
const ROUNDS: usize = 5;
const CHANGES: i64 = 100;
const REFRESHES: usize = 300;
const HELD_FOR: Duration = Duration::from_secs(60);
const COPY: &str = "COPY (SELECT row_number, version, next_attempt_at FROM submission_intents
                    WHERE status = 'pending') TO STDOUT (FORMAT binary)";

pub async fn run() -> Result<()> {
    let (postgres, client) = postgres().await?;
    fill(&client).await?;
    ready(&postgres, &client).await?;
    weight(&postgres)?;
    refreshes(&postgres, &client).await
}

async fn fill(client: &Client) -> Result<()> {
    let fill = "INSERT INTO submission_intents (
                    intent_id, submission_target, payload, payload_hash, gateway_type, gateway_url, policy,
                    max_attempts, terminal_outcomes, created_at, updated_at, last_modified_at,
                    next_attempt_at)
                SELECT 'intent-' || n, 'otp', '{}', sha256('{}'), 'sms', 'http://127.0.0.1:1',
                    'max_attempts', 3, '[\"invalid_recipient\"]', now(), now(), now(),
                    now() + random() * interval '1 day'
                FROM generate_series(1, $1::bigint) AS n";
    client.execute(fill, &[&INTENTS]).await?;
    client.batch_execute("VACUUM ANALYZE submission_intents").await?;
    Ok(client.batch_execute("CHECKPOINT").await?)
}

fn store(postgres: &Postgres) -> Result<PostgresStore> {
    Ok(PostgresStore::new(&postgres.url().parse()?, secs(30)))
}

/// What a new leader reads, and from then on has.
async fn rebuilt(store: &PostgresStore) -> Result<(Schedule, Position)> {
    let mut pending = Gathered::default();
    let position = store.pending(&mut |change| pending.add(change)).await?;
    Ok((pending.schedule(), position))
}

async fn ready(postgres: &Postgres, client: &Client) -> Result<()> {
    heading(&format!(
        "submissions, schedule of {INTENTS} pending intents: until it is ready, median of {ROUNDS} rounds in turn"
    ));
    let store = store(postgres)?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = BootInstant::now();
        let copied = client.copy_out(COPY).await?;
        pin_mut!(copied);
        let mut bytes = 0;
        while let Some(part) = copied.next().await {
            bytes += part?.len();
        }
        bare.push(ms(BootInstant::now().since(began)));
        ensure!(bytes > 30 * INTENTS as usize, "{bytes} bytes");
        let began = BootInstant::now();
        let (schedule, _) = rebuilt(&store).await?;
        ours.push(ms(BootInstant::now().since(began)));
        ensure!(schedule.len() == INTENTS as usize, "{} intents", schedule.len());
    }
    beside("ours, at most 1.6 times", median(&mut ours), "a binary COPY", median(&mut bare), "ms");
    Ok(())
}

/// In a process of its own, whose memory is nothing but the schedule's.
fn weight(postgres: &Postgres) -> Result<()> {
    heading("submissions, schedule: bytes of memory per intent (at most 100)");
    let weighed =
        Command::new(std::env::current_exe()?).args(["weigh", &postgres.url()]).output()?;
    ensure!(weighed.status.success(), "{weighed:?}");
    print!("{}", String::from_utf8_lossy(&weighed.stdout));
    Ok(())
}

/// Weighs a schedule, new and after as many random reschedules as it has intents.
pub async fn weigh(url: &str) -> Result<()> {
    let store = PostgresStore::new(&url.parse()?, secs(30));
    // What the driver and the runtime take is there before.
    store.now().await?;
    let before = resident()?;
    let (mut schedule, _) = rebuilt(&store).await?;
    let of_each = |now: u64| (now.saturating_sub(before)) as f64 / INTENTS as f64;
    println!("  {:<44} {:>10.1} bytes", "ready", of_each(resident()?));
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for version in 2..INTENTS + 2 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let row = 1 + (random % INTENTS.unsigned_abs()).cast_signed();
        let due = Some(1_800_000_000_000_000 + (random >> 20).cast_signed());
        schedule.apply(Change { row, version, due });
    }
    println!("  {:<44} {:>10.1} bytes", "after a million random reschedules", of_each(resident()?));
    ensure!(schedule.len() == INTENTS as usize);
    Ok(())
}

fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

async fn refreshes(postgres: &Postgres, client: &Client) -> Result<()> {
    heading(&format!(
        "submissions, a refresh that finds {CHANGES} changes among {INTENTS} pending intents"
    ));
    let store = store(postgres)?;
    let (_, position) = rebuilt(&store).await?;
    let mut times = Vec::new();
    let position =
        refresh_often(&store, client, position, &mut times, |trial| trial < REFRESHES).await?;
    println!("  {:<44} {} (p99 at most 10)", "alone", spread(&mut times));
    let other = postgres.connect().await?;
    other.batch_execute("BEGIN; SELECT pg_current_xact_id()").await?;
    let (began, mut held) = (BootInstant::now(), Vec::new());
    refresh_often(&store, client, position, &mut held, |_| {
        BootInstant::now().since(began) < HELD_FOR
    })
    .await?;
    other.batch_execute("COMMIT").await?;
    // Those of the last third saw it open for the longest.
    let late = held.len() * 2 / 3;
    println!(
        "  {:<44} {} (p99 at most 20)",
        "beside a transaction open for up to a minute",
        spread(&mut held[late..].to_vec())
    );
    println!(
        "  {:<44} {:>10.2}",
        "ratio (p99)",
        percentile(&mut held, 0.99) / percentile(&mut times, 0.99)
    );
    Ok(())
}

async fn refresh_often(
    store: &PostgresStore,
    client: &Client,
    mut position: Position,
    times: &mut Vec<f64>,
    goes_on: impl Fn(usize) -> bool,
) -> Result<Position> {
    let change = "UPDATE submission_intents
                  SET next_attempt_at = next_attempt_at + interval '1 second',
                      last_modified_at = clock_timestamp(), version = version + 1,
                      modified_xid = pg_current_xact_id()
                  WHERE row_number = ANY ($1)";
    let mut trial = 0;
    while goes_on(trial) {
        let first = (trial as i64 * 7_919) % (INTENTS - CHANGES * 97);
        let rows: Vec<i64> = (0..CHANGES).map(|at| 1 + first + at * 97).collect();
        client.execute(change, &[&rows]).await?;
        let began = BootInstant::now();
        let read = store.refresh(&position).await?;
        times.push(ms(BootInstant::now().since(began)));
        ensure!(read.changes.len() == CHANGES as usize, "{} changes", read.changes.len());
        position = read.position;
        trial += 1;
    }
    Ok(position)
}
