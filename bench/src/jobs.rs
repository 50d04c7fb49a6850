//! The controller: what it hands out and records, what agents that wait cost, and how it hands over. All on Postgres
//! with full durability, over HTTP as agents speak it.

mod agent;
mod bare;
mod batch;
mod controller;
mod handover;
mod poll;
mod single;
mod waiting;
mod work;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure_database::migrate;
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio_postgres::Client;

use self::controller::Controller;

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    Batch,
    Single,
    Poll,
    Waiting,
    Handover,
}

pub async fn run(only: Option<Part>) -> Result<()> {
    let is_wanted = |part| only.is_none_or(|only| only == part);
    if is_wanted(Part::Batch) {
        batch::run().await?;
    }
    if is_wanted(Part::Single) {
        single::run().await?;
    }
    if is_wanted(Part::Poll) {
        poll::run().await?;
    }
    if is_wanted(Part::Waiting) {
        waiting::run().await?;
    }
    if is_wanted(Part::Handover) {
        handover::run().await?;
    }
    Ok(())
}

/// Beyond what any answer here may take.
const PATIENCE: Duration = Duration::from_secs(150);

/// The role of a controller whose statements are counted, and that of its session with the lock.
const COUNTED: &str = "controller";
const ELECTOR: &str = "elector";

const DURABLE: [(&str, &str); 4] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "8GB"),
];

/// A server that writes to disk as in production, with the schema.
struct Server {
    postgres: Postgres,
    admin: Client,
}

impl Server {
    async fn start() -> Result<Self> {
        Self::with(&DURABLE).await
    }

    /// One that counts statements.
    async fn counting() -> Result<Self> {
        let counts = [("shared_preload_libraries", "pg_stat_statements")];
        let server = Self::with(&[&DURABLE[..], &counts].concat()).await?;
        let roles = format!(
            "CREATE EXTENSION pg_stat_statements;
             CREATE ROLE {COUNTED} LOGIN SUPERUSER; CREATE ROLE {ELECTOR} LOGIN SUPERUSER"
        );
        server.admin.batch_execute(&roles).await?;
        Ok(server)
    }

    async fn with(settings: &[(&str, &str)]) -> Result<Self> {
        let postgres = Postgres::with(settings).await?;
        let mut admin = postgres.connect().await?;
        let (engine, known) = (tenure::schema::COMPONENT, &tenure::schema::POSTGRES);
        migrate::postgres::migrate(&mut admin, engine, known).await?;
        let (ours, known) = (tenure_jobs::schema::COMPONENT, &tenure_jobs::schema::POSTGRES);
        migrate::postgres::migrate(&mut admin, ours, known).await?;
        Ok(Self { postgres, admin })
    }

    /// So many jobs are queued, in rows 1 and up, and there is nothing else. Nobody may lead meanwhile.
    async fn fill(&self, jobs: i64) -> Result<()> {
        let empty =
            "TRUNCATE tenure_jobs, tenure_job_leases, tenure_job_results, tenure_job_agents,
                         tenure_job_events RESTART IDENTITY";
        self.admin.batch_execute(empty).await?;
        let fill = "INSERT INTO tenure_jobs (namespace, job_id, op, payload, content_hash, priority, leader_epoch,
                        created_at)
                    SELECT 'default', 'job-' || n, 'bench', '{\"number\": ' || n || '}',
                        sha256(convert_to(n::text, 'UTF8')), 1, 0, clock_timestamp()
                    FROM generate_series(1, $1::bigint) AS n";
        self.admin.execute(fill, &[&jobs]).await?;
        self.admin.batch_execute("VACUUM ANALYZE tenure_jobs").await?;
        Ok(self.admin.batch_execute("CHECKPOINT").await?)
    }

    async fn count(&self, from: &str) -> Result<i64> {
        let row = self.admin.query_one(&format!("SELECT count(*) FROM {from}"), &[]).await?;
        Ok(row.get(0))
    }

    /// Every job has succeeded, in its first epoch, and has one result. The key of the results allows no second.
    async fn ensure_all_succeeded(&self, jobs: i64) -> Result<()> {
        let done = "tenure_jobs AS j JOIN tenure_job_results AS r USING (row_number)
                    WHERE j.state = 'succeeded' AND r.status = 'succeeded' AND j.job_epoch = 1 AND r.job_epoch = 1";
        let (done, results) = (self.count(done).await?, self.count("tenure_job_results").await?);
        ensure!(
            (done, results) == (jobs, jobs),
            "{done} jobs succeeded and {results} have results, of {jobs}"
        );
        Ok(())
    }

    /// The controller's start is over: it has written its first round, and sends nothing but its regular looks.
    async fn settled(&self, controller: &Controller) {
        let rest = "SELECT NOT EXISTS (
                        SELECT FROM pg_stat_activity
                        WHERE usename = $1 AND state_change > clock_timestamp() - interval '300 ms')";
        eventually_true("the controller is at rest", secs(30), async || {
            let rounds = controller.metric("tenure_jobs_rounds_total").await;
            rounds.is_ok_and(|rounds| rounds >= 1.0)
                && self.admin.query_one(rest, &[&COUNTED]).await.is_ok_and(|row| row.get(0))
        })
        .await;
    }

    /// What the counted role has sent.
    async fn statements(&self) -> Result<i64> {
        let sent = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
                    WHERE userid = $1::text::regrole AND toplevel";
        Ok(self.admin.query_one(sent, &[&COUNTED]).await.context("statements")?.get(0))
    }
}
