//! Working off a full queue with agents that lease and report as fast as they are answered.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tenure::BootInstant;
use tenure_testkit::secs;
use tokio::task::JoinSet;

use super::{Server, agent::Agent, controller::Controller};
use crate::figures::{ms, spread};

/// How the work is divided.
#[derive(Clone, Copy)]
pub struct Work {
    pub jobs: i64,
    /// Agents, or connections of the limit.
    pub agents: usize,
    /// Jobs at once.
    pub most: usize,
}

/// What one agent saw.
#[derive(Default)]
struct Seen {
    jobs: usize,
    last: Option<BootInstant>,
    leases: Vec<f64>,
    reports: Vec<f64>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.last = self.last.max(other.last);
        self.leases.extend(other.leases);
        self.reports.extend(other.reports);
    }
}

impl Work {
    /// Jobs a second, from the first request to the last recorded result.
    pub async fn through_the_controller(self, server: &Server) -> Result<f64> {
        server.fill(self.jobs).await?;
        let controller = Arc::new(Controller::start(server, &[])?);
        controller.leads().await;
        controller.shows("tenure_jobs_queued", self.jobs as usize).await;
        let counted = Counted::now(&controller).await?;
        let began = BootInstant::now();
        let mut seen = self.all_agents(&controller).await?;
        let took = seen.last.context("no result")?.since(began);
        let rate = self.jobs as f64 / took.as_secs_f64();
        ensure!(seen.jobs as i64 == self.jobs, "{} results accepted of {}", seen.jobs, self.jobs);
        server.ensure_all_succeeded(self.jobs).await?;
        println!("    {:<44} {rate:>10.0} /s", "through the controller");
        println!("      a lease  {}", spread(&mut seen.leases));
        println!("      a report {}", spread(&mut seen.reports));
        counted.print(&controller).await?;
        Ok(rate)
    }

    async fn all_agents(self, controller: &Arc<Controller>) -> Result<Seen> {
        let mut working = JoinSet::new();
        for number in 0..self.agents {
            let agent = Agent::new(format!("agent-{number}"))?;
            working.spawn(work(agent, Arc::clone(controller), self.most));
        }
        let mut all = Seen::default();
        while let Some(seen) = working.join_next().await {
            all.add(seen??);
        }
        Ok(all)
    }
}

/// Until there is nothing for a second.
async fn work(agent: Agent, controller: Arc<Controller>, most: usize) -> Result<Seen> {
    let mut seen = Seen::default();
    loop {
        let asked = BootInstant::now();
        let Some(lease) = agent.lease(&controller, most, secs(1)).await? else { return Ok(seen) };
        let leased = BootInstant::now();
        agent.report(&controller, &lease).await?;
        let reported = BootInstant::now();
        seen.jobs += lease.len();
        seen.last = Some(reported);
        seen.leases.push(ms(leased.since(asked)));
        seen.reports.push(ms(reported.since(leased)));
    }
}

/// Where the controller's counters stood.
struct Counted {
    requests: f64,
    rounds: f64,
}

impl Counted {
    async fn now(controller: &Controller) -> Result<Self> {
        Ok(Self {
            requests: controller.metric("tenure_jobs_requests_total").await?,
            rounds: controller.metric("tenure_jobs_rounds_total").await?,
        })
    }

    async fn print(&self, controller: &Controller) -> Result<()> {
        let now = Self::now(controller).await?;
        let (requests, rounds) = (now.requests - self.requests, now.rounds - self.rounds);
        println!(
            "      {requests} requests in {rounds} transactions: {:.1} shared one",
            requests / rounds
        );
        Ok(())
    }
}
