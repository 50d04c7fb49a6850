//! A thousand agents that wait and beat: the controller's memory, and what they cost the database.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;

use super::{Server, agent::Agent, controller::Controller};
use crate::figures::{beside, heading};

const AGENTS: usize = 1_000;
const WAIT: Duration = Duration::from_secs(60);
const BEAT: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(30);
const LIMIT_MB: f64 = 64.0;
/// Two connections for each agent, and whatever else is open.
const FILES: u64 = 2 * AGENTS as u64 + 1_000;

pub async fn run() -> Result<()> {
    heading(&format!(
        "jobs, waiting: {AGENTS} agents with an open long poll and a heartbeat every {} s, each over connections of \
         its own",
        BEAT.as_secs()
    ));
    allow_files()?;
    let server = Server::counting().await?;
    let controller = Arc::new(Controller::counted(&server)?);
    controller.leads().await;
    server.settled(&controller).await;
    let (idle, _) = memory(&controller)?;
    let mut agents = JoinSet::new();
    for number in 0..AGENTS {
        let agent = Arc::new(Agent::new(format!("agent-{number}"))?);
        agents.spawn(wait(Arc::clone(&agent), Arc::clone(&controller)));
        agents.spawn(beat(agent, Arc::clone(&controller), BEAT * number as u32 / AGENTS as u32));
    }
    controller.shows("tenure_jobs_polls_waiting", AGENTS).await;
    let rounds = controller.metric("tenure_jobs_rounds_total").await?;
    let sent = watch(&server, &mut agents).await?;
    let rounds = controller.metric("tenure_jobs_rounds_total").await? - rounds;
    let (resident, proportional) = memory(&controller)?;
    let alive = server.count("tenure_job_agents WHERE state = 'alive'").await?;
    ensure!(alive == AGENTS as i64, "{alive} agents are alive");
    controller.shows("tenure_jobs_polls_waiting", AGENTS).await;
    beside("resident", resident, "limit", LIMIT_MB, "MB");
    beside("proportional", proportional, "limit", LIMIT_MB, "MB");
    println!(
        "    {idle:.1} MB without agents: {:.1} KB for each",
        (resident - idle) * 1024.0 / AGENTS as f64
    );
    let intervals = WATCHED.as_secs_f64() / BEAT.as_secs_f64() * AGENTS as f64;
    beside("statements per agent and interval", sent as f64 / intervals, "limit", 1.0, "");
    println!("    in {:.2} transactions", rounds / intervals);
    // They hold the controller, which must end before its database.
    agents.shutdown().await;
    Ok(())
}

/// Statements while it is watched. No agent may end meanwhile: whatever ends one is wrong.
async fn watch(server: &Server, agents: &mut JoinSet<Result<()>>) -> Result<i64> {
    let before = server.statements().await?;
    tokio::select! {
        () = tokio::time::sleep(WATCHED) => {}
        Some(ended) = agents.join_next() => ended??,
    }
    Ok(server.statements().await? - before)
}

async fn wait(agent: Arc<Agent>, controller: Arc<Controller>) -> Result<()> {
    loop {
        ensure!(agent.lease(&controller, 1, WAIT).await?.is_none(), "a job came from nowhere");
    }
}

/// Agents beat at different moments, as those do that were started by hand.
async fn beat(agent: Arc<Agent>, controller: Arc<Controller>, first: Duration) -> Result<()> {
    let mut beats = tokio::time::interval_at(tokio::time::Instant::now() + first, BEAT);
    loop {
        beats.tick().await;
        agent.beat(&controller).await?;
    }
}

fn memory(controller: &Controller) -> Result<(f64, f64)> {
    Ok((controller.megabytes("Rss")?, controller.megabytes("Pss")?))
}

fn allow_files() -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    ensure!(maximum.is_none_or(|most| most >= FILES), "{FILES} open files are needed: ulimit -Hn");
    if current.is_some_and(|current| current < FILES) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum })?;
    }
    Ok(())
}
