//! `tenure agent`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use reqwest::Url;
use tenure::HolderId;
use tenure_agent::{Ops, Settings};
use tenure_http::{Address, read_secret};

use super::duration;
use crate::agent::Agent;

#[derive(Debug, Args)]
pub(super) struct TypedAgent {
    /// Where controllers are reached; whoever does not lead says who does
    #[arg(
        long = "controller",
        value_name = "URL",
        env = "TENURE_CONTROLLER",
        value_delimiter = ',',
        required = true
    )]
    controllers: Vec<Url>,
    /// The name of this agent [default: host, process and chance]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where it works
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// What it can do: a TOML file with commands [default: echo, sleep and sha256]
    #[arg(long, value_name = "FILE")]
    ops: Option<PathBuf>,
    /// How many jobs at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// How long to wait for a job in one request
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    poll: Duration,
    /// How often to say that it is alive
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    heartbeat: Duration,
    /// How long jobs may still take once it is told to stop
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    grace: Duration,
    /// A file with the token of agents
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve health and metrics: PORT on loopback, or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    http: Option<Address>,
}

impl TypedAgent {
    pub(super) fn meaning(self) -> Result<Agent> {
        let settings = Settings {
            name: self.name.unwrap_or_else(|| HolderId::fresh().to_string()),
            namespace: self.namespace,
            controllers: self.controllers,
            token: self
                .token_file
                .as_deref()
                .map(read_secret)
                .transpose()
                .context("--token-file")?,
            concurrency: self.concurrency.into(),
            poll: self.poll,
            heartbeat: self.heartbeat,
            grace: self.grace,
        };
        let ops = match &self.ops {
            Some(path) => Ops::read(path).context("--ops")?,
            None => Ops::built_in(),
        };
        Ok(Agent { settings, ops, http: self.http })
    }
}
