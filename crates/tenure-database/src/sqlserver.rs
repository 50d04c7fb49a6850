//! SQL Server: a URL, sessions over TLS, statements as batches, and what error numbers mean.

mod batch;
mod meaning;
mod session;
mod url;

pub use tiberius::ToSql;

pub use self::{
    batch::{Batch, batches},
    meaning::Meaning,
    session::{Row, Session, SqlServer, said, settings},
    url::{PASSWORD_VARIABLE, SqlServerUrl, is_ado},
};
use crate::{line, pool};

/// One session, for calls that come one after another.
pub type Line = line::Line<SqlServer>;
/// Several sessions, for calls that come at the same time.
pub type Pool = pool::Pool<SqlServer>;
/// A session out of a pool.
pub type Pooled = pool::Pooled<SqlServer>;
