//! Controllers and nodes as processes, and what is asked of them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::{Client, Method};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_run::family;
use tenure_testkit::{Port, eventually, eventually_true, millis, pause, postgres::Postgres, secs};

/// Runs a test of this module on each database.
macro_rules! on_both {
    ($($test:ident)*) => {
        mod on_postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&mut crate::scene::Cluster::on_postgres().await).await;
            })*
        }

        mod on_sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&mut crate::scene::Cluster::on_sqlite()).await;
            })*
        }
    };
}

/// How long anything may take, a failover among them.
pub const SOON: Duration = secs(30);

/// How much of a log is shown.
const LAST_LINES: usize = 15;

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub text: String,
    pub headers: reqwest::header::HeaderMap,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Whatever was asked for was done.
    pub fn done(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    pub fn error(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or_default().to_owned())
    }

    pub fn stale(&self) -> String {
        assert_eq!(self.error(), (409, "STALE_EPOCH".to_owned()), "{self:?}");
        self.json()["stale"].as_str().unwrap().to_owned()
    }
}

/// A process at a place that stays the same when it is started again.
pub struct Place {
    pub name: String,
    pub url: String,
    /// Where a node's supervisor answers.
    pub supervisor: String,
    ports: [Port; 2],
    process: Option<Child>,
}

impl Place {
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.process.as_ref().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// With kill -9; whoever it had is ended by its keepers.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits for its end, and says with which code.
    pub async fn code(&mut self) -> Option<i32> {
        let process = self.process.as_mut().unwrap();
        let status = eventually("the process ends", SOON, || {
            std::future::ready(process.try_wait().unwrap())
        })
        .await;
        status.code()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Its descendants whose command line has this word: `controller` or `agent`.
    pub fn children(&self, word: &str) -> Vec<Pid> {
        let below = family::descendants(self.pid(), &std::collections::HashSet::new()).unwrap();
        let pids = below.into_iter().map(|one| one.pid);
        pids.filter(|pid| command_line(*pid).contains(word)).collect()
    }

    pub async fn child(&self, word: &str) -> Pid {
        let what = format!("{} has a child {word}", self.name);
        eventually(&what, SOON, async || self.children(&format!("\0{word}\0")).first().copied())
            .await
    }
}

pub fn command_line(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default()
}

pub fn is_alive(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()))
        .is_ok_and(|stat| !stat.contains(") Z"))
}

/// Some places, one database.
pub struct Cluster {
    pub folder: TempDir,
    pub postgres: Option<Postgres>,
    pub db: String,
    pub places: Vec<Place>,
    pub client: Client,
    /// What is said of the lock to nodes.
    pub lock: String,
    /// More arguments for controllers.
    pub arguments: Vec<String>,
    /// More environment for all processes.
    pub environment: Vec<(String, String)>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        for place in &mut self.places {
            if let Some(process) = &mut place.process {
                let pid = Pid::from_child(process);
                let family = family::descendants(pid, &std::collections::HashSet::new()).unwrap();
                let _ = process.kill();
                let _ = process.wait();
                // A keeper may be frozen, and ends nobody.
                for one in family {
                    let _ = kill_process(one.pid, Signal::KILL);
                }
            }
        }
    }
}

impl Cluster {
    /// What everybody said last: a test that fails shows it.
    fn show_logs(&self) {
        let logs = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        for log in logs.filter(|file| file.file_name().to_string_lossy().starts_with("log-")) {
            let all = lines(&log.path());
            eprintln!("── {}", log.file_name().to_string_lossy());
            all.iter()
                .skip(all.len().saturating_sub(LAST_LINES))
                .for_each(|line| eprintln!("{line}"));
        }
    }

    pub async fn on_postgres() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let db = postgres.url();
        Self::on(TempDir::new().unwrap(), Some(postgres), db)
    }

    pub fn on_sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        let db = format!("sqlite:{}", folder.path().join("tenure.db").display());
        Self::on(folder, None, db)
    }

    fn on(folder: TempDir, postgres: Option<Postgres>, db: String) -> Self {
        Self {
            folder,
            postgres,
            db,
            places: Vec::new(),
            client: Client::builder().no_proxy().build().unwrap(),
            lock: String::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn argue(&mut self, arguments: &str) {
        self.arguments.extend(arguments.split_whitespace().map(str::to_owned));
    }

    /// A place where nothing runs yet.
    pub fn place(&mut self) -> usize {
        let ports = [Port::claim().unwrap(), Port::claim().unwrap()];
        let [url, supervisor] =
            ports.each_ref().map(|port| format!("http://127.0.0.1:{}", port.number()));
        let name = format!("node-{}", self.places.len());
        self.places.push(Place { name, url, supervisor, ports, process: None });
        self.places.len() - 1
    }

    pub fn command(&self, log: &str) -> Command {
        let log = fs::File::options().create(true).append(true).open(self.path(log)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.env("TENURE_LOG", "tenure=info").env("TENURE_DB", &self.db);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Only who freezes is waited for so long on Postgres, and a write there has a fifth of it.
    fn lease_time(&self) -> &'static str {
        match self.postgres {
            Some(_) => "5s",
            None => "3s",
        }
    }

    /// Starts a controller that contends for itself.
    pub fn start_controller(&mut self, at: usize) {
        let place = &self.places[at];
        let port = place.ports[0].number().to_string();
        let mut command = self.command(&format!("log-{}", place.name));
        let lease = self.lease_time();
        command.args(["controller", "--http", &port, "--node-id", &place.name, "--lease", lease]);
        command.args(&self.arguments);
        self.places[at].process = Some(command.spawn().unwrap());
    }

    /// Starts so many controllers, and waits until one of them leads: that one.
    pub async fn controllers(&mut self, count: usize) -> usize {
        for _ in 0..count {
            let at = self.place();
            self.start_controller(at);
        }
        let (leader, _) = self.leader_after(0).await;
        for at in 0..count {
            self.waits_for_leader(at, leader).await;
        }
        leader
    }

    /// Waits until this one knows who leads, and where.
    pub async fn waits_for_leader(&self, at: usize, leader: usize) {
        let what = format!("{} names {}", self.places[at].name, self.places[leader].name);
        eventually_true(&what, SOON, async || {
            self.role(at).await.unwrap_or_default()["leader_url"] == self.places[leader].url
        })
        .await;
    }

    /// Writes the settings of a node; `more` is put at their end.
    pub fn configure(&mut self, at: usize, more: &str) {
        let place = &self.places[at];
        let lease = self.lease_time();
        let [http, supervisor] = place.ports.each_ref().map(Port::number);
        let text = format!(
            "node_id = \"{}\"\n[lock]\nlease = \"{lease}\"\n{}\n[http]\naddress = \"{supervisor}\"\n\
             [controller]\nhttp = \"{http}\"\n{more}",
            place.name, self.lock
        );
        self.write(&format!("{}.toml", place.name), &text);
    }

    pub fn start_node(&mut self, at: usize) {
        let name = self.places[at].name.clone();
        let mut command = self.command(&format!("log-{name}"));
        command.args(["node", "--config", &format!("{name}.toml")]);
        self.places[at].process = Some(command.spawn().unwrap());
    }

    /// Freezes a process, but not inside a write to a file: there it would keep the file's lock, and nobody could lead.
    pub async fn freeze(&self, at: usize) {
        let is_frozen_well = || {
            pause(self.places[at].pid()).unwrap();
            let is_free = self.postgres.is_some() || self.file_is_free();
            if !is_free {
                self.places[at].signal(Signal::CONT);
            }
            std::future::ready(is_free)
        };
        eventually_true("it is frozen", SOON, is_frozen_well).await;
    }

    fn file_is_free(&self) -> bool {
        let file = rusqlite::Connection::open(self.path("tenure.db")).unwrap();
        file.busy_timeout(millis(20)).unwrap();
        file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
    }

    /// The table of an agent that knows all places.
    pub fn moonlighting(&self) -> String {
        let urls: Vec<_> = self.places.iter().map(|place| format!("\"{}\"", place.url)).collect();
        format!("[agent]\ncontrollers = [{}]\n", urls.join(", "))
    }

    /// Starts so many nodes, all with this agent, and waits until one of them leads: that one.
    pub async fn nodes(&mut self, count: usize, with_agents: bool, more: &str) -> usize {
        let places: Vec<_> = (0..count).map(|_| self.place()).collect();
        let agent = if with_agents { self.moonlighting() } else { String::new() };
        for at in places {
            self.configure(at, &format!("{more}\n{agent}"));
            self.start_node(at);
        }
        self.leader_after(0).await.0
    }

    pub fn log_of(&self, at: usize) -> String {
        fs::read_to_string(self.path(&format!("log-{}", self.places[at].name))).unwrap_or_default()
    }

    pub async fn send(&self, method: Method, url: &str, body: Option<Value>) -> Option<Answer> {
        let mut request = self.client.request(method, url).timeout(secs(150));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Answer { status, headers, text: response.text().await.ok()? })
    }

    pub async fn post(&self, at: usize, path: &str, body: Value) -> Answer {
        let url = format!("{}{path}", self.places[at].url);
        self.send(Method::POST, &url, Some(body))
            .await
            .unwrap_or_else(|| panic!("no answer of {url}"))
    }

    pub async fn get(&self, at: usize, path: &str) -> Answer {
        let url = format!("{}{path}", self.places[at].url);
        self.send(Method::GET, &url, None).await.unwrap_or_else(|| panic!("no answer of {url}"))
    }

    /// What `/role` says, if anybody answers.
    pub async fn role(&self, at: usize) -> Option<Value> {
        let url = format!("{}/role", self.places[at].url);
        let request = self.client.get(url).timeout(millis(500));
        request.send().await.ok()?.json().await.ok()
    }

    pub async fn role_of(&self, at: usize) -> String {
        let role = self.role(at).await.unwrap_or_default();
        role["role"].as_str().unwrap_or_default().to_owned()
    }

    /// Who leads in a term after this one, and in which.
    pub async fn leader_after(&self, epoch: i64) -> (usize, i64) {
        eventually("one of them leads", SOON, async || {
            for at in 0..self.places.len() {
                let role = self.role(at).await.unwrap_or_default();
                let led = role["leader_epoch"].as_i64().unwrap_or(0);
                if role["role"] == "LEADER" && led > epoch {
                    return Some((at, led));
                }
            }
            None
        })
        .await
    }

    pub async fn waits_for_role(&self, at: usize, role: &str) {
        let what = format!("{} is {role}", self.places[at].name);
        eventually_true(&what, SOON, async || self.role_of(at).await == role).await;
    }

    pub async fn submit(&self, at: usize, job_id: &str, op: &str, payload: Value) -> Answer {
        self.post(at, "/v1/jobs", json!({"job_id": job_id, "op": op, "payload": payload})).await
    }

    pub async fn lease(&self, at: usize, agent: &str, most: usize) -> Value {
        let asked = json!({"agent": agent, "max_tasks": most, "timeout_ms": 10_000});
        self.post(at, "/v1/leases", asked).await.done()
    }

    /// One job with this id, leased by this agent: the lease.
    pub async fn leased(&self, at: usize, job_id: &str, agent: &str) -> String {
        self.submit(at, job_id, "echo", json!(1)).await.done();
        let lease = self.lease(at, agent, 1).await;
        assert_eq!(lease["tasks"][0]["job_id"], job_id);
        lease["lease_id"].as_str().unwrap().to_owned()
    }

    pub async fn job(&self, at: usize, job_id: &str) -> Value {
        self.get(at, &format!("/v1/jobs/{job_id}")).await.done()
    }

    pub async fn waits_for_state(&self, at: usize, job_id: &str, state: &str) -> Value {
        eventually(&format!("{job_id} is {state}"), SOON, async || {
            let found = self.get(at, &format!("/v1/jobs/{job_id}")).await;
            (found.status == 200).then(|| found.json()).filter(|job| job["state"] == state)
        })
        .await
    }

    /// Starts an agent that is killed with this value.
    pub fn agent(&self, name: &str, arguments: &[&str]) -> Agent {
        let urls: Vec<_> = self.places.iter().map(|place| place.url.as_str()).collect();
        let mut command = self.command(&format!("log-{name}"));
        command.args(["agent", "--controller", &urls.join(","), "--name", name]).args(arguments);
        Agent(command.spawn().unwrap())
    }

    pub fn tenure(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = self.command("log-tenure");
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
    }
}

pub fn result(lease: &str, job_id: &str, job_epoch: i64) -> Value {
    json!({
        "lease_id": lease, "job_id": job_id, "job_epoch": job_epoch,
        "status": "succeeded", "result": {"by": lease},
    })
}

/// An agent's process.
pub struct Agent(pub Child);

impl Agent {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub async fn code(&mut self) -> Option<i32> {
        eventually("the agent ends", secs(40), || std::future::ready(self.0.try_wait().unwrap()))
            .await
            .code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a file that children append to.
pub fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
