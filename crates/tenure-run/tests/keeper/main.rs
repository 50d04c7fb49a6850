//! The keeper on its own: real processes and real signals.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod fights;
mod orders;
mod scene;
