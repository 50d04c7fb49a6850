//! The controller: jobs that agents lease and report on, written by one leader and read on every node.
//!
//! A job's way: [`http`] → [`leader`] (the desk: many requests share one transaction) → [`store`] (fenced) →
//! [`queue`] → a lease for an agent → its result → [`store`]. No step looks back.
//!
//! Three numbers keep it straight. *leader_epoch*: every change carries the term that made it and goes through the
//! fence, so an old leader changes nothing. *job_epoch*: it grows whenever a lease ends without a result, so an old
//! agent's result is told from the current one's. *event_number*: it is given in the order of commits, so whoever
//! follows the events may go on at any node.
//!
//! [`controller`] puts them together, on the [`database`] that there is.

pub mod agent;
pub mod controller;
pub mod database;
pub mod event;
pub mod http;
pub mod job;
pub mod leader;
pub mod observe;
pub mod queue;
pub mod round;
pub mod schema;
pub mod store;
