//! Whole instances on a real database, with a real gateway that writes down what it is asked.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod scene;
mod api;
mod executed;
mod forced;
mod gateway;
mod lasting;
mod must_exist;
mod tampered;
mod told;
