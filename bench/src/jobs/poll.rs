//! What agents that wait for a job cost the database: nothing.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::{Server, agent::Agent, controller::Controller};
use crate::figures::heading;

const AGENTS: usize = 100;
const WAIT: Duration = Duration::from_secs(30);
const WATCHED: Duration = Duration::from_secs(20);
/// The reaper looks every half second, and somebody looks for a drain: whether one more of their looks falls into the
/// window is chance.
const CHANCE: i64 = 2;

pub async fn run() -> Result<()> {
    heading(&format!(
        "jobs, poll: statements in {} s with {AGENTS} long polls open, and with none (without those of the lock)",
        WATCHED.as_secs()
    ));
    let server = Server::counting().await?;
    let controller = Arc::new(Controller::counted(&server)?);
    controller.leads().await;
    server.settled(&controller).await;
    let without = watched(&server).await?;
    let mut polls = JoinSet::new();
    for number in 0..AGENTS {
        let (agent, controller) = (Agent::new(format!("agent-{number}"))?, Arc::clone(&controller));
        polls.spawn(async move { agent.lease(&controller, 1, WAIT).await });
    }
    controller.shows("tenure_jobs_polls_waiting", AGENTS).await;
    let with = watched(&server).await?;
    controller.shows("tenure_jobs_polls_waiting", AGENTS).await;
    while let Some(poll) = polls.join_next().await {
        ensure!(poll??.is_none(), "a job came from nowhere");
    }
    println!(
        "  {AGENTS} long polls {with}, none {without}: difference {} (0, by chance up to {CHANCE} regular looks)",
        with - without
    );
    ensure!((with - without).abs() <= CHANCE, "long polls cost statements");
    Ok(())
}

async fn watched(server: &Server) -> Result<i64> {
    let before = server.statements().await?;
    tokio::time::sleep(WATCHED).await;
    Ok(server.statements().await? - before)
}
