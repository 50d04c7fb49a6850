//! The submission manager: what it takes in, what it executes, and how it keeps a million intents.

mod execution;
mod intake;
mod pickup;
mod schedule;
mod served;
mod wrk;

use anyhow::Result;
use tenure_database::migrate;
use tenure_testkit::postgres::Postgres;
use tokio_postgres::Client;

pub use self::{
    schedule::weigh,
    served::{Kind, serve},
};

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    Intake,
    Execution,
    Schedule,
    Pickup,
}

pub async fn run(only: Option<Part>) -> Result<()> {
    let is_wanted = |part| only.is_none_or(|only| only == part);
    if is_wanted(Part::Intake) {
        intake::run().await?;
    }
    if is_wanted(Part::Execution) {
        execution::run().await?;
    }
    if is_wanted(Part::Schedule) {
        schedule::run().await?;
    }
    if is_wanted(Part::Pickup) {
        pickup::run().await?;
    }
    Ok(())
}

/// A registry with one target.
fn targets(gateway: &str) -> String {
    format!(
        r#"{{"targets": [{{"submissionTarget": "otp", "gatewayType": "sms", "gatewayUrl": "{gateway}",
            "policy": "max_attempts", "maxAttempts": 3, "terminalOutcomes": ["invalid_recipient"]}}]}}"#
    )
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
