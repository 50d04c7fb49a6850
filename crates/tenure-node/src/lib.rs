//! The supervisor of a node: it holds the lock, and runs a controller and an agent by role.
//!
//! ```text
//!              STANDBY                                LEADER
//!   controller  reads only          ──promotion──►     reads and writes
//!   agent       works (a setting)   ◄──step-down──     off
//! ```
//!
//! Promotion: the term is won; the agent is killed and proven dead; the fence is raised; the controller is told. A
//! node is never scheduler and worker at once, so the agent goes first.
//!
//! Step-down: the controller takes nothing more (after a grace for results, where there is time); the lock is
//! released; the agent starts.
//!
//! Both children belong to keepers: whatever happens to the supervisor, they end with it. The controller runs all the
//! time and is told what it may do ([`tenure::election::delegated`]); a supervisor that falls silent shuts its gate by
//! the deadline that it last told. One that ends by itself ends the term that it led: it is started again, after a
//! pause that grows, and leads again only in a new term.

mod agent;
mod controller;
mod principal;
mod supervisor;

pub use self::{
    agent::Moonlighting,
    supervisor::{Children, NodeError, Supervisor},
};
