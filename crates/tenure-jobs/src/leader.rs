//! What the leader does in its term: one clerk, to whom every change comes, writes them down round by round.
//!
//! ```text
//! requests ──► desk ──► clerk ──► one transaction at a time ──► answers
//!                         │ ▲
//!                  queue ◄┘ └── who waits for a job
//! ```
//!
//! Whoever asks while a round is being written is in the next one; nobody waits for a timer. An agent that finds
//! nothing waits here, in memory: jobs come only through this desk, so nothing has to be asked of the database until
//! there is one.

mod clerk;
mod desk;
mod gathering;
mod inherited;
mod reaper;
mod waiting;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use tenure::{
    Term,
    election::{Handle, Tenure, Work, WorkError},
};

use self::clerk::Clerk;
pub use self::desk::{Desk, LeaseAsked, Leased, Refusal};
use crate::{observe::Metrics, store::Store};

/// What a new leader says of itself.
#[derive(Clone, Debug, Default)]
pub struct Takeover {
    /// Where it is reached.
    pub leader_url: Option<String>,
    /// The agent of its own node, which is dead: what it had is queued again.
    pub dead_agent: Option<String>,
}

/// How the leader behaves.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often to look for what has run out.
    pub reap_every: Duration,
    /// How many agents may wait at once.
    pub most_waiting: usize,
    /// How long leases that ran out while nobody led still count.
    pub takeover_window: Duration,
    /// How long agents have to be heard by a new leader.
    pub hearing: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            reap_every: Duration::from_millis(500),
            most_waiting: 10_000,
            takeover_window: Duration::from_secs(10),
            hearing: Duration::from_secs(15),
        }
    }
}

/// The work of the controller's terms.
#[derive(Clone)]
pub struct Leader {
    store: Arc<dyn Store>,
    takeover: Takeover,
    pace: Pace,
    metrics: Metrics,
    desk: Desk,
    election: Arc<OnceLock<Handle>>,
}

impl Leader {
    /// A leader that does not lead yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, takeover: Takeover, pace: Pace, metrics: Metrics) -> Self {
        let (desk, election) = (Desk::default(), Arc::default());
        Self { store, takeover, pace, metrics, desk, election }
    }

    /// Where requests are handed in.
    #[must_use]
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Behind this election: its gate is asked before every round, and it hears what the fence says.
    pub fn behind(&self, election: Handle) {
        // A leader belongs to one election.
        let _ = self.election.set(election);
    }
}

#[async_trait]
impl Work for Leader {
    async fn prepare(&self, term: &Term) -> Result<(), WorkError> {
        self.store.take_over(term, self.takeover.leader_url.as_deref()).await?;
        self.desk.open(term.epoch());
        Ok(())
    }

    async fn lead(&self, tenure: Tenure) {
        let Some(election) = self.election.get() else { return };
        let Some(requests) = self.desk.handed_in(tenure.term.epoch()) else { return };
        let clerk = Clerk::new(
            Arc::clone(&self.store),
            election.clone(),
            tenure.term.clone(),
            self.pace,
            self.takeover.dead_agent.clone(),
            self.metrics.clone(),
        );
        clerk.work(requests, &tenure.stop).await;
        self.desk.close();
        // Whatever ended it, the term is given back only when the election says so.
        tenure.stop.cancelled().await;
    }

    async fn ended(&self, _: &Term) {
        self.desk.close();
        self.store.rehearse().await;
    }
}
