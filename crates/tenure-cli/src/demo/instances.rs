//! The instances: whole processes, killed without a word, and started again.

use std::{
    env,
    ffi::OsStr,
    fs::File,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tenure::{BootInstant, DatabaseUrl};
use tokio::process::{Child, Command};

use super::gateway::Gateway;

const COUNT: usize = 3;
/// How long an instance may take to say what it is.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// How often an instance may end by itself before the demo gives up.
const PATIENCE: usize = 10;
/// The same on every database.
const SETTINGS: [&str; 8] = [
    "--acquire-interval",
    "1s",
    "--schedule-refresh-interval",
    "500ms",
    "--gateway-timeout",
    "800ms",
    "--retry-after",
    "500ms",
];
/// Short, so that a failover takes seconds. A lease of 3s leaves its holder 2s from one renewal on.
const PACE: [&str; 6] =
    ["--lease-duration", "3s", "--renew-interval", "500ms", "--record-within", "600ms"];
/// Where a session's first statements take their time: they must be worth more than one try.
const PACE_OF_SQL_SERVER: [&str; 6] =
    ["--lease-duration", "6s", "--renew-interval", "1s", "--record-within", "2s"];

/// What an instance says of itself.
#[derive(Clone, Debug, Deserialize)]
pub struct Role {
    pub role: String,
    pub leader_epoch: i64,
}

/// One process.
pub struct Instance {
    pub process: Child,
    pub url: String,
    /// `None` while it starts.
    pub role: Option<Role>,
}

/// A leader that was killed.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    pub epoch: i64,
    pub at: BootInstant,
}

/// Where the instances are at this moment: the load sends its requests there.
pub type Urls = Arc<Mutex<Vec<String>>>;

/// All of them.
pub struct Instances {
    pub all: Vec<Instance>,
    pub kills: Vec<Kill>,
    urls: Urls,
    client: Client,
    /// It may hold a password.
    url: String,
    pace: [&'static str; 6],
    registry: PathBuf,
    folder: PathBuf,
    ended_by_themselves: usize,
}

impl Instances {
    pub fn start(url: &str, db: &DatabaseUrl, registry: &Path, folder: &Path) -> Result<Self> {
        let pace = match db {
            DatabaseUrl::SqlServer(_) => PACE_OF_SQL_SERVER,
            DatabaseUrl::Postgres(_) | DatabaseUrl::Sqlite(_) => PACE,
        };
        let mut instances = Self {
            all: Vec::new(),
            kills: Vec::new(),
            urls: Urls::default(),
            client: Client::builder().timeout(ANSWERS_WITHIN).no_proxy().build()?,
            url: url.to_owned(),
            pace,
            registry: registry.to_owned(),
            folder: folder.to_owned(),
            ended_by_themselves: 0,
        };
        for at in 0..COUNT {
            let instance = instances.launch(at)?;
            instances.all.push(instance);
        }
        instances.publish();
        Ok(instances)
    }

    pub fn urls(&self) -> Urls {
        Arc::clone(&self.urls)
    }

    fn publish(&self) {
        let urls = self.all.iter().map(|instance| instance.url.clone()).collect();
        *self.urls.lock().unwrap_or_else(PoisonError::into_inner) = urls;
    }

    fn launch(&self, at: usize) -> Result<Instance> {
        let port = free_port()?;
        let log = self.folder.join(format!("instance-{}.log", at + 1));
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(env::current_exe()?);
        // The settings of a real deployment are not for the demo.
        for (name, _) in env::vars_os().filter(|(name, _)| is_a_setting(name)) {
            command.env_remove(name);
        }
        let process = command
            .env("TENURE_DB", &self.url)
            // Ctrl-C is for the demo; it tells them in its own time.
            .process_group(0)
            .arg("submissions")
            .arg("--registry")
            .arg(&self.registry)
            .args(["--http", &port.to_string(), "--end-with-stdin"])
            .args(SETTINGS)
            .args(self.pace)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start an instance")?;
        Ok(Instance { process, url: format!("http://127.0.0.1:{port}"), role: None })
    }

    /// Asks each what it is, and starts those again that are gone.
    pub async fn look(&mut self) -> Result<()> {
        let asked = self.all.iter().map(|instance| ask(&self.client, &instance.url));
        let roles = futures_util::future::join_all(asked).await;
        for (instance, role) in self.all.iter_mut().zip(roles) {
            instance.role = role;
        }
        for at in 0..self.all.len() {
            if self.all[at].process.try_wait()?.is_some() {
                self.ended_by_themselves += 1;
                if self.ended_by_themselves > PATIENCE {
                    bail!(
                        "instances end by themselves: see their logs in {}",
                        self.folder.display()
                    );
                }
                self.all[at] = self.launch(at)?;
                self.publish();
            }
        }
        Ok(())
    }

    /// With kill -9, as soon as it has acted for so long; what was done.
    pub fn kill_a_leader_that_acts(
        &mut self,
        gateway: &Gateway,
        leads_for: Duration,
    ) -> Result<Option<String>> {
        let Some((at, epoch)) = self.leader() else { return Ok(None) };
        let acted = gateway.first_act(epoch).map(|first| BootInstant::now().since(first));
        if acted.is_none_or(|acted| acted < leads_for) {
            return Ok(None);
        }
        let pid = pid(&self.all[at].process).context("the leader has no process")?;
        kill_process(pid, Signal::KILL)?;
        self.kills.push(Kill { epoch, at: BootInstant::now() });
        self.all[at] = self.launch(at)?;
        self.publish();
        Ok(Some(format!(
            "kill -9 {}: instance {}, which led term {epoch}",
            pid.as_raw_nonzero(),
            at + 1
        )))
    }

    /// The one that leads, and its term; never one that was killed.
    fn leader(&self) -> Option<(usize, i64)> {
        let last_kill = self.kills.last().map_or(0, |kill| kill.epoch);
        self.all.iter().enumerate().find_map(|(at, instance)| {
            let role = instance.role.as_ref()?;
            let leads = role.role == "LEADER" && role.leader_epoch > last_kill;
            leads.then_some((at, role.leader_epoch))
        })
    }

    /// Asks all to stop and waits for them; the kills that there were.
    pub async fn stop(mut self) -> Vec<Kill> {
        for instance in &self.all {
            if let Some(pid) = pid(&instance.process) {
                // One that is gone needs no telling.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for instance in &mut self.all {
            let _ = instance.process.wait().await;
        }
        self.kills
    }
}

fn is_a_setting(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("SM_"))
}

fn pid(process: &Child) -> Option<Pid> {
    process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()))
}

async fn ask(client: &Client, url: &str) -> Option<Role> {
    client.get(format!("{url}/role")).send().await.ok()?.json().await.ok()
}

/// Free now. An instance that finds it taken ends, and is started again on another.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
