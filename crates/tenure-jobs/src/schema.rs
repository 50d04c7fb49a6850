//! The controller's schema; the engine's must be there.

use tenure_database::migrate::{self, Migration};

/// The name under which these migrations are recorded.
pub const COMPONENT: &str = "jobs";

macro_rules! tables {
    ($database:literal) => {
        concat!(
            include_str!(concat!("../sql/", $database, "/schema/changes.sql")),
            include_str!(concat!("../sql/", $database, "/schema/leaders.sql")),
            include_str!(concat!("../sql/", $database, "/schema/jobs.sql")),
            include_str!(concat!("../sql/", $database, "/schema/leases.sql")),
            include_str!(concat!("../sql/", $database, "/schema/results.sql")),
            include_str!(concat!("../sql/", $database, "/schema/agents.sql")),
            include_str!(concat!("../sql/", $database, "/schema/events.sql")),
        )
    };
}

const NAME: &str = "jobs, leases, results, agents and events";

macro_rules! attempts {
    ($database:literal) => {
        concat!(
            include_str!(concat!("../sql/", $database, "/schema/2/jobs.sql")),
            include_str!(concat!("../sql/", $database, "/schema/2/events.sql")),
        )
    };
}

const ATTEMPTS: &str = "attempts and deadlines of jobs, and events that survive a restore";

/// Postgres.
pub const POSTGRES: [Migration; 2] = [
    Migration { version: 1, name: NAME, sql: tables!("postgres"), breaking: true },
    Migration { version: 2, name: ATTEMPTS, sql: attempts!("postgres"), breaking: false },
];

/// SQLite.
pub const SQLITE: [Migration; 2] = [
    Migration { version: 1, name: NAME, sql: tables!("sqlite"), breaking: true },
    Migration { version: 2, name: ATTEMPTS, sql: attempts!("sqlite"), breaking: false },
];

/// What a role needs on Postgres to run a controller, beside what elections need.
#[must_use]
pub fn grants_to(role: &str) -> String {
    migrate::postgres::grant(include_str!("../sql/postgres/grant.sql"), role)
}
