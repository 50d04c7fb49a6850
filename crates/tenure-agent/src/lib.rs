//! A worker of the controller: takes jobs, runs them, and hands their results in until somebody accepts them.
//!
//! ```text
//!  ┌───────────── controller: several nodes, one of which leads ─────────────┐
//!  │ POST /v1/leases       POST /v1/agents/heartbeat        POST /v1/results │
//!  └──────┬───────────────────────────▲──────────────────────────────▲───────┘
//!         ▼                           │                              │ 4 leases at once
//!     leases.rs                 heartbeat.rs                 results/hand_in.rs
//!         │ a place each                                             ▲
//!         ▼                                                          │
//!     jobs, run by ops.rs ──────────── finished ──────────▶ results.rs, the outbox
//! ```
//!
//! No poll is made while no place is free, or while too many results wait.
//!
//! **Who is authoritative.** The controller. An agent has no store; what it knows it may lose. A job that it
//! loses expires at the controller and is queued again under the next `job_epoch`.
//!
//! **What fences a result.** `job_epoch` and `lease_id`, which every result carries. `leader_epoch` fences the
//! controller's own writes, so an agent never sends it: a result outlives the leader that leased the job.
//!
//! **When a result is forgotten.** When it was accepted, or when its job or its lease is stale, or when the
//! controller will not have it in any form. Everything else (no leader, a stale leader, no connection, no right)
//! keeps it: the leader is looked for, and it is told again, later and later, up to every 5 s.
//!
//! **Where the leader is.** Whoever is asked and does not lead names it; the agent goes there and stays
//! (`controller/places.rs`). It goes at most three hops without a pause, never twice to the same place in one
//! search, never by an HTTP redirect, and never from https to http. What does not answer is left, for the next
//! configured endpoint in turn; and what has not answered yet is not waited for once another node turns out to lead.
//!
//! **What a heartbeat is for.** It extends the job leases at the controller, those that it names: what an earlier
//! process of the same name held runs out. An agent that was not heard for a
//! whole job lease goes on: its jobs may be somebody else's by now, but the fence, not the agent, decides that.
//!
//! **How it ends.** Asked to stop, it takes no more jobs, and lets the running ones take as long as the grace;
//! then they are killed and reported as failed. Results are handed in, and heartbeats sent, until nothing waits,
//! or until 5 s after the grace. Asked to hurry, it kills everything at once. Either way no process of a job's
//! group outlives [`run`].
#![warn(missing_docs)]

mod agent;
mod backoff;
mod controller;
mod heartbeat;
mod held;
mod job;
mod leases;
mod observe;
mod ops;
mod results;
mod settings;

pub use self::{
    agent::{Agent, AgentError, Drained, run},
    observe::Metrics,
    ops::{Ops, OpsError},
    settings::Settings,
};
