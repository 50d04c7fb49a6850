//! Migrations on SQLite: one exclusive transaction.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::plan::{Applied, MigrateError, Migration, Standing, stand};

/// Makes the table of migrations, unless it is there.
pub const CREATE: &str = include_str!("../../sql/sqlite/create_migrations.sql");
const EXISTS: &str = include_str!("../../sql/sqlite/migrations_exist.sql");
const APPLIED: &str = include_str!("../../sql/sqlite/applied_migrations.sql");
const RECORD: &str = include_str!("../../sql/sqlite/record_migration.sql");

/// Applies what is missing, and returns it. Safe when several processes start together.
pub fn migrate(
    connection: &mut Connection,
    component: &'static str,
    known: &[Migration],
) -> Result<Vec<Migration>, MigrateError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(CREATE)?;
    let missing = match stand(component, known, &applied(&transaction, component)?)? {
        Standing::Behind(missing) => missing,
        Standing::Current | Standing::Ahead => Vec::new(),
    };
    for migration in &missing {
        transaction.execute_batch(migration.sql)?;
        let Migration { version, name, breaking, .. } = migration;
        transaction.execute(RECORD, (component, version, name, migration.checksum(), breaking))?;
    }
    transaction.commit()?;
    Ok(missing)
}

/// Where the database stands, without changing anything.
pub fn standing(
    connection: &Connection,
    component: &'static str,
    known: &[Migration],
) -> Result<Standing, MigrateError> {
    let exists = connection.query_row(EXISTS, [], |_| Ok(())).optional()?.is_some();
    let applied = if exists { applied(connection, component)? } else { Vec::new() };
    stand(component, known, &applied)
}

fn applied(connection: &Connection, component: &str) -> Result<Vec<Applied>, rusqlite::Error> {
    let mut query = connection.prepare(APPLIED)?;
    let rows = query.query_map([component], |row| {
        Ok(Applied {
            version: row.get("version")?,
            name: row.get("name")?,
            checksum: row.get("checksum")?,
            breaking: row.get("breaking")?,
        })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 1] = [Migration {
        version: 1,
        name: "a table",
        sql: "CREATE TABLE things (id integer PRIMARY KEY)",
        breaking: true,
    }];

    #[test]
    fn applying_twice_is_harmless() {
        let mut file = Connection::open_in_memory().unwrap();
        assert!(matches!(standing(&file, "engine", &KNOWN), Ok(Standing::Behind(_))));
        assert_eq!(migrate(&mut file, "engine", &KNOWN).unwrap().len(), 1);
        assert_eq!(migrate(&mut file, "engine", &KNOWN).unwrap().len(), 0);
        assert!(matches!(standing(&file, "engine", &KNOWN), Ok(Standing::Current)));
    }
}
