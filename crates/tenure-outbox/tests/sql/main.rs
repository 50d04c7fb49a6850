//! The SQL side of the outbox, on a real Postgres of the oldest and of the newest version.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod installed;
mod scene;
