//! `tenure submissions` and `tenure demo` with whole processes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod demo;
mod fuzzed;
mod killed;
mod rights;
mod scene;
mod settings;
