//! A leader that is drained with jobs in flight: from the release of its lock to the next leader's first job.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use reqwest::StatusCode;
use tenure::BootInstant;
use tenure_testkit::{millis, postgres::Postgres, secs};
use tokio::time::sleep;
use tokio_postgres::{Client, Statement};

use super::{
    Server,
    agent::{Agent, Lease},
    controller::Controller,
};
use crate::{
    failover::{KEY as BARE_KEY, wait_for_a_waiter},
    figures::{beside, heading, ms, percentile, spread},
};

const TRIALS: usize = 20;
const AGENTS: usize = 16;
/// The controller's own key.
const KEY: i64 = 915_707_001;
const LIMIT_MS: f64 = 100.0;
/// Between two looks; each moment is off by no more than that and an answer, to our disadvantage.
const LOOK: Duration = millis(1);
const DEADLINE: Duration = secs(30);
const HOLDER: &str = "SELECT pid FROM pg_locks
     WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32) | objid::bigint = $1";

pub async fn run() -> Result<()> {
    heading(&format!(
        "jobs, handover: drained with {AGENTS} jobs in flight, {TRIALS} trials; until the next leader takes a job"
    ));
    let server = Server::start().await?;
    server.admin.batch_execute("CREATE TABLE bare (trial bigint)").await?;
    let mut pair = Pair::start(&server).await?;
    let (mut released, mut reported, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for trial in 0..TRIALS {
        // In turn, so that both see the same machine.
        bare.push(bare_trial(&server).await?);
        let took = pair.trial(&server, trial).await?;
        released.push(took.from_release);
        reported.push(took.from_last_report);
    }
    // Beside those in flight there is what the next leaders took, which nobody has leased.
    let taken = server.count("tenure_jobs WHERE op = 'probe' AND state = 'queued'").await?;
    ensure!(taken == TRIALS as i64, "{taken} jobs of the next leaders");
    server.ensure_all_succeeded((AGENTS * TRIALS) as i64).await?;
    println!("  {:<30} {}", "from the release of the lock", spread(&mut released));
    println!("  {:<30} {}", "from the last recorded result", spread(&mut reported));
    println!("  {:<30} {}", "bare lock and INSERT", spread(&mut bare));
    let (p50, worst) = (percentile(&mut released, 0.5), percentile(&mut released, 1.0));
    beside("p50", p50, "bare lock and INSERT", percentile(&mut bare, 0.5), "ms");
    beside("worst", worst, "limit", LIMIT_MS, "ms");
    Ok(())
}

/// A leader, and the one that is next; they change places in every trial.
struct Pair {
    leader: Arc<Controller>,
    next: Arc<Controller>,
    agents: Vec<Agent>,
}

/// Milliseconds until the next leader has taken a job.
struct Took {
    from_release: f64,
    from_last_report: f64,
}

impl Pair {
    async fn start(server: &Server) -> Result<Self> {
        let leader = Arc::new(Controller::start(server, &[])?);
        leader.leads().await;
        let next = Arc::new(Controller::start(server, &[])?);
        let agents = (0..AGENTS).map(|number| Agent::new(format!("agent-{number}")));
        let agents = agents.collect::<Result<_>>()?;
        Ok(Self { leader, next, agents })
    }

    async fn trial(&mut self, server: &Server, trial: usize) -> Result<Took> {
        wait_for_a_waiter(&server.admin, KEY).await;
        let leases = try_join_all(
            self.agents
                .iter()
                .enumerate()
                .map(|(place, agent)| self.in_flight(agent, trial, place)),
        )
        .await?;
        let watch = Watch::begin(server.postgres.connect().await?).await?;
        let released = tokio::spawn(watch.released());
        let taken = tokio::spawn(taken(Arc::clone(&self.next), trial));
        self.leader.drain().await?;
        self.leader.becomes("DRAINING").await;
        let reports = self.agents.iter().zip(&leases);
        try_join_all(reports.map(|(agent, lease)| agent.report(&self.leader, lease))).await?;
        let last_report = BootInstant::now();
        let (taken, released) = (taken.await??, released.await??);
        let role = self.leader.role().await?;
        ensure!(role == "STANDBY", "the next one leads, and the last one is {role}");
        self.leader.end_drain().await?;
        std::mem::swap(&mut self.leader, &mut self.next);
        Ok(Took {
            from_release: ms(taken.since(released)),
            from_last_report: ms(taken.since(last_report)),
        })
    }

    /// A job of its own for an agent.
    async fn in_flight(&self, agent: &Agent, trial: usize, place: usize) -> Result<Lease> {
        let status = agent.submit(&self.leader, "bench", &format!("{trial}-{place}")).await?;
        ensure!(status == StatusCode::OK, "POST /v1/jobs: {status}");
        let lease = agent.lease(&self.leader, 1, secs(10)).await?;
        lease.context("no job for an agent")
    }
}

/// Watches who has the lock.
struct Watch {
    client: Client,
    look: Statement,
    holder: Option<i32>,
}

impl Watch {
    /// From before the drain: a handover may be over before a task has begun.
    async fn begin(client: Client) -> Result<Self> {
        let look = client.prepare(HOLDER).await?;
        let mut watch = Self { client, look, holder: None };
        watch.holder = watch.holder_now().await?;
        ensure!(watch.holder.is_some(), "nobody has the lock");
        Ok(watch)
    }

    async fn holder_now(&self) -> Result<Option<i32>> {
        Ok(self.client.query_opt(&self.look, &[&KEY]).await?.map(|row| row.get(0)))
    }

    /// The last moment at which the lock may still have been where it was.
    async fn released(self) -> Result<BootInstant> {
        let mut held = BootInstant::now();
        let until = held + DEADLINE;
        while held < until {
            let asked = BootInstant::now();
            if self.holder_now().await? != self.holder {
                return Ok(held);
            }
            held = asked;
            sleep(LOOK).await;
        }
        bail!("the lock was not released within {DEADLINE:?}")
    }
}

/// When the next leader has taken a job.
async fn taken(next: Arc<Controller>, trial: usize) -> Result<BootInstant> {
    let (client, job_id) = (Agent::new("client")?, format!("probe-{trial}"));
    let until = BootInstant::now() + DEADLINE;
    while BootInstant::now() < until {
        match client.submit(&next, "probe", &job_id).await? {
            StatusCode::OK => return Ok(BootInstant::now()),
            StatusCode::CONFLICT => sleep(LOOK).await,
            other => bail!("POST /v1/jobs: {other}"),
        }
    }
    bail!("the next one took no job within {DEADLINE:?}")
}

/// What any two sessions need for it: one gives the lock away, the other gets it and writes a row.
async fn bare_trial(server: &Server) -> Result<f64> {
    let (holder, waiter) = (locked(&server.postgres).await?, server.postgres.connect().await?);
    let insert = waiter.prepare("INSERT INTO bare VALUES ($1)").await?;
    let waiting = tokio::spawn(async move {
        waiter.execute("SELECT pg_advisory_lock($1)", &[&BARE_KEY]).await?;
        waiter.execute(&insert, &[&1_i64]).await?;
        anyhow::Ok(BootInstant::now())
    });
    wait_for_a_waiter(&server.admin, BARE_KEY).await;
    let released = BootInstant::now();
    holder.execute("SELECT pg_advisory_unlock($1)", &[&BARE_KEY]).await?;
    Ok(ms(waiting.await??.since(released)))
}

async fn locked(postgres: &Postgres) -> Result<Client> {
    let client = postgres.connect().await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&BARE_KEY]).await?;
    Ok(client)
}
