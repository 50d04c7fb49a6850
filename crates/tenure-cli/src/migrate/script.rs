//! `tenure migrate --print`: the same migration as a script, for whoever applies it by hand.

use std::time::Duration;

use tenure_database::{
    migrate::{Migration, postgres, sqlite, sqlserver},
    sqlserver::{batches, settings},
};

use super::{Place, Server, TELL_CHANNEL};
use crate::components::Component;

const RECORD: &str = include_str!("../../sql/record_migration.sql");

/// On SQL Server: how long the script waits for a row, and for another process that migrates.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const HEADER: &str = "-- For a database without Tenure's schema; what `tenure migrate` applies.\n";

/// One transaction that takes an empty database to where `tenure migrate` would, records included.
pub fn of(place: &Place, components: &[Component]) -> String {
    let mut script = Vec::new();
    match place {
        Place::Sqlite { .. } => {
            script.extend(["BEGIN IMMEDIATE", sqlite::CREATE].map(str::to_owned));
            for Component { name, sqlite: known, .. } in components {
                script.extend(known.iter().flat_map(|migration| recorded(name, migration)));
            }
        }
        Place::Postgres(server) => {
            let Server { grant_to, channel, .. } = &**server;
            script.extend(["BEGIN", postgres::LOCK, postgres::CREATE].map(str::to_owned));
            for Component { name, postgres: known, .. } in components {
                script.extend(known.iter().flat_map(|migration| recorded(name, migration)));
            }
            if let Some(role) = grant_to {
                script.extend(components.iter().map(|component| (component.grants_to)(role)));
            }
            script.extend(channel.as_ref().map(|channel| channel.statement(TELL_CHANNEL)));
        }
        Place::SqlServer { grant_to, .. } => {
            return on_sqlserver(components, grant_to.as_deref());
        }
    }
    script.push("COMMIT".to_owned());
    let statements: String = script.iter().map(|statement| ended(statement)).collect();
    format!("{HEADER}{statements}")
}

/// Batches, with `GO` between them as the server's own tools read it. Those tools go on after an error, which ends the
/// transaction: nothing that follows it is carried out.
fn on_sqlserver(components: &[Component], grant_to: Option<&str>) -> String {
    let settings = settings(LOCK_TIMEOUT);
    let lock = sqlserver::LOCK.sql.replace("@P1", &LOCK_TIMEOUT.as_millis().to_string());
    let begin = format!("{settings}BEGIN TRANSACTION;");
    let mut parts = vec![begin, lock, sqlserver::CREATE.sql.to_owned()];
    for component in components {
        let Some(there) = component.sqlserver else { continue };
        for migration in there.known {
            let breaking = u8::from(migration.breaking).to_string();
            parts.extend(recorded_as(component.name, migration, &breaking));
        }
        parts.extend(grant_to.map(there.grants_to));
    }
    let guarded = |batch: String| {
        format!("{}\nGO\nIF @@TRANCOUNT = 0 SET NOEXEC ON;\nGO\n", batch.trim_end())
    };
    let script: String = parts.iter().flat_map(|part| batches(part)).map(guarded).collect();
    format!("{HEADER}{script}COMMIT TRANSACTION;\nGO\nSET NOEXEC OFF;\nGO\n")
}

fn recorded(component: &str, migration: &Migration) -> [String; 2] {
    recorded_as(component, migration, &migration.breaking.to_string())
}

/// With the truth as the database writes it.
fn recorded_as(component: &str, migration: &Migration, breaking: &str) -> [String; 2] {
    let record = RECORD
        .replace("{component}", &literal(component))
        .replace("{version}", &migration.version.to_string())
        .replace("{name}", &literal(migration.name))
        .replace("{checksum}", &literal(&migration.checksum()))
        .replace("{breaking}", breaking);
    [migration.sql.to_owned(), record]
}

/// For our own names, which hold nothing that would need more.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn ended(statement: &str) -> String {
    let statement = statement.trim_end().trim_end_matches(';');
    format!("{statement};\n")
}
