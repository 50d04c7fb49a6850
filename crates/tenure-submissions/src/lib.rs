//! The submission manager: many instances take requests, one executes.
//!
//! A submission's way: [`intake`] (one round trip for many) → [`store`] (idempotent insert) → [`schedule`]
//! (leader, refreshed from the store) → [`executor`] (gate) → [`gateway`] → [`store`] (fenced record) → [`webhook`].
//! No step looks back.
//!
//! [`instance`] puts them together, on the [`database`] that there is. [`registry`] has the targets, [`contract`]
//! what was agreed with one of them, [`policy`] what follows from an outcome.

pub mod contract;
pub mod database;
pub mod executor;
pub mod gateway;
pub mod http;
pub mod instance;
pub mod intake;
pub mod intent;
mod object;
pub mod observe;
pub mod policy;
pub mod registry;
pub mod schedule;
pub mod schema;
pub mod store;
pub mod waiters;
pub mod webhook;
