//! Whole processes on a database that fails over.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blows;
#[path = "../run/copies.rs"]
#[allow(dead_code, reason = "the tests of tenure run use the rest")]
mod copies;
mod fenced;
mod lagging;
mod pauses;
#[path = "../run/records.rs"]
mod records;
mod runs;
#[path = "../submissions/scene.rs"]
#[allow(dead_code, reason = "the tests of tenure submissions use the rest")]
mod scene;
mod submits;
