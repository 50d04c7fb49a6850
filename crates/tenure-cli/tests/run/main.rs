//! `tenure run` with whole processes: real signals, real databases, and children that record what they do.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod copies;
mod database;
mod examples;
mod exit;
mod faults;
mod fights;
mod random;
mod records;
mod shown;
mod sqlserver;
