//! One suite for every store: what the trait promises.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod laws;
mod postgres;
mod scene;
mod sqlite;
mod sqlserver;
mod statements;
mod wire;
