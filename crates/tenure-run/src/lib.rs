//! The children of a term: started when it begins, dead before it ends.
//!
//! ```text
//! supervisor ──orders──► keeper ──parent of──► child ──► whatever it starts
//!     │ ▲                   │
//!     │ └────reports────────┘
//!     └─ runs the election, moves the deadline ahead
//! ```
//!
//! [`converse`] is how a child that knows of it is told more than its deadline.
//!
//! [`keeper`] is the process in between, [`kept`] the supervisor's hold on it, [`nursery`] where keepers come from
//! and what ends those they leave behind, [`orders`] what they say to each other, [`family`] who descends from
//! whom. [`Supervisor`] puts them under an election.

mod children;
pub mod converse;
pub mod family;
pub mod keeper;
pub mod kept;
pub mod nursery;
mod observe;
pub mod orders;
mod standby;
mod supervisor;
mod token_file;

pub use self::{
    children::Programs,
    kept::{End, Idle, Kept, StartError},
    nursery::Nursery,
    observe::Metrics,
    orders::{Exit, Program},
    standby::Standby,
    supervisor::{Restart, SuperviseError, Supervisor},
};
