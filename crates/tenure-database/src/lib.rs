//! Connections by URL, TLS, deadlines and migrations. Nothing of the domain.
//!
//! Three rules live here so that nobody above has to remember them:
//!
//! - A call that failed or timed out throws its connection away: a session is taken out of its
//!   [`line::Line`] or [`pool::Pool`] for a call and put back only after it succeeded.
//! - A password never reaches a log or an error: URLs print without it.
//! - Migrations run under a lock, because two nodes start together.
#![warn(missing_docs)]

pub mod clock;
pub mod deadline;
pub mod error;
pub mod line;
pub mod migrate;
pub mod pool;
pub mod postgres;
pub mod server;
pub mod sqlite;
pub mod sqlserver;
pub mod url;

pub use clock::BootInstant;
pub use deadline::Deadline;
pub use error::DatabaseError;
pub use url::{DatabaseUrl, UrlError};
