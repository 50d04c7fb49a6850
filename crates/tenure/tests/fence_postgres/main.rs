//! The fence on a real Postgres: two sessions, one of them in a term that is over.
//!
//! `server` wins terms and makes them expire. Each other module is one promise: a takeover is ordered
//! after a fenced transaction or refuses it, no way past the fence is silent, nobody gets more rights
//! than grant.sql names, a raise only ever goes up, epochs never go back.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod advisory;
mod by_hand;
mod durable;
mod epochs;
mod forgotten;
mod history;
mod lease_tables;
mod raising;
mod refused;
mod rights;
mod server;
mod slots;
mod starving;
mod takeover;
mod timeouts;
mod wire;
