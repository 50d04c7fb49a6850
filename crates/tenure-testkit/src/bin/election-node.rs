//! A node for tests that need whole processes: see `tenure_testkit::node`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use tracing_subscriber::{filter::Targets, prelude::*};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let asked = std::env::var("TENURE_LOG").unwrap_or_else(|_| "error".to_owned());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(asked.parse::<Targets>()?).with(lines).init();
    let settings = std::env::args().nth(1).context("the settings as JSON")?;
    tenure_testkit::node::serve(&settings).await
}
