//! The parts of the product that have a schema of their own.

use anyhow::{Context, Result};
use tenure_database::migrate::Migration;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// As its migrations are recorded.
    pub name: &'static str,
    pub postgres: &'static [Migration],
    pub sqlite: &'static [Migration],
    /// What a role on Postgres needs that runs it.
    pub grants_to: fn(&str) -> String,
    /// What there is of it on SQL Server.
    pub sqlserver: Option<OnSqlServer>,
    /// What a role may do then.
    pub granted: &'static str,
    /// What makes its schema.
    pub by_hand: &'static str,
}

/// A part that SQL Server has.
#[derive(Clone, Copy, Debug)]
pub struct OnSqlServer {
    pub known: &'static [Migration],
    /// What a role there needs that runs it.
    pub grants_to: fn(&str) -> String,
}

impl Component {
    /// What there is of it on SQL Server, or a refusal.
    pub fn on_sqlserver(&self) -> Result<OnSqlServer> {
        let name = self.name;
        self.sqlserver.with_context(|| {
            format!("there are no {name} on SQL Server: they are kept in Postgres or SQLite")
        })
    }
}

/// Elections and the fence: everything else needs it.
pub const ENGINE: Component = Component {
    name: tenure::schema::COMPONENT,
    postgres: &tenure::schema::POSTGRES,
    sqlite: &tenure::schema::SQLITE,
    grants_to: tenure::schema::grants_to,
    sqlserver: Some(OnSqlServer {
        known: &tenure::schema::SQLSERVER,
        grants_to: tenure::schema::sqlserver_grants_to,
    }),
    granted: "to run elections, and to write through the fence",
    by_hand: "tenure migrate",
};

/// The controller.
pub const JOBS: Component = Component {
    name: tenure_jobs::schema::COMPONENT,
    postgres: &tenure_jobs::schema::POSTGRES,
    sqlite: &tenure_jobs::schema::SQLITE,
    grants_to: tenure_jobs::schema::grants_to,
    sqlserver: None,
    granted: "to run a controller",
    by_hand: "tenure migrate --with jobs",
};

/// The submission manager.
pub const SUBMISSIONS: Component = Component {
    name: tenure_submissions::schema::COMPONENT,
    postgres: &tenure_submissions::schema::POSTGRES,
    sqlite: &tenure_submissions::schema::SQLITE,
    grants_to: tenure_submissions::schema::grants_to,
    sqlserver: Some(OnSqlServer {
        known: &tenure_submissions::schema::SQLSERVER,
        grants_to: tenure_submissions::schema::sqlserver_grants_to,
    }),
    granted: "to take and to execute submissions",
    by_hand: "tenure migrate --with submissions",
};
