//! An agent against controllers that answer as the test tells them to.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod command;
mod controller;
mod drain;
mod heartbeat;
mod leader;
mod log;
mod results;
mod scene;
