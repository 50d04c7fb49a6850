//! Agents that take 64 jobs at once.

use anyhow::Result;

use super::{Server, bare::Ending, work::Work};
use crate::figures::{beside, heading, median};

const WORK: Work = Work { jobs: 100_000, agents: 4, most: 64 };
const ROUNDS: usize = 3;

pub async fn run() -> Result<()> {
    let Work { jobs, agents, most } = WORK;
    heading(&format!(
        "jobs, batch: {jobs} jobs (queued by SQL before the controller starts) leased and reported {most} at a time by \
         {agents} agents, fsync on, median of {ROUNDS} rounds in turn"
    ));
    let server = Server::start().await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(WORK.through_bare_sql(&server, Ending::Recorded).await?);
        ours.push(WORK.through_the_controller(&server).await?);
    }
    let limit = "bare UPDATE, then UPDATE and INSERT";
    beside("at least 10,000", median(&mut ours), limit, median(&mut bare), "/s");
    Ok(())
}
