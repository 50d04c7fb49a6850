//! The submission manager's schema; the engine's must be there.

use tenure_database::migrate::{self, Migration};

/// The name under which these migrations are recorded.
pub const COMPONENT: &str = "submissions";

/// Postgres.
pub const POSTGRES: [Migration; 2] = [
    Migration {
        version: 1,
        name: "intents, attempts and the executor's lease",
        sql: concat!(
            include_str!("../sql/postgres/schema/leases.sql"),
            include_str!("../sql/postgres/schema/intents.sql"),
            include_str!("../sql/postgres/schema/attempts.sql"),
            include_str!("../sql/postgres/schema/notify.sql"),
            include_str!("../sql/postgres/schema/forget_attempts.sql"),
        ),
        breaking: true,
    },
    Migration {
        version: 2,
        name: KEYS,
        sql: include_str!("../sql/postgres/schema/2/keys.sql"),
        breaking: false,
    },
];

const KEYS: &str = "keys that are held until an outcome is known";

/// SQL Server: batches, with `GO` between them.
pub const SQLSERVER: [Migration; 2] = [
    Migration {
        version: 1,
        name: "intents, attempts and the executor's lease",
        sql: concat!(
            include_str!("../sql/sqlserver/schema/leases.sql"),
            "GO\n",
            include_str!("../sql/sqlserver/schema/intents.sql"),
            "GO\n",
            include_str!("../sql/sqlserver/schema/attempts.sql"),
            "GO\n",
            include_str!("../sql/sqlserver/schema/forget_attempts.sql"),
        ),
        breaking: true,
    },
    Migration {
        version: 2,
        name: KEYS,
        sql: include_str!("../sql/sqlserver/schema/2/keys.sql"),
        breaking: false,
    },
];

/// SQLite.
pub const SQLITE: [Migration; 2] = [
    Migration {
        version: 1,
        name: "intents and attempts",
        sql: concat!(
            include_str!("../sql/sqlite/schema/changes.sql"),
            include_str!("../sql/sqlite/schema/intents.sql"),
            include_str!("../sql/sqlite/schema/attempts.sql"),
            include_str!("../sql/sqlite/schema/forget_attempts.sql"),
        ),
        breaking: true,
    },
    Migration {
        version: 2,
        name: KEYS,
        sql: include_str!("../sql/sqlite/schema/2/keys.sql"),
        breaking: false,
    },
];

/// What a role needs on SQL Server to take and to execute submissions, beside what elections need.
#[must_use]
pub fn sqlserver_grants_to(role: &str) -> String {
    migrate::sqlserver::grant(include_str!("../sql/sqlserver/grant.sql"), role)
}

/// What a role needs on Postgres to take and to execute submissions, beside what elections need.
#[must_use]
pub fn grants_to(role: &str) -> String {
    migrate::postgres::grant(include_str!("../sql/postgres/grant.sql"), role)
}
