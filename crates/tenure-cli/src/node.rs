//! `tenure node`: a controller and an agent under one supervisor.

use std::{
    collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration,
};

use anyhow::{Context, Result};
use prometheus_client::registry::Registry;
use reqwest::Url;
use tenure::{Candidate, DatabaseUrl, HolderId, Metrics, Scope, Timing, election::Handle};
use tenure_http::{Address, Health, Node as Shows, Server};
use tenure_jobs::{controller::follow_leaders, database::store, store::Patience};
use tenure_node::{Children, Moonlighting, Supervisor};
use tenure_run::{Nursery, Program};

use crate::{
    arguments::controller::TypedJobs,
    components::{ENGINE, JOBS},
    contend::{Contender, LockChoice},
    controller::url_of,
    database,
    run::KEEPER,
    shown::{Http, Shown},
};

/// This very program, whatever its file is called now.
const THIS: &str = "/proc/self/exe";
/// How long a controller that does not lead has to end.
const CONTROLLER_GRACE: Duration = Duration::from_secs(6);

/// What runs on this node, and how it contends.
#[derive(Debug)]
pub struct Node {
    pub db: DatabaseUrl,
    /// The same as it was typed, for the controller.
    pub typed_db: String,
    pub scope: Scope,
    pub node_id: HolderId,
    pub lock: LockChoice,
    pub timing: Timing,
    pub lease: Duration,
    pub http: Option<Http>,
    pub controller: ControllerChild,
    pub agent: Option<AgentChild>,
    /// Only whether it could.
    pub check: bool,
}

/// How the controller is started.
#[derive(Debug)]
pub struct ControllerChild {
    pub address: Address,
    pub url: Option<String>,
    pub jobs: TypedJobs,
    pub token_file: Option<PathBuf>,
    pub agent_token_file: Option<PathBuf>,
    pub allow_unauthenticated: bool,
}

/// How the agent is started.
#[derive(Debug)]
pub struct AgentChild {
    pub controllers: Vec<Url>,
    pub namespace: String,
    pub ops: Option<PathBuf>,
    pub concurrency: u16,
    pub grace: Duration,
    pub token_file: Option<PathBuf>,
}

impl Node {
    /// Runs until it is told to stop.
    pub async fn run(self) -> Result<()> {
        if self.check {
            println!("{} on {}: the settings are good", self.node_id, self.db);
            return Ok(());
        }
        let server = match self.http.clone() {
            Some(http) => Some(http.bind().await?),
            None => None,
        };
        database::prepare(&self.db, &[ENGINE, JOBS]).await?;
        let keeper = [THIS, KEEPER].map(OsString::from).to_vec();
        let nursery = Nursery::new(keeper).context("cannot inherit orphans")?;
        let (mut registry, metrics) = (Registry::default(), Metrics::default());
        metrics.register(&mut registry);
        let contender = Contender {
            db: &self.db,
            lock: &self.lock,
            candidate: Candidate::new(self.scope.clone(), self.node_id.clone()),
            timing: self.timing,
            processes: Some(nursery.processes()),
        };
        let fence = contender.fence()?;
        let builder = contender.unfenced()?.metrics(&metrics);
        let agent = Moonlighting::start(&nursery, self.agent_program());
        let builder = builder.fence(agent.before(fence));
        let children =
            Children { controller: self.controller_program(), grace: self.timing.drain_grace() };
        let supervisor = Supervisor::start(builder, nursery, children, agent)?;
        let shown = self.show(server, &supervisor.election(), registry)?;
        let ended = supervisor.run().await;
        shown.stop().await;
        Ok(ended?)
    }

    fn show(&self, server: Option<Server>, election: &Handle, registry: Registry) -> Result<Shown> {
        let Some(server) = server else { return Ok(Shown::beside(election)) };
        let store = store(&self.db, &self.timing, Patience::default())?;
        let news = store.news();
        let node = Shows {
            election: election.clone(),
            title: "tenure node".to_owned(),
            facts: vec![
                ("Controller".to_owned(), self.url()),
                ("Lock".to_owned(), self.lock.name().to_owned()),
            ],
            url: Some(self.url()),
            told: Some(follow_leaders(store, election, news)),
            health: Health::Role,
            metrics: Arc::new(registry),
        };
        let routes = tenure_http::routes(node, server.guard());
        Ok(Shown::serving(server, routes, election))
    }

    /// Where clients and agents reach this node: its controller.
    fn url(&self) -> String {
        let address = &self.controller.address;
        let usual = || match address.host().parse() {
            Ok(ip) => url_of(SocketAddr::new(ip, address.port())),
            Err(_) => format!("http://{address}"),
        };
        self.controller.url.clone().unwrap_or_else(usual)
    }

    /// As a supervisor on a terminal has it: what ends the supervisor does not reach the child before.
    fn program(&self, arguments: Vec<String>, db: Option<String>, grace: Duration) -> Program {
        let environment = BTreeMap::from([
            ("TENURE_DB", db),
            ("DATABASE_URL", None),
            // Those are for the supervisor: a child must not speak to systemd in its name.
            ("NOTIFY_SOCKET", None),
            ("WATCHDOG_USEC", None),
            ("WATCHDOG_PID", None),
        ]);
        let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value));
        Program {
            arguments,
            shown_as: Some("tenure".to_owned()),
            environment: environment.collect(),
            has_own_group: true,
            folder: None,
            token_file: None,
            until: None,
            grace,
            // The next supervisor may lead: nothing of this one works or writes then.
            has_grace_alone: false,
        }
    }

    fn controller_program(&self) -> Program {
        let ControllerChild { address, jobs, token_file, agent_token_file, .. } = &self.controller;
        let mut words = Words::of("controller");
        words.add("--delegate").with("--http", address).with("--url", self.url());
        words.with("--node-id", &self.node_id).with("--scope", &self.scope);
        words.with("--lock", self.lock.name());
        if let LockChoice::Etcd(members) = &self.lock {
            words.with("--etcd", members.join(","));
        }
        words.with("--lease", time(self.lease)).with("--job-lease", time(jobs.job_lease));
        words.with("--takeover-window", time(jobs.takeover_window));
        words.with("--stale-after", time(jobs.stale_after));
        words.with("--tombstone-after", time(jobs.tombstone_after));
        words.with("--forget-after", time(jobs.forget_after));
        words.with("--keep-events", jobs.keep_events).with("--most-waiting", jobs.most_waiting);
        words.with_file("--token-file", token_file.as_ref());
        words.with_file("--agent-token-file", agent_token_file.as_ref());
        if self.agent.is_some() {
            words.with("--own-agent", self.agent_name());
        }
        if self.controller.allow_unauthenticated {
            words.add("--allow-unauthenticated");
        }
        // Not among the arguments, which everybody on the machine can read: it may hold a password.
        self.program(words.0, Some(self.typed_db.clone()), CONTROLLER_GRACE)
    }

    fn agent_program(&self) -> Option<Program> {
        let agent = self.agent.as_ref()?;
        let mut words = Words::of("agent");
        for url in &agent.controllers {
            words.with("--controller", url);
        }
        words.with("--name", self.agent_name()).with("--namespace", &agent.namespace);
        words.with("--concurrency", agent.concurrency).with("--grace", time(agent.grace));
        words.with_file("--ops", agent.ops.as_ref());
        words.with_file("--token-file", agent.token_file.as_ref());
        // It hands in what it finished, on top of its own grace.
        Some(self.program(words.0, None, agent.grace + CONTROLLER_GRACE))
    }

    fn agent_name(&self) -> String {
        format!("{}-worker", self.node_id)
    }
}

/// The arguments of a child.
struct Words(Vec<String>);

impl Words {
    fn of(command: &str) -> Self {
        Self(vec![THIS.to_owned(), command.to_owned()])
    }

    fn add(&mut self, word: &str) -> &mut Self {
        self.0.push(word.to_owned());
        self
    }

    /// In one word: a value may begin with a dash.
    fn with(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.0.push(format!("{name}={value}"));
        self
    }

    fn with_file(&mut self, name: &str, path: Option<&PathBuf>) {
        if let Some(path) = path {
            self.with(name, path.display());
        }
    }
}

fn time(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
