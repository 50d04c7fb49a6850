//! What an idle follower costs the database.

use std::time::Duration;

use anyhow::Result;
use tenure::{Epoch, schema};
use tenure_database::migrate;
use tenure_testkit::{
    node::{LockChoice, Node, NodeSettings},
    postgres::Postgres,
    secs,
};

use crate::figures::{beside, heading};

const LIMIT: f64 = 0.5;
const WATCHED: Duration = Duration::from_secs(60);

pub async fn run() -> Result<()> {
    heading("idle: statements a second that one follower sends, over 60 s (default timings)");
    let preload = [("shared_preload_libraries", "pg_stat_statements")];
    for (name, lock, timing_ms) in [
        ("lease row, lease of 10 s", LockChoice::PostgresLease, 10_000),
        ("advisory lock, heartbeat of 3 s", LockChoice::PostgresAdvisory, 6_000),
    ] {
        let postgres = Postgres::with(&preload).await?;
        let mut client = postgres.connect().await?;
        migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await?;
        client
            .batch_execute(
                "CREATE EXTENSION pg_stat_statements; CREATE ROLE leader LOGIN SUPERUSER;
                 CREATE ROLE follower LOGIN SUPERUSER",
            )
            .await?;
        let settings = |role: &str| NodeSettings {
            lease_ms: timing_ms,
            ..NodeSettings::new(&postgres.url_as(role, "postgres"), lock, role)
        };
        let program = std::env::current_exe()?;
        let leader = Node::start(&program, &settings("leader"))?;
        leader.leads_after(Epoch::ZERO, secs(20)).await;
        let _follower = Node::start(&program, &settings("follower"))?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = statements(&client).await?;
        tokio::time::sleep(WATCHED).await;
        let sent = (statements(&client).await? - before) as f64 / WATCHED.as_secs_f64();
        beside(name, sent, "limit", LIMIT, "/s");
    }
    Ok(())
}

/// What the follower has sent. A wait for a lock that ended without it is not among the calls, but among
/// the transactions that were rolled back, of which there are no others.
async fn statements(client: &tokio_postgres::Client) -> Result<i64> {
    let sent = "SELECT (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
                        WHERE userid = 'follower'::regrole AND toplevel)::bigint
                     + (SELECT sum(xact_rollback) FROM pg_stat_database)::bigint";
    Ok(client.query_one(sent, &[]).await?.get(0))
}
