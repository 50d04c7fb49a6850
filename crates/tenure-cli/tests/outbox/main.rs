//! The payment outbox with whole processes: commands, workers, rails, and workers that are killed.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod commands;
mod faults;
mod gateway;
mod paused;
mod python;
mod rails;
mod scene;
mod stopped;
