//! Agents that take one job at a time.

use anyhow::Result;

use super::{Server, bare::Ending, work::Work};
use crate::figures::{beside, heading, median};

const WORK: Work = Work { jobs: 20_000, agents: 32, most: 1 };
const ROUNDS: usize = 3;

pub async fn run() -> Result<()> {
    let Work { jobs, agents, .. } = WORK;
    heading(&format!(
        "jobs, single: {jobs} jobs (queued by SQL before the controller starts) leased and reported one at a time by \
         {agents} agents, fsync on, median of {ROUNDS} rounds in turn"
    ));
    let server = Server::start().await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(WORK.through_bare_sql(&server, Ending::Updated).await?);
        ours.push(WORK.through_the_controller(&server).await?);
    }
    let limit = "two bare UPDATEs on as many connections";
    beside("at least 2,500", median(&mut ours), limit, median(&mut bare), "/s");
    Ok(())
}
