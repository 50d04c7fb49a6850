//! `tenure node`: a file with settings, and what they mean.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use reqwest::Url;
use serde::{Deserialize, Deserializer, de::Error};
use tenure::{HolderId, Scope};
use tenure_http::{Address, Token, read_secret};

use super::{
    DEFAULT_DATABASE, controller,
    controller::TypedJobs,
    database, duration,
    lock::{TypedContest, TypedLock},
};
use crate::{
    node::{AgentChild, ControllerChild, Node},
    shown::Http,
};

#[derive(Debug, Args)]
pub(super) struct TypedNode {
    /// The settings: a TOML file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only read the file, and say what is wrong with it
    #[arg(long)]
    check: bool,
}

/// The file. Paths in it are relative to its folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    node_id: Option<String>,
    database: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    lock: LockTable,
    http: Option<HttpTable>,
    controller: ControllerTable,
    agent: Option<AgentTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockTable {
    kind: Option<TypedLock>,
    #[serde(default)]
    etcd: Vec<String>,
    lease: Option<Time>,
    drain_grace: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpTable {
    address: Typed<Address>,
    token_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerTable {
    http: Typed<Address>,
    url: Option<String>,
    job_lease: Option<Time>,
    takeover_window: Option<Time>,
    stale_after: Option<Time>,
    tombstone_after: Option<Time>,
    forget_after: Option<Time>,
    keep_events: Option<i64>,
    most_waiting: Option<u32>,
    token_file: Option<PathBuf>,
    agent_token_file: Option<PathBuf>,
    #[serde(default)]
    allow_unauthenticated: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentTable {
    controllers: Vec<Typed<Url>>,
    namespace: Option<String>,
    ops: Option<PathBuf>,
    concurrency: Option<u16>,
    grace: Option<Time>,
    token_file: Option<PathBuf>,
}

/// A time like `10s`.
#[derive(Clone, Copy, Debug)]
struct Time(Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        duration(&String::deserialize(from)?).map(Self).map_err(D::Error::custom)
    }
}

/// Whatever can be read from a word.
#[derive(Debug)]
struct Typed<T>(T);

impl<'de, T: std::str::FromStr<Err: fmt::Display>> Deserialize<'de> for Typed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl TypedNode {
    pub(super) fn meaning(self, typed_db: Option<String>) -> Result<Node> {
        let path = &self.config;
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // The message shows the line; a URL in it may hold a password.
        let file: File = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
            anyhow::anyhow!("{} line {at}: {}", path.display(), error.message())
        })?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        file.meaning(&folder, typed_db, self.check).with_context(|| path.display().to_string())
    }
}

impl File {
    fn meaning(self, folder: &Path, typed_db: Option<String>, check: bool) -> Result<Node> {
        let in_folder = |path: PathBuf| folder.join(path);
        let typed_db = typed_db.or(self.database).unwrap_or_else(|| DEFAULT_DATABASE.to_owned());
        let db = database(&typed_db).context("database (or TENURE_DB)")?;
        let contest = self.lock.contest()?;
        let (lock, timing) = contest.clone().meaning(&db).context("[lock]")?;
        let holder = self.node_id.map(HolderId::new).transpose().context("node_id")?;
        let http = self.http.map(|http| http.meaning(in_folder)).transpose().context("[http]")?;
        let controller = self.controller.meaning(in_folder).context("[controller]")?;
        let agent = self.agent.map(|agent| agent.meaning(in_folder));
        Ok(Node {
            scope: Scope::new(self.scope.as_deref().unwrap_or(controller::SCOPE))
                .context("scope")?,
            node_id: holder.unwrap_or_else(HolderId::fresh),
            agent: agent.transpose().context("[agent]")?,
            lease: contest.lease,
            typed_db,
            db,
            lock,
            timing,
            http,
            controller,
            check,
        })
    }
}

impl LockTable {
    fn contest(self) -> Result<TypedContest> {
        let or = |time: Option<Time>, usual| time.map_or(usual, |Time(time)| time);
        Ok(TypedContest {
            lock: self.kind,
            etcd: self.etcd,
            lease: or(self.lease, Duration::from_secs(10)),
            drain_grace: or(self.drain_grace, Duration::from_secs(5)),
            leader_poll_s: 0.5,
        })
    }
}

impl HttpTable {
    fn meaning(self, in_folder: impl Fn(PathBuf) -> PathBuf) -> Result<Http> {
        let token = self.token_file.map(in_folder).as_deref().map(Token::read).transpose();
        Ok(Http { address: self.address.0, token: token.context("token_file")? })
    }
}

impl ControllerTable {
    fn meaning(self, in_folder: impl Fn(PathBuf) -> PathBuf) -> Result<ControllerChild> {
        let usual = TypedJobs::USUAL;
        let or = |time: Option<Time>, usual| time.map_or(usual, |Time(time)| time);
        let jobs = TypedJobs {
            job_lease: or(self.job_lease, usual.job_lease),
            takeover_window: or(self.takeover_window, usual.takeover_window),
            stale_after: or(self.stale_after, usual.stale_after),
            tombstone_after: or(self.tombstone_after, usual.tombstone_after),
            forget_after: or(self.forget_after, usual.forget_after),
            keep_events: self.keep_events.unwrap_or(usual.keep_events),
            most_waiting: self.most_waiting.unwrap_or(usual.most_waiting),
        };
        jobs.meaning()?;
        let files = [self.token_file, self.agent_token_file].map(|file| file.map(&in_folder));
        for file in files.iter().flatten() {
            Token::read(file)?;
        }
        let [token_file, agent_token_file] = files;
        Ok(ControllerChild {
            url: self.url.as_deref().map(controller::url).transpose().context("url")?,
            address: self.http.0,
            jobs,
            token_file,
            agent_token_file,
            allow_unauthenticated: self.allow_unauthenticated,
        })
    }
}

impl AgentTable {
    fn meaning(self, in_folder: impl Fn(PathBuf) -> PathBuf) -> Result<AgentChild> {
        if self.controllers.is_empty() {
            bail!("controllers must name where controllers are reached");
        }
        let token_file = self.token_file.map(&in_folder);
        token_file.as_deref().map(read_secret).transpose().context("token_file")?;
        let ops = self.ops.map(in_folder);
        ops.as_deref().map(tenure_agent::Ops::read).transpose().context("ops")?;
        Ok(AgentChild {
            controllers: self.controllers.into_iter().map(|Typed(url)| url).collect(),
            namespace: self.namespace.unwrap_or_else(|| "default".to_owned()),
            concurrency: self.concurrency.unwrap_or(4),
            grace: self.grace.map_or(Duration::from_secs(10), |Time(grace)| grace),
            ops,
            token_file,
        })
    }
}
