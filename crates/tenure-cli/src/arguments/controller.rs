//! `tenure controller`.

use std::{env, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use tenure::{DatabaseUrl, HolderId, Scope};
use tenure_http::{Address, Token};
use tenure_jobs::{leader::Pace, store::Patience};

use super::{duration, lock::TypedContest};
use crate::{
    controller::{AccessChoice, Controller},
    shown::Http,
};

/// Where a controller serves, unless it is told otherwise.
const HOST: &str = "127.0.0.1";
const PORT: &str = "8700";
/// The scope that controllers contend for.
pub const SCOPE: &str = "controller";

#[derive(Debug, Args)]
pub(super) struct TypedController {
    /// Where to serve: PORT on loopback, or HOST:PORT [default: HOST and PORT of the environment, or
    /// 127.0.0.1:8700]
    #[arg(long, value_name = "ADDR")]
    http: Option<Address>,
    /// Where others reach this node [default: where it serves]
    #[arg(long, value_name = "URL", env = "LEADER_URL")]
    url: Option<String>,
    /// The name of this node [default: host, process and chance]
    #[arg(long, value_name = "ID", env = "NODE_ID")]
    node_id: Option<String>,
    /// What is led; controllers with the same scope and database are one
    #[arg(long, default_value = SCOPE)]
    scope: String,
    #[command(flatten)]
    contest: TypedContest,
    #[command(flatten)]
    jobs: TypedJobs,
    /// A file with the token that those must bring who submit jobs and look at them
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with the token that agents must bring
    #[arg(long, value_name = "FILE")]
    agent_token_file: Option<PathBuf>,
    /// Serve other machines without tokens
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Be told by a supervisor when to lead, over the standard input
    #[arg(long, hide = true)]
    delegate: bool,
    /// The agent that runs on this node while it does not lead
    #[arg(long, value_name = "NAME", hide = true)]
    own_agent: Option<String>,
}

/// How long things of jobs last.
#[derive(Clone, Copy, Debug, Args)]
pub struct TypedJobs {
    /// How long a job is an agent's, unless the agent is heard
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub job_lease: Duration,
    /// How long agents have, at least, to hand in to a new leader what they finished
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub takeover_window: Duration,
    /// After how much silence an agent is stale
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub stale_after: Duration,
    /// After how much silence it is a tombstone
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub tombstone_after: Duration,
    /// After how much silence it is forgotten
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub forget_after: Duration,
    /// How many events are kept for those who come back
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(1_000..))]
    pub keep_events: i64,
    /// How many agents may wait for a job at once; whoever else would wait is told 503
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub most_waiting: u32,
}

impl TypedJobs {
    /// What a command line without them means.
    pub const USUAL: Self = Self {
        job_lease: Duration::from_secs(30),
        takeover_window: Duration::from_secs(10),
        stale_after: Duration::from_secs(15),
        tombstone_after: Duration::from_secs(30),
        forget_after: Duration::from_secs(60),
        keep_events: 1_000_000,
        most_waiting: 4_000,
    };

    pub fn meaning(self) -> Result<(Patience, Pace)> {
        let Self { stale_after, tombstone_after, forget_after, job_lease, .. } = self;
        if job_lease < Duration::from_millis(100) {
            bail!("--job-lease {job_lease:?} must be at least 100ms");
        }
        if !(stale_after < tombstone_after && tombstone_after < forget_after) {
            bail!(
                "--stale-after {stale_after:?} must be below --tombstone-after {tombstone_after:?}, and that below \
                 --forget-after {forget_after:?}"
            );
        }
        let patience = Patience {
            job_lease,
            stale_after,
            tombstone_after,
            forget_after,
            events_kept: self.keep_events,
        };
        let usual = Pace::default();
        let shortest = job_lease.min(stale_after).min(tombstone_after - stale_after);
        let pace = Pace {
            reap_every: usual.reap_every.min(shortest / 4).max(Duration::from_millis(10)),
            most_waiting: self.most_waiting as usize,
            takeover_window: self.takeover_window,
            hearing: stale_after,
        };
        Ok((patience, pace))
    }
}

impl TypedController {
    pub(super) fn meaning(self, db: DatabaseUrl) -> Result<Controller> {
        let (lock, timing) = self.contest.meaning(&db)?;
        let (patience, pace) = self.jobs.meaning()?;
        let token = |file: Option<PathBuf>| file.as_deref().map(Token::read).transpose();
        let http = Http { address: self.http.map_or_else(from_environment, Ok)?, token: None };
        Ok(Controller {
            scope: Scope::new(self.scope).context("--scope")?,
            node_id: self.node_id.map(HolderId::new).transpose().context("--node-id (NODE_ID)")?,
            lock,
            timing,
            http,
            url: self.url.as_deref().map(url).transpose().context("--url (LEADER_URL)")?,
            access: AccessChoice {
                clients: token(self.token_file).context("--token-file")?,
                agents: token(self.agent_token_file).context("--agent-token-file")?,
                allow_unauthenticated: self.allow_unauthenticated,
            },
            patience,
            pace,
            is_delegate: self.delegate,
            own_agent: self.own_agent,
            db,
        })
    }
}

fn from_environment() -> Result<Address> {
    let set = |name, usual: &str| {
        env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| usual.to_owned())
    };
    let (host, port) = (set("HOST", HOST), set("PORT", PORT));
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("{host}:{port}").parse().context("HOST and PORT")
}

/// Where a node is reached: agents follow it.
pub fn url(typed: &str) -> Result<String> {
    let url: reqwest::Url = typed.parse().context("it is no URL")?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        bail!("it must be http://HOST:PORT or https://HOST:PORT");
    }
    Ok(typed.trim_end_matches('/').to_owned())
}
