//! Elections inside one process: what work, gate, stream, metrics and logs see of a term.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod advisory;
mod another_server;
mod cannot_begin;
mod file_names;
mod lease_file;
mod lifecycle;
mod observed;
mod orders;
mod scene;
mod seen_gone;
