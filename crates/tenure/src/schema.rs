//! The engine's schema in the database that holds the data.

use tenure_database::migrate::{self, Migration};

/// The name under which the engine's migrations are recorded.
pub const COMPONENT: &str = "engine";

/// Postgres.
pub const POSTGRES: [Migration; 2] = [POSTGRES_1, POSTGRES_2];

const POSTGRES_1: Migration = Migration {
    version: 1,
    name: "terms, fences and locks",
    sql: concat!(
        include_str!("../sql/postgres/schema/fences.sql"),
        include_str!("../sql/postgres/schema/fence_slots.sql"),
        include_str!("../sql/postgres/schema/fill_fence_slots.sql"),
        include_str!("../sql/postgres/schema/terms.sql"),
        include_str!("../sql/postgres/schema/drains.sql"),
        include_str!("../sql/postgres/schema/lease_tables.sql"),
        include_str!("../sql/postgres/schema/create_lease_table.sql"),
        include_str!("../sql/postgres/schema/leases.sql"),
        include_str!("../sql/postgres/schema/msp_leader_state.sql"),
        include_str!("../sql/postgres/schema/msp_leader_notify.sql"),
        include_str!("../sql/postgres/schema/msp_leader_state_notify.sql"),
        include_str!("../sql/postgres/schema/create_advisory_scope.sql"),
        include_str!("../sql/postgres/schema/server_identity.sql"),
        include_str!("../sql/postgres/schema/highest_epoch.sql"),
        include_str!("../sql/postgres/schema/refuse.sql"),
        include_str!("../sql/postgres/schema/fence_of_other_lock.sql"),
        include_str!("../sql/postgres/schema/fence.sql"),
        include_str!("../sql/postgres/schema/require_fence.sql"),
        include_str!("../sql/postgres/schema/begin_term.sql"),
        include_str!("../sql/postgres/schema/end_term.sql"),
        include_str!("../sql/postgres/schema/raise_fence.sql"),
        include_str!("../sql/postgres/schema/drain.sql"),
        include_str!("../sql/postgres/schema/end_drain.sql"),
        include_str!("../sql/postgres/schema/burn_epochs.sql"),
        include_str!("../sql/postgres/schema/switch_lock.sql"),
        include_str!("../sql/postgres/schema/rights.sql"),
    ),
    breaking: true,
};

const POSTGRES_2: Migration = Migration {
    version: 2,
    name: "which server granted a term, and who holds a raise back",
    sql: concat!(
        include_str!("../sql/postgres/schema/2/create_lease_table.sql"),
        include_str!("../sql/postgres/schema/2/lease_servers.sql"),
        include_str!("../sql/postgres/schema/2/leader_state_servers.sql"),
        include_str!("../sql/postgres/schema/2/raise_fence.sql"),
        include_str!("../sql/postgres/schema/2/require_fence.sql"),
    ),
    breaking: false,
};

/// SQL Server: batches, with `GO` between them.
pub const SQLSERVER: [Migration; 2] = [SQLSERVER_1, SQLSERVER_2];

const SQLSERVER_1: Migration = Migration {
    version: 1,
    name: "terms, fences and leases",
    sql: concat!(
        include_str!("../sql/sqlserver/schema/fences.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/terms.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/drains.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/lease_tables.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/procedures.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/create_lease_table.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/leases.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/fence.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/begin_term.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/end_term.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/raise_fence.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/drain.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/end_drain.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/burn_epochs.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/switch_lock.sql"),
    ),
    breaking: true,
};

const SQLSERVER_2: Migration = Migration {
    version: 2,
    name: "which server granted a term",
    sql: concat!(
        include_str!("../sql/sqlserver/schema/2/create_lease_table.sql"),
        "GO\n",
        include_str!("../sql/sqlserver/schema/2/lease_servers.sql"),
    ),
    breaking: false,
};

/// SQLite.
pub const SQLITE: [Migration; 1] = [Migration {
    version: 1,
    name: "terms and fences",
    sql: concat!(
        include_str!("../sql/sqlite/schema/fences.sql"),
        include_str!("../sql/sqlite/schema/terms.sql"),
        include_str!("../sql/sqlite/schema/drains.sql"),
    ),
    breaking: true,
}];

/// What a role needs on SQL Server to run elections and to write through the fence.
#[must_use]
pub fn sqlserver_grants_to(role: &str) -> String {
    migrate::sqlserver::grant(include_str!("../sql/sqlserver/grant.sql"), role)
}

/// What a role needs on Postgres to run elections and to write through the fence.
#[must_use]
pub fn grants_to(role: &str) -> String {
    migrate::postgres::grant(include_str!("../sql/postgres/grant.sql"), role)
}
