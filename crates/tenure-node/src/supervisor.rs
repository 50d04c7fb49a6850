//! Runs a node: its election, its children, and the signals of whoever started it.

use std::{
    io,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tenure::{
    Election,
    election::{self, ElectionEnded, Handle},
};
use tenure_run::{Nursery, Program};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{agent::Moonlighting, controller::Controller, principal::Principal};

/// The programs of a node.
#[derive(Clone, Debug)]
pub struct Children {
    /// Runs always; the standard input is its supervisor.
    pub controller: Program,
    /// How long a leader that hands over still accepts results.
    pub grace: Duration,
}

/// A node that runs.
pub struct Supervisor {
    election: Election,
    controller: Controller,
    keeping: JoinHandle<()>,
    agent: Moonlighting,
    followers: Vec<JoinHandle<()>>,
    /// Ends the children, when there is no term any more.
    stop: CancellationToken,
    /// Ends whoever follows the election.
    leave: CancellationToken,
    told: Told,
}

impl Supervisor {
    /// Starts the controller, and begins to contend. `builder` has the lock, and the agent's fence.
    pub fn start(
        builder: election::Builder,
        nursery: Nursery,
        children: Children,
        agent: Moonlighting,
    ) -> io::Result<Self> {
        // From here on a signal is heard.
        let told = Told::new()?;
        let (stop, leave) = (CancellationToken::new(), CancellationToken::new());
        let handle: Arc<OnceLock<Handle>> = Arc::default();
        let (controller, keeping) =
            Controller::start(nursery, children.controller, Arc::clone(&handle), stop.clone());
        let work = Principal {
            controller: controller.clone(),
            election: Arc::clone(&handle),
            grace: children.grace,
            prepared: Mutex::default(),
        };
        let election = builder.work(work).start()?;
        // Nobody else sets it.
        let _ = handle.set(election.handle());
        let telling = controller.clone().tell_leaders(election.handle(), leave.clone());
        let moonlighting = agent.clone().follow(election.handle(), leave.clone());
        let followers = vec![tokio::spawn(telling), tokio::spawn(moonlighting)];
        Ok(Self { election, controller, keeping, agent, followers, stop, leave, told })
    }

    /// The election, for whoever shows it or drains it.
    #[must_use]
    pub fn election(&self) -> Handle {
        self.election.handle()
    }

    /// Runs until it is told to stop: hands over, releases the lock, ends the children.
    pub async fn run(mut self) -> Result<(), NodeError> {
        let ended = tokio::select! {
            ended = self.election.ended() => Some(ended),
            () = self.told.next() => None,
        };
        self.leave.cancel();
        let Self { election, controller, keeping, agent, followers, stop, mut told, .. } = self;
        let result = match ended {
            Some(ended) => ended.and(Err(ElectionEnded { reason: "it has ended".to_owned() })),
            None => {
                let mut stopping = pin!(election.stop());
                loop {
                    tokio::select! {
                        stopped = &mut stopping => break stopped,
                        // A second word does not wait for results.
                        () = told.next() => condemn(&controller).await,
                    }
                }
            }
        };
        for follower in followers {
            // One that failed has nothing left to stop.
            let _ = follower.await;
        }
        let mut agent_stops = pin!(agent.stop());
        tokio::select! {
            () = &mut agent_stops => {}
            () = told.next() => {}
        }
        stop.cancel();
        let _ = keeping.await;
        Ok(result?)
    }
}

async fn condemn(controller: &Controller) {
    if let Some(line) = controller.line() {
        line.kill().await;
    }
}

/// Whoever started this process wants it to end.
struct Told([Signal; 2]);

impl Told {
    fn new() -> io::Result<Self> {
        Ok(Self([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]))
    }

    async fn next(&mut self) {
        let Self([terminated, interrupted]) = self;
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    }
}

/// Why a node could not go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The election.
    #[error(transparent)]
    Election(#[from] ElectionEnded),
}
