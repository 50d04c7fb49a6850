//! The controller, its agents and its nodes: whole processes on real databases, with real faults.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod scene;
mod access;
mod agents;
mod conformance;
mod drained;
mod events;
mod faults;
mod frozen;
mod leases;
mod python;
mod settings;
mod standby;
mod transitions;
mod unanswered;
