//! A node for tests that need whole processes: see `tenure_testkit::node`.

use std::process::ExitCode;

use anyhow::{Context, Result};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("TENURE_LOG"))
        .with_writer(std::io::stderr)
        .init();
    let settings = std::env::args().nth(1).context("the settings as JSON")?;
    tenure_testkit::node::serve(&settings).await
}
