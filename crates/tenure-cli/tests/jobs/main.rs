//! The controller, its agents and its nodes: whole processes on real databases, with real faults.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod scene;
mod access;
mod agents;
mod conformance;
mod crowded;
mod drained;
mod events;
mod faults;
mod frozen;
mod fuzzed;
mod known;
mod leases;
mod locks;
mod python;
mod settings;
mod standby;
mod systemd;
mod transitions;
mod unanswered;
