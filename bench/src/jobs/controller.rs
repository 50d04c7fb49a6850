//! A controller, as it is built, in a process of its own.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use reqwest::Client;
use serde_json::Value;
use tenure_testkit::{Port, eventually_true, secs};

use super::{COUNTED, ELECTOR, PATIENCE, Server};

/// Killed with this value.
pub struct Controller {
    process: Child,
    http: Client,
    pub url: String,
    _port: Port,
}

impl Controller {
    pub fn start(server: &Server, arguments: &[&str]) -> Result<Self> {
        Self::spawn(&server.postgres.url(), arguments, &[])
    }

    /// One whose statements are counted. The lock has a session that is another's: it beats whatever agents do.
    pub fn counted(server: &Server) -> Result<Self> {
        let lock = server.postgres.url_as(ELECTOR, "postgres");
        let url = server.postgres.url_as(COUNTED, "postgres");
        Self::spawn(&url, &[], &[("PG_CONN_STRING", &lock)])
    }

    fn spawn(db: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tenure");
        if !program.exists() {
            bail!("{} is missing: cargo build --release -p tenure-cli", program.display());
        }
        let port = Port::claim()?;
        let process = Command::new(program)
            .args(["--db", db, "controller", "--lock", "advisory"])
            .args(["--http", &port.number().to_string()])
            .args(arguments)
            // The key of the lock is known here.
            .env_remove("LEADER_LOCK_KEY")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .spawn()?;
        let http = Client::builder().timeout(PATIENCE).build()?;
        let url = format!("http://127.0.0.1:{}", port.number());
        Ok(Self { process, http, url, _port: port })
    }

    pub async fn leads(&self) {
        self.becomes("LEADER").await;
    }

    pub async fn becomes(&self, role: &str) {
        eventually_true(&format!("it is {role}"), secs(30), async || {
            self.role().await.is_ok_and(|now| now == role)
        })
        .await;
    }

    pub async fn role(&self) -> Result<String> {
        let answer = self.http.get(format!("{}/role", self.url)).send().await?;
        let role: Value = answer.error_for_status()?.json().await?;
        Ok(role["role"].as_str().context("a role")?.to_owned())
    }

    pub async fn drain(&self) -> Result<()> {
        self.http.post(format!("{}/drain", self.url)).send().await?.error_for_status()?;
        Ok(())
    }

    pub async fn end_drain(&self) -> Result<()> {
        self.http.delete(format!("{}/drain", self.url)).send().await?.error_for_status()?;
        Ok(())
    }

    pub async fn metric(&self, name: &str) -> Result<f64> {
        let answer = self.http.get(format!("{}/metrics", self.url)).send().await?;
        let page = answer.error_for_status()?.text().await?;
        let mut values = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(values.next().with_context(|| format!("no metric {name}"))?.parse()?)
    }

    /// Waits for a gauge to have this value.
    pub async fn shows(&self, gauge: &str, value: usize) {
        eventually_true(&format!("{gauge} is {value}"), secs(60), async || {
            self.metric(gauge).await.is_ok_and(|now| now == value as f64)
        })
        .await;
    }

    /// `Rss` or `Pss`.
    pub fn megabytes(&self, what: &str) -> Result<f64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()))?;
        let line = rollup.lines().find(|line| line.starts_with(&format!("{what}:")));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).context("a size")?;
        Ok(kilobytes.parse::<f64>()? / 1024.0)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
