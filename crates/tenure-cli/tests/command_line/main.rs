//! The binary itself, on real databases.

mod help;
mod leaders;
mod migrate;
mod process;
mod scope;
mod sqlserver;
mod status_postgres;
mod status_sqlite;
