//! The SQL side of the outbox, on a real Postgres of the oldest and of the newest version.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod announced;
mod batched;
mod calls;
mod ceiling;
mod enqueued;
mod enqueued_at_once;
mod examined;
mod installed;
mod interleaved;
mod kept;
mod lost;
mod ordered;
mod outwaited;
mod refused;
mod rights;
mod scene;
mod states;
mod swept;
mod tricked;
mod upgraded;
mod viewed;
