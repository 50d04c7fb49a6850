//! One Patroni, and the Postgres that it runs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tokio::{net::TcpStream, time::sleep};
use tokio_postgres::NoTls;

use super::{
    Replication,
    configuration::{Ports, configuration},
    rest,
};
use crate::{
    postgres::Installation,
    server::{Folder, Launch, Port, Server, find_program},
};

const CONFIGURATION: &str = "patroni.yml";
const POLL: Duration = Duration::from_millis(5);
const POLLS_UNTIL_LEFT: u32 = 1000;
/// How much of a log an error shows.
const LOG_LINES: usize = 60;

pub(super) struct Node {
    name: &'static str,
    server: Server,
    port: Port,
    rest_port: Port,
}

impl Node {
    pub fn new(name: &'static str, etcd: &str, replication: Replication) -> Result<Self> {
        let (port, rest_port) = (Port::claim()?, Port::claim()?);
        let folder = Folder::in_memory("patroni")?;
        let programs = Installation::find()?.programs().display().to_string();
        let ports = Ports { rest: rest_port.number(), postgres: port.number() };
        let told = configuration(name, &ports, &folder, &programs, etcd, replication);
        folder.write(CONFIGURATION, &told.to_string())?;
        let launch = Launch {
            program: find_program("patroni")?,
            arguments: vec![folder.entry(CONFIGURATION)],
            environment: Vec::new(),
            // It takes its server along.
            farewell: Signal::TERM,
        };
        Ok(Self { name, server: Server::new(folder, launch), port, rest_port })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn rest_port(&self) -> u16 {
        self.rest_port.number()
    }

    /// Starts Patroni, which starts its server when it may.
    pub async fn start(&self) -> Result<()> {
        let place = ("127.0.0.1", self.rest_port());
        self.server.start(async |_| TcpStream::connect(place).await.is_ok()).await
    }

    /// Patroni calls itself the primary as soon as it has the key; its server takes writes a moment later.
    pub async fn is_primary(&self) -> bool {
        let says_so = rest::get(self.rest_port(), "/primary").await;
        says_so.is_ok_and(|answer| answer.status == 200)
            && self.takes_writes().await.is_ok_and(|takes| takes)
    }

    async fn takes_writes(&self) -> Result<bool> {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        let asking = client.query_one("select not pg_is_in_recovery()", &[]);
        tokio::select! {
            answer = asking => Ok(answer?.get(0)),
            ended = connection => bail!("the session ended: {ended:?}"),
        }
    }

    /// Whether the other streams from this one.
    pub async fn is_followed(&self) -> bool {
        let Ok(answer) = rest::get(self.rest_port(), "/patroni").await else { return false };
        let replicas = answer.body["replication"].as_array().cloned().unwrap_or_default();
        replicas.iter().any(|replica| replica["state"] == "streaming")
    }

    /// Whether commits wait for this one, and etcd knows it: before that nobody may promote it.
    pub async fn is_synchronous(&self) -> bool {
        rest::get(self.rest_port(), "/sync").await.is_ok_and(|answer| answer.status == 200)
    }

    /// `Some` when it has done so.
    pub async fn is_told(&self, path: &str, order: &Value) -> Option<()> {
        let answer = rest::post(self.rest_port(), path, order).await.ok()?;
        (answer.status == 200).then_some(())
    }

    /// Patroni first: it would start its server again, or tell etcd that it is gone.
    pub async fn crash(&self) -> Result<()> {
        let postmaster = self.postmaster().context("the node runs no server")?;
        self.server.signal(Signal::KILL)?;
        let backends = children_of(postmaster);
        for process in [vec![postmaster], backends.clone()].concat() {
            // One that ends by itself meanwhile is as dead.
            _ = kill_process(process, Signal::KILL);
        }
        self.server.stop(Signal::KILL).await?;
        while [vec![postmaster], backends.clone()].concat().into_iter().any(lives) {
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Freezes the processes that send the log to the replica.
    pub fn stop_senders(&self) -> Result<()> {
        let postmaster = self.postmaster().context("the node runs no server")?;
        for backend in children_of(postmaster) {
            if title_of(backend).contains("walsender") {
                kill_process(backend, Signal::STOP)?;
            }
        }
        Ok(())
    }

    pub fn log_end(&self) -> String {
        let log = self.server.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn postmaster(&self) -> Option<Pid> {
        postmaster(&self.server.folder().path().join("data"))
    }
}

impl Drop for Node {
    /// Patroni's server has a session of its own, so whoever ends Patroni's group does not end it.
    fn drop(&mut self) {
        _ = self.server.signal(Signal::KILL);
        let Some(postmaster) = self.postmaster() else { return };
        // An immediate shutdown frees the System V segment that a killed postmaster leaves.
        _ = kill_process(postmaster, Signal::QUIT);
        for _ in 0..POLLS_UNTIL_LEFT {
            if !lives(postmaster) {
                return;
            }
            std::thread::sleep(POLL);
        }
        _ = kill_process(postmaster, Signal::KILL);
    }
}

/// The server of a data folder, if it lives: the folder may be of one that was killed.
fn postmaster(data: &Path) -> Option<Pid> {
    let state = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid = Pid::from_raw(state.lines().next()?.trim().parse().ok()?)?;
    let works_in: PathBuf = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_pid())).ok()?;
    (works_in == data).then_some(pid)
}

fn children_of(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn title_of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default()
}

/// A zombie does not: whoever inherits it may take its time.
fn lives(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
    state.is_some_and(|state| state != 'Z') && test_kill_process(pid).is_ok()
}
