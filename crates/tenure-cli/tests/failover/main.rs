//! Whole processes on a database that fails over.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../run/copies.rs"]
#[allow(dead_code, reason = "the tests of tenure run use the rest")]
mod copies;
mod lagging;
#[path = "../run/records.rs"]
mod records;
