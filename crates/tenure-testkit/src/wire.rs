//! An adversary on the wire to a real Postgres: it knows messages, and makes one of them fail.
//!
//! A driver that sends ahead hopes that everything arrives. Here one message does not, or does and its answer does not,
//! or fails alone while those behind it go on; which one is counted, so a test can go through all of them:
//!
//! ```text
//! arm(failure, n) ──► client messages 0 … n-1 pass ──► n fails ──► what follows passes, unless the connection was cut
//! ```
//!
//! [`trial`] does that for a fenced call, and judges what is in the tables afterwards.

mod connection;
mod message;
mod plan;
pub mod terms;
#[allow(clippy::unwrap_used, reason = "a trial is a test, and its panic the verdict")]
pub mod trial;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Result;
use tokio::{net::TcpListener, sync::watch, time::sleep};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::plan::Plan;
use crate::eventually::secs;

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A client's fails in the server, alone, as if it had been cancelled. One that cannot fail passes.
    Fails,
    /// A client's does not arrive; the connection is cut, and the server ends what it has got before.
    CutBefore,
    /// A client's arrives and takes effect; the connection is cut, and no answer comes back.
    CutAfter,
    /// A client's is held, and all behind it, until [`Wire::let_go`].
    Held,
    /// The first of a client's fails, and this one is held as well.
    FailsThenHeld,
    /// A server's does not arrive; the connection is cut. All that the client sent before has taken effect.
    Unheard,
}

/// A message that the failure was applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bite {
    /// Which, for people.
    pub message: String,
    /// Whether it made a difference: a Sync cannot be made to fail.
    pub has_effect: bool,
    /// The server's process of that session.
    pub backend: i32,
}

/// What has passed since the wire was armed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The clients' messages, for people.
    pub requests: Vec<String>,
    /// How many messages servers sent.
    pub answers: usize,
    /// Where the failure bit; `None` when there were fewer messages.
    pub bite: Option<Bite>,
}

/// A proxy on a loopback port, in front of a Postgres. Dropping it ends its tasks and connections.
pub struct Wire {
    addr: SocketAddr,
    plans: connection::Plans,
    connections: TaskTracker,
    _listening: AbortOnDropHandle<()>,
}

impl Wire {
    /// Passes connections on to `target`.
    pub async fn to(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let plans = Arc::new(watch::Sender::new(Plan::default()));
        let connections = TaskTracker::new();
        let listening = connection::listen(listener, target, plans.clone(), connections.clone());
        let _listening = AbortOnDropHandle::new(tokio::spawn(listening));
        Ok(Self { addr, plans, connections, _listening })
    }

    /// The URL of a database for a role, through the wire.
    #[must_use]
    pub fn url_as(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@{}/{database}", self.addr)
    }

    /// Counts messages from now on, the first is 0, and applies the failure to one of them. What a client sends until it
    /// is logged in is not counted, nor is its farewell.
    pub fn arm(&self, failure: Failure, at: usize) {
        self.plans.send_modify(|plan| plan.arm(failure, at));
    }

    /// Counts messages from now on, and harms none.
    pub fn watch(&self) {
        self.arm(Failure::Fails, usize::MAX);
    }

    /// Lets everything pass again, also what is held, and says what was seen.
    pub fn disarm(&self) -> Seen {
        let mut seen = Seen::default();
        self.plans.send_modify(|plan| seen = plan.disarm());
        seen
    }

    /// Waits until the failure has bitten.
    pub async fn bitten(&self) -> Bite {
        let mut plans = self.plans.subscribe();
        let plan = plans.wait_for(|plan| plan.bite().is_some()).await;
        plan.ok().and_then(|plan| plan.bite().cloned()).expect("the wire is there")
    }

    /// Passes on what is held.
    pub fn let_go(&self) {
        self.plans.send_modify(Plan::let_go);
    }

    /// Waits until no connection is open and the server has ended all sessions: whatever was sent has taken effect.
    ///
    /// # Panics
    /// When that takes longer than anything should.
    pub async fn settled(&self) {
        self.connections.close();
        tokio::select! {
            () = self.connections.wait() => {}
            () = sleep(secs(30)) => panic!("{} connections are still open", self.connections.len()),
        }
        self.connections.reopen();
    }
}

#[cfg(test)]
mod tests;
