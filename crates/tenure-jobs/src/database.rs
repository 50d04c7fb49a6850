//! What of a controller depends on its database.

use std::{sync::Arc, time::Duration};

use tenure::{DatabaseUrl, Timing};
use tenure_database::DatabaseError;

use crate::store::{
    Patience, Store,
    postgres::{Limits, PostgresStore},
    sqlite::SqliteStore,
};

/// How long a read may take.
const READ: Duration = Duration::from_secs(5);

/// The store; its schema must be there. A write takes less than the margin of the leader's lease: a frozen leader's
/// last one cannot hold its successor back for longer.
pub fn store(
    db: &DatabaseUrl,
    timing: &Timing,
    patience: Patience,
) -> Result<Arc<dyn Store>, DatabaseError> {
    let write = timing.margin() * 4 / 5;
    Ok(match db {
        DatabaseUrl::Postgres(url) => {
            Arc::new(PostgresStore::new(url, Limits { read: READ, write }, patience))
        }
        DatabaseUrl::Sqlite(data) => Arc::new(SqliteStore::open(data, READ, patience)?),
        DatabaseUrl::SqlServer(_) => return Err(DatabaseError::NotKeptThere { what: "jobs" }),
    })
}
