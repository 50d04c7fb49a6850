//! From due to durably accepted, against a gateway that answers at once: beside what the same HTTP client gets
//! from that gateway alone.

use std::{path::Path, time::Duration};

use anyhow::Result;
use futures_util::future::try_join_all;
use reqwest::Client as HttpClient;
use tenure::BootInstant;
use tenure_testkit::{eventually, secs};
use tokio_postgres::Client;

use super::{
    postgres,
    served::{Kind, Served},
    targets,
};
use crate::figures::{beside, heading, median};

const INTENTS: i64 = 100_000;
const ROUNDS: usize = 3;
/// As many calls at once as an instance makes unless told otherwise.
const AT_ONCE: usize = 256;
const SLICE: Duration = Duration::from_secs(4);
const PAYLOAD: &str = r#"{"to":"+4917000000","text":"Your code is 123456"}"#;

pub async fn run() -> Result<()> {
    heading(&format!(
        "submissions, execution: intents a second from due to durably accepted, {INTENTS} of them, fsync on, \
         median of {ROUNDS} rounds in turn"
    ));
    let (postgres, client) = postgres().await?;
    let gateway = Served::other(Kind::Gateway, &postgres, Path::new("none"))?;
    let folder = tempfile::tempdir()?;
    let registry = folder.path().join("targets.json");
    std::fs::write(&registry, targets(&gateway.url))?;
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(client_alone(&gateway.url).await?);
        fill(&client, &gateway.url).await?;
        let served = Served::ours(
            &postgres,
            &registry,
            &["--lease-duration", "20s", "--renew-interval", "2s", "--gateway-timeout", "5s"],
        )?;
        ours.push(accepted(&client).await?);
        drop(served);
        // Whoever was killed has its lease no longer.
        client.execute("DELETE FROM submission_manager_leases", &[]).await?;
    }
    beside(
        "ours, at least 8000, and 0.25 of",
        median(&mut ours),
        "the client alone",
        median(&mut alone),
        "/s",
    );
    Ok(())
}

async fn client_alone(gateway: &str) -> Result<f64> {
    let client = HttpClient::new();
    let (url, until) = (format!("{gateway}/sms/send"), BootInstant::now() + SLICE);
    let calls = (0..AT_ONCE).map(|_| {
        let (client, url) = (client.clone(), url.clone());
        let calling = tokio::spawn(async move {
            let mut calls = 0_u64;
            while BootInstant::now() < until {
                let answer = client.post(&url).header("content-type", "application/json");
                answer.body(PAYLOAD).send().await?.error_for_status()?.bytes().await?;
                calls += 1;
            }
            Ok::<_, reqwest::Error>(calls)
        });
        async { Ok::<_, anyhow::Error>(calling.await??) }
    });
    let calls: u64 = try_join_all(calls).await?.iter().sum();
    Ok(calls as f64 / SLICE.as_secs_f64())
}

/// All due, as if they had been submitted.
async fn fill(client: &Client, gateway: &str) -> Result<()> {
    client.batch_execute("TRUNCATE submission_intents, submission_attempts").await?;
    let fill = "INSERT INTO submission_intents (
                    intent_id, submission_target, payload, payload_hash, gateway_type, gateway_url, policy,
                    max_attempts, terminal_outcomes, created_at, updated_at, last_modified_at,
                    next_attempt_at)
                SELECT 'intent-' || n, 'otp', convert_to($2, 'UTF8'), sha256(convert_to($2, 'UTF8')),
                    'sms', $3, 'max_attempts', 3, '[\"invalid_recipient\"]', now(), now(), now(), now()
                FROM generate_series(1, $1::bigint) AS n";
    client.execute(fill, &[&INTENTS, &PAYLOAD, &gateway]).await?;
    client.batch_execute("VACUUM ANALYZE submission_intents").await?;
    Ok(client.batch_execute("CHECKPOINT").await?)
}

/// The rate between the first and the last that was recorded.
async fn accepted(client: &Client) -> Result<f64> {
    eventually("all are accepted", secs(120), async || {
        let left = "SELECT EXISTS (SELECT FROM submission_intents WHERE status = 'pending')";
        let row = client.query_one(left, &[]).await.ok()?;
        (!row.get::<_, bool>(0)).then_some(())
    })
    .await;
    let took = "SELECT extract(epoch FROM
                        (SELECT max(completed_at) FROM submission_intents)
                        - (SELECT min(started_at) FROM submission_attempts))::float8,
                    (SELECT count(*) FROM submission_intents WHERE status = 'accepted')";
    let row = client.query_one(took, &[]).await?;
    let (seconds, count): (f64, i64) = (row.get(0), row.get(1));
    anyhow::ensure!(count == INTENTS, "{count} accepted");
    println!("    {:<44} {:>10.0} /s", "ours", INTENTS as f64 / seconds);
    Ok(INTENTS as f64 / seconds)
}
