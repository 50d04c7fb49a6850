//! The submission manager: what it takes in, what it executes, and how it keeps a million intents.

mod intake;
mod served;
mod wrk;

use anyhow::Result;
use tenure_database::migrate;
use tenure_testkit::postgres::Postgres;
use tokio_postgres::Client;

pub use self::served::{Kind, serve};

pub async fn run() -> Result<()> {
    intake::run().await
}

/// A server that writes to disk as in production, with the schema.
async fn postgres() -> Result<(Postgres, Client)> {
    let postgres = Postgres::with(&[("fsync", "on"), ("max_wal_size", "4GB")]).await?;
    let mut client = postgres.connect().await?;
    let (engine, known) = (tenure::schema::COMPONENT, &tenure::schema::POSTGRES);
    migrate::postgres::migrate(&mut client, engine, known).await?;
    let (ours, known) =
        (tenure_submissions::schema::COMPONENT, &tenure_submissions::schema::POSTGRES);
    migrate::postgres::migrate(&mut client, ours, known).await?;
    Ok((postgres, client))
}
