//! What can go wrong with a database call, without saying what it means.

use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use crate::sqlserver::Meaning;

/// A database call that did not bring an answer. It may have been applied all the same.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// No answer in time; the connection was thrown away.
    #[error("no answer from the database within {within:?}")]
    TimedOut {
        /// The limit that was set.
        within: Duration,
    },
    /// The connection could not be made.
    #[error("cannot connect to {to}")]
    Connect {
        /// The URL, without its password.
        to: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Postgres answered with an error, or the connection broke.
    #[error("the database refused the call")]
    Postgres(#[from] tokio_postgres::Error),
    /// SQL Server answered with an error, or the connection broke.
    #[error("the database refused the call")]
    SqlServer(#[from] tiberius::error::Error),
    /// SQL Server answered with something that nobody asked for.
    #[error("the database answered without a fit {column}")]
    Answer {
        /// What was to be there.
        column: String,
    },
    /// SQLite answered with an error.
    #[error("the database file refused the call")]
    Sqlite(#[from] rusqlite::Error),
    /// Nobody has written how to keep this in SQL Server.
    #[error("{what} are not kept in SQL Server")]
    NotKeptThere {
        /// What.
        what: &'static str,
    },
    /// The thread that owns the SQLite connection is gone.
    #[error("the thread that owns the database file has ended")]
    ThreadEnded,
}

impl DatabaseError {
    /// The code that Postgres gave, where it gave one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            _ => None,
        }
    }

    /// What SQL Server's error number means, where it gave one.
    #[must_use]
    pub fn meaning(&self) -> Option<Meaning> {
        match self {
            Self::SqlServer(error) => error.code().map(Meaning::of),
            _ => None,
        }
    }

    /// What the server itself said, where it said something.
    #[must_use]
    pub fn server_message(&self) -> Option<&str> {
        match self {
            Self::Postgres(error) => error.as_db_error().map(DbError::message),
            Self::SqlServer(tiberius::error::Error::Server(told)) => Some(told.message()),
            _ => None,
        }
    }
}

/// An error with everything that caused it, for a log line or a person.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
