//! Migrations on SQL Server: all that is missing in one transaction, one process at a time, batch by batch.
//!
//! Every batch can be run again: one that was applied by hand, or by a script, does no harm.

use std::time::Duration;

use super::plan::{Applied, MigrateError, Migration, Standing, stand};
use crate::{
    DatabaseError,
    sqlserver::{Batch, Row, Session, batches},
    sqlserver_batch,
};

/// Lets one process migrate at a time; for a transaction.
pub const LOCK: Batch = sqlserver_batch!("lock_migrations", 1);
/// Makes the table of migrations, unless it is there.
pub const CREATE: Batch = sqlserver_batch!("create_migrations", 0);
/// Whether it is there.
pub const EXISTS: Batch = sqlserver_batch!("migrations_exist", 0);
/// What it says.
pub const APPLIED: Batch = sqlserver_batch!("applied_migrations", 1);
/// Adds to it.
pub const RECORD: Batch = sqlserver_batch!("record_migration", 5);

/// How long another process may migrate before this one gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The statements of a template in which `{role}` stands for a role.
#[must_use]
pub fn grant(template: &str, role: &str) -> String {
    template.replace("{role}", &format!("[{}]", role.replace(']', "]]")))
}

/// Applies what is missing, and returns it. Safe when several processes start together.
///
/// A session that this fails on has an open transaction: drop it.
pub async fn migrate(
    session: &mut Session,
    component: &'static str,
    known: &[Migration],
) -> Result<Vec<Migration>, MigrateError> {
    session.run("BEGIN TRANSACTION").await?;
    session.query(&LOCK, &[&(PATIENCE.as_millis() as i32)]).await?;
    session.run(CREATE.sql).await?;
    let missing = match stand(component, known, &applied(session, component).await?)? {
        Standing::Behind(missing) => missing,
        Standing::Current | Standing::Ahead => Vec::new(),
    };
    for migration in &missing {
        for batch in batches(migration.sql) {
            session.run(&batch).await?;
        }
        record(session, component, migration).await?;
    }
    session.run("COMMIT TRANSACTION").await?;
    Ok(missing)
}

/// Where the database stands, without changing anything.
pub async fn standing(
    session: &mut Session,
    component: &'static str,
    known: &[Migration],
) -> Result<Standing, MigrateError> {
    let rows = session.query(&EXISTS, &[]).await?;
    let exists = rows.first().map(|row| row.need::<bool>("exists")).transpose()?;
    let applied = match exists {
        Some(true) => applied(session, component).await?,
        _ => Vec::new(),
    };
    stand(component, known, &applied)
}

async fn record(
    session: &mut Session,
    component: &str,
    migration: &Migration,
) -> Result<(), MigrateError> {
    let Migration { version, name, breaking, .. } = migration;
    session.query(&RECORD, &[&component, version, name, &migration.checksum(), breaking]).await?;
    Ok(())
}

async fn applied(session: &mut Session, component: &str) -> Result<Vec<Applied>, MigrateError> {
    let rows = session.query(&APPLIED, &[&component]).await?;
    let read = |row: &Row| {
        Ok::<_, DatabaseError>(Applied {
            version: row.need("version")?,
            name: row.need::<&str>("name")?.to_owned(),
            checksum: row.need::<&str>("checksum")?.to_owned(),
            breaking: row.need("breaking")?,
        })
    };
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}
