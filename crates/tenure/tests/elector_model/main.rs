//! The shipping elector under every schedule (stateright) and under random ones.
//!
//! `world` is everything around the electors: clocks that run at different rates, a network that
//! delays, loses and doubles, a database with a lock and a fence, and work that checks, acts and
//! commits in separate steps. `properties` is what must hold in every state, one by one.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod checked;
mod database;
mod faults_found;
mod node;
mod pairs;
mod properties;
mod simulated;
mod world;
