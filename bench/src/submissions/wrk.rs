//! wrk: many connections that send as fast as they are answered.

use std::{io::Write, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

const SCRIPT: &str = include_str!("wrk.lua");

/// Requests a second over so many connections, all of them answered with 200.
pub async fn rate(url: &str, run: &str, connections: usize, lasts: Duration) -> Result<f64> {
    let mut script = tempfile::NamedTempFile::with_suffix(".lua")?;
    script.write_all(SCRIPT.as_bytes())?;
    let output = Command::new("wrk")
        .args(["-t", "2", "-c", &connections.to_string(), "-d", &format!("{}s", lasts.as_secs())])
        .arg("-s")
        .arg(script.path())
        .args([url, "--", run])
        .output()
        .await
        .context("cannot run wrk: apt-get install wrk")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "wrk: {told}");
    ensure!(!told.contains("Non-2xx") && !told.contains("Socket errors"), "wrk: {told}");
    let rate = told.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok()).with_context(|| format!("wrk: {told}"))
}
