//! The agent of a node that does not lead.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure::{
    Epoch, Scope, Term,
    election::Handle,
    fence::{Fence, FenceError, Raised},
    lock::LockPlace,
};
use tenure_database::DatabaseError;
use tenure_run::{Nursery, Program, Standby};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How long it may take to prove that nothing of the agent lives.
const BOUND: Duration = Duration::from_secs(5);

/// An agent that works while its node has no term. Without one this does nothing.
#[derive(Clone)]
pub struct Moonlighting {
    agent: Option<Standby>,
    /// Whoever starts or ends the agent: a start that comes late must not come after an end.
    turn: Arc<Mutex<()>>,
}

impl Moonlighting {
    /// Starts it, if there is one.
    #[must_use]
    pub fn start(nursery: &Nursery, program: Option<Program>) -> Self {
        let agent = program.map(|program| Standby::start(nursery.clone(), program));
        Self { agent, turn: Arc::default() }
    }

    /// A fence that is raised only when the agent is dead.
    #[must_use]
    pub fn before(&self, fence: Box<dyn Fence>) -> impl Fence + use<> {
        AgentFirst { agent: self.clone(), fence }
    }

    /// Kills it with all that it runs; returns when nothing of it lives.
    async fn kill(&self) {
        let _turn = self.turn.lock().await;
        if let Some(agent) = &self.agent {
            agent.kill().await;
        }
    }

    /// Lets it finish what it runs.
    pub(crate) async fn stop(&self) {
        let _turn = self.turn.lock().await;
        if let Some(agent) = &self.agent {
            agent.pause().await;
        }
    }

    /// Starts it whenever the node has given its term back, until `stop`.
    pub(crate) async fn follow(self, election: Handle, stop: CancellationToken) {
        let mut leadership = election.leadership();
        while let Some(Ok(())) = stop.run_until_cancelled(leadership.changed()).await {
            let _turn = self.turn.lock().await;
            let has_term = leadership.borrow_and_update().has_term;
            if let (false, Some(agent)) = (has_term || stop.is_cancelled(), &self.agent) {
                agent.resume();
            }
        }
    }
}

/// Raises the fence when the agent is dead.
struct AgentFirst {
    agent: Moonlighting,
    fence: Box<dyn Fence>,
}

#[async_trait]
impl Fence for AgentFirst {
    async fn raise(&self, term: &Term, lock: &LockPlace) -> Result<Raised, FenceError> {
        tokio::select! {
            () = self.agent.kill() => {}
            () = tokio::time::sleep(BOUND) => {
                tracing::error!(target: "tenure", "agent_cannot_be_ended");
                return Err(DatabaseError::TimedOut { within: BOUND }.into());
            }
        }
        self.fence.raise(term, lock).await
    }

    async fn rehearse(&self) {
        self.fence.rehearse().await;
    }

    async fn end_term(&self, term: &Term, reason: &str) -> Result<(), FenceError> {
        self.fence.end_term(term, reason).await
    }

    async fn drained_up_to(&self, scope: &Scope) -> Result<Epoch, FenceError> {
        self.fence.drained_up_to(scope).await
    }
}
