//! Migrations on Postgres: all that is missing in one transaction, one process at a time.
//!
//! Unnamed statements, so that a transaction pooler does no harm.

use tokio_postgres::{
    Client, GenericClient, Transaction,
    types::{ToSql, Type},
};

use super::plan::{Applied, MigrateError, Migration, Standing, stand};

/// Lets one process migrate at a time; for a transaction.
pub const LOCK: &str = include_str!("../../sql/postgres/lock_migrations.sql");
/// Makes the table of migrations, unless it is there.
pub const CREATE: &str = include_str!("../../sql/postgres/create_migrations.sql");
const EXISTS: &str = include_str!("../../sql/postgres/migrations_exist.sql");
const APPLIED: &str = include_str!("../../sql/postgres/applied_migrations.sql");
const RECORD: &str = include_str!("../../sql/postgres/record_migration.sql");

/// The statements of a template in which `{role}` stands for a role.
#[must_use]
pub fn grant(template: &str, role: &str) -> String {
    let quoted = format!("\"{}\"", role.replace('"', "\"\""));
    template.replace("{role}", &quoted)
}

/// Applies what is missing, and returns it. Safe when several processes start together.
pub async fn migrate(
    client: &mut Client,
    component: &'static str,
    known: &[Migration],
) -> Result<Vec<Migration>, MigrateError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    transaction.batch_execute(CREATE).await?;
    let missing = match stand(component, known, &applied(&transaction, component).await?)? {
        Standing::Behind(missing) => missing,
        Standing::Current | Standing::Ahead => Vec::new(),
    };
    for migration in &missing {
        transaction.batch_execute(migration.sql).await?;
        record(&transaction, component, migration).await?;
    }
    transaction.commit().await?;
    Ok(missing)
}

/// Where the database stands, without changing anything.
pub async fn standing(
    client: &Client,
    component: &'static str,
    known: &[Migration],
) -> Result<Standing, MigrateError> {
    let exists: bool = client.query_typed_one(EXISTS, &[]).await?.get(0);
    let applied = if exists { applied(client, component).await? } else { Vec::new() };
    stand(component, known, &applied)
}

async fn record(
    transaction: &Transaction<'_>,
    component: &str,
    migration: &Migration,
) -> Result<(), MigrateError> {
    let Migration { version, name, breaking, .. } = migration;
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&component, Type::TEXT),
        (version, Type::INT4),
        (name, Type::TEXT),
        (&migration.checksum(), Type::TEXT),
        (breaking, Type::BOOL),
    ];
    transaction.query_typed(RECORD, &parameters).await?;
    Ok(())
}

async fn applied(
    client: &impl GenericClient,
    component: &str,
) -> Result<Vec<Applied>, MigrateError> {
    let rows = client.query_typed(APPLIED, &[(&component, Type::TEXT)]).await?;
    let read = |row: &tokio_postgres::Row| Applied {
        version: row.get("version"),
        name: row.get("name"),
        checksum: row.get("checksum"),
        breaking: row.get("breaking"),
    };
    Ok(rows.iter().map(read).collect())
}
