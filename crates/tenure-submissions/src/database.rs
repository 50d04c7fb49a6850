//! What of an instance depends on its database: the store, the lock and the fence.

use std::{sync::Arc, time::Duration};

use tenure::{
    Candidate, DatabaseUrl, Election, Timing,
    election::Builder,
    fence::{FenceError, PostgresFence, SqlServerFence, SqliteFence},
    lock::{
        LockError,
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::SqliteLease,
        sqlserver_lease::{self, SqlServerLease},
    },
};
use tenure_database::DatabaseError;

use crate::store::{
    Store, postgres::PostgresStore, sqlite::SqliteStore, sqlserver::SqlServerStore,
};

/// The lease on Postgres and SQL Server, under the name that others know. On SQLite it is in the lease file beside the data.
pub const LEASES: &str = "submission_manager_leases";

/// A store whose calls answer within `patience`; its schema must be there.
pub fn store(db: &DatabaseUrl, patience: Duration) -> Result<Arc<dyn Store>, DatabaseError> {
    Ok(match db {
        DatabaseUrl::Postgres(url) => Arc::new(PostgresStore::new(url, patience)),
        DatabaseUrl::Sqlite(data) => Arc::new(SqliteStore::open(data, patience)?),
        DatabaseUrl::SqlServer(url) => Arc::new(SqlServerStore::new(url, patience)),
    })
}

/// An election over the lease in this database, behind its fence.
pub fn contender(
    db: &DatabaseUrl,
    candidate: Candidate,
    timing: Timing,
) -> Result<Builder, ContenderError> {
    Ok(match db {
        DatabaseUrl::Postgres(url) => {
            let (table, url) = (LeaseTable::named(LEASES)?, (**url).clone());
            let lock = PostgresLease::new(url.clone(), table, candidate.clone(), timing)?;
            Election::builder(candidate, timing, lock).fence(PostgresFence::new(url, timing))
        }
        DatabaseUrl::Sqlite(data) => {
            let lock = SqliteLease::new(data, candidate.clone(), timing)?;
            Election::builder(candidate, timing, lock).fence(SqliteFence::new(data, timing)?)
        }
        DatabaseUrl::SqlServer(url) => {
            let (table, url) = (sqlserver_lease::LeaseTable::named(LEASES)?, (**url).clone());
            let lock = SqlServerLease::new(url.clone(), table, candidate.clone(), timing)?;
            Election::builder(candidate, timing, lock).fence(SqlServerFence::new(url, timing))
        }
    })
}

/// Why nobody can contend.
#[derive(Debug, thiserror::Error)]
#[error("cannot contend for the executor's lease")]
pub enum ContenderError {
    /// The lock.
    Lock(#[from] LockError),
    /// The fence.
    Fence(#[from] FenceError),
}
