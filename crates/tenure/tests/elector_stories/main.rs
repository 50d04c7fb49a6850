//! The protocol step by step: each test is one thing that can happen to a node, told in order.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod node;
mod odd_answers;
mod standing;
mod terms;
mod waking;
