//! `tenure migrate --print`: the same migration as a script, for whoever applies it by hand.

use tenure::schema;
use tenure_database::migrate::Migration;

use super::{LOCK, Place, Server, TELL_CHANNEL};

const CREATE_ON_POSTGRES: &str =
    include_str!("../../../tenure-database/sql/postgres/create_migrations.sql");
const CREATE_ON_SQLITE: &str =
    include_str!("../../../tenure-database/sql/sqlite/create_migrations.sql");
const RECORD: &str = include_str!("../../sql/record_migration.sql");

const HEADER: &str = "-- For a database without Tenure's schema; what `tenure migrate` applies.\n";

/// One transaction that takes an empty database to where `tenure migrate` would, records included.
pub fn of(place: &Place) -> String {
    let mut script = Vec::new();
    match place {
        Place::Sqlite { .. } => {
            script.extend(["BEGIN IMMEDIATE", CREATE_ON_SQLITE].map(str::to_owned));
            script.extend(schema::SQLITE.iter().flat_map(recorded));
        }
        Place::Postgres(server) => {
            let Server { grant_to, channel, .. } = &**server;
            script.extend(["BEGIN", LOCK, CREATE_ON_POSTGRES].map(str::to_owned));
            script.extend(schema::POSTGRES.iter().flat_map(recorded));
            script.extend(grant_to.as_deref().map(schema::grants_to));
            script.extend(channel.as_ref().map(|channel| channel.statement(TELL_CHANNEL)));
        }
    }
    script.push("COMMIT".to_owned());
    let statements: String = script.iter().map(|statement| ended(statement)).collect();
    format!("{HEADER}{statements}")
}

fn recorded(migration: &Migration) -> [String; 2] {
    let record = RECORD
        .replace("{component}", &literal(schema::COMPONENT))
        .replace("{version}", &migration.version.to_string())
        .replace("{name}", &literal(migration.name))
        .replace("{checksum}", &literal(&migration.checksum()))
        .replace("{breaking}", &migration.breaking.to_string());
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
