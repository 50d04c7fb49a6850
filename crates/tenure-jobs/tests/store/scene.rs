//! A database with a store, a leader that has taken over, and what is asked of it.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};
use tenure::Term;
use tenure_jobs::{
    agent::{AgentView, Heartbeat},
    job::{DEFAULT_NAMESPACE, JobEpoch, JobView, Limits, NewJob, Row},
    round::{
        AgentName, Emptied, Grant, Reaping, Recall, Recalled, Reported, Round, RunOut, Status,
        Task, Verdict, Written,
    },
    store::{Patience, Store},
};
use tenure_testkit::secs;

/// The scope that all lead, unless a law says otherwise.
pub const SCOPE: &str = "jobs";

/// All that a store writes to.
pub const TABLES: [&str; 7] = [
    "tenure_job_changes",
    "tenure_job_leaders",
    "tenure_jobs",
    "tenure_job_leases",
    "tenure_job_results",
    "tenure_job_agents",
    "tenure_job_events",
];

/// Long enough for no machine to be too slow: laws move the moments in the database instead of waiting.
pub const PATIENCE: Patience = Patience {
    job_lease: secs(300),
    stale_after: secs(150),
    tombstone_after: secs(300),
    forget_after: secs(600),
    events_kept: 1_000_000,
};

pub const EVERYTHING: RunOut = RunOut { spares: false, agents: true };

/// What a law needs of a database beside its store.
#[async_trait]
pub trait Backend: Send + Sync {
    fn store(&self) -> &dyn Store;

    /// Another instance on the same database, with a patience of its own.
    fn another(&self, patience: Patience) -> Box<dyn Store>;

    /// A term of a scope that may write from now on; all before it may not.
    async fn term_of(&self, scope: &str) -> Term;

    /// All rows of a table in the order of their keys, by the names of their columns.
    async fn rows(&self, table: &str) -> Vec<Value>;

    /// The database's clock.
    async fn now(&self) -> Timestamp;

    /// Lets a job's lease run out in so many milliseconds, or lets it have run out.
    async fn set_left(&self, job_id: &str, millis: i64);

    /// Lets a job have been leased so many milliseconds ago.
    async fn set_leased(&self, job_id: &str, millis: i64);

    /// Lets a job's pause end in so many milliseconds.
    async fn set_pause(&self, job_id: &str, millis: i64);

    /// Lets a job's deadline be in so many milliseconds.
    async fn set_deadline(&self, job_id: &str, millis: i64);

    /// Makes an agent silent for so many milliseconds.
    async fn set_silence(&self, name: &str, millis: i64);
}

/// A leader.
pub struct Scene<'b> {
    pub backend: &'b dyn Backend,
    pub term: Term,
}

impl<'b> Scene<'b> {
    /// A leader that has taken over.
    pub async fn begin(backend: &'b dyn Backend) -> Self {
        let term = backend.term_of(SCOPE).await;
        let scene = Self { backend, term };
        scene.take_over(None).await;
        scene
    }

    /// The next leader, which has written nothing yet.
    pub async fn next_term(&mut self) -> i64 {
        self.term = self.backend.term_of(SCOPE).await;
        self.term.epoch().get()
    }

    pub fn store(&self) -> &'b dyn Store {
        self.backend.store()
    }

    pub async fn take_over(&self, leader_url: Option<&str>) {
        self.store().take_over(&self.term, leader_url).await.unwrap();
    }

    pub async fn write(&self, round: Round) -> Written {
        self.store().write(&self.term, &round).await.unwrap()
    }

    /// Stores jobs, which must be new, and says where.
    pub async fn submit(&self, jobs: impl IntoIterator<Item = NewJob>) -> Vec<(Row, JobEpoch)> {
        let jobs: Vec<_> = jobs.into_iter().collect();
        let count = jobs.len();
        let queued = self.write(Round { jobs, ..Round::default() }).await.queued;
        assert_eq!(queued.len(), count, "all are new");
        queued.into_iter().map(|queued| (queued.row, queued.job_epoch)).collect()
    }

    pub async fn grant(&self, grant: Grant) -> Vec<Task> {
        self.write(Round { grants: vec![grant], ..Round::default() }).await.tasks.remove(0)
    }

    /// A new job that an agent has, under a lease of the job's own name.
    pub async fn lease(&self, job: NewJob, agent: &str) -> (Row, JobEpoch) {
        let (namespace, id) = (job.namespace.clone(), job.job_id.clone());
        let at = self.submit([job]).await.remove(0);
        let tasks = self.grant(Grant { namespace, ..grant(&lease_of(&id), agent, &[at]) }).await;
        assert_eq!(tasks.len(), 1, "{id} is leased");
        at
    }

    pub async fn report(&self, reported: Reported) -> Verdict {
        self.write(Round { results: vec![reported], ..Round::default() }).await.verdicts.remove(0)
    }

    /// Ends a job that an agent has by [`Scene::lease`].
    pub async fn end(&self, job_id: &str) {
        assert_eq!(self.report(success(job_id)).await, Verdict::Accepted, "{job_id} ends");
    }

    pub async fn recall(&self, recall: Recall) -> Written {
        self.write(Round { recalls: vec![recall], ..Round::default() }).await
    }

    pub async fn recalled(&self, recall: Recall) -> Recalled {
        self.recall(recall).await.recalled.remove(0)
    }

    /// Makes a tombstone of an agent, and takes from it what it has.
    pub async fn bury(&self, agent: AgentName) -> Written {
        self.write(Round { reaping: emptied(&agent), burials: vec![agent], ..Round::default() })
            .await
    }

    pub async fn reap(&self) -> Written {
        self.write(Round { reaping: all_that_ran_out(), ..Round::default() }).await
    }

    pub async fn hear(&self, heartbeats: impl IntoIterator<Item = Heartbeat>) -> Written {
        let heartbeats = heartbeats.into_iter().collect();
        self.write(Round { heartbeats, ..Round::default() }).await
    }

    pub async fn has_run_out(&self) -> bool {
        self.store().has_run_out(&self.term, EVERYTHING).await.unwrap()
    }

    pub async fn job(&self, job_id: &str) -> JobView {
        self.job_in(DEFAULT_NAMESPACE, job_id).await
    }

    pub async fn job_in(&self, namespace: &str, job_id: &str) -> JobView {
        self.store().job(namespace, job_id).await.unwrap().unwrap()
    }

    /// What is left of a job's lease.
    pub async fn left(&self, job_id: &str) -> Duration {
        let expires_at = self.job(job_id).await.lease_expires_at.unwrap();
        expires_at.duration_since(self.backend.now().await).try_into().unwrap_or_default()
    }

    pub async fn agent(&self, name: &str) -> AgentView {
        let agents = self.store().agents(DEFAULT_NAMESPACE).await.unwrap();
        agents.into_iter().find(|agent| agent.name == name).unwrap()
    }

    pub async fn everything(&self) -> BTreeMap<&'static str, Vec<Value>> {
        let mut all = BTreeMap::new();
        for table in TABLES {
            all.insert(table, self.backend.rows(table).await);
        }
        all
    }

    pub async fn last_event(&self) -> i64 {
        self.store().span(0).await.unwrap().last
    }

    /// The events of every namespace above a number, each in one line.
    pub async fn told_after(&self, number: i64) -> Vec<String> {
        let events = self.backend.rows("tenure_job_events").await;
        let later = events.iter().filter(|event| event["event_number"].as_i64() > Some(number));
        later.map(line).collect()
    }
}

/// An event in one line: `[b] job.leased a@1 by ann: why`, without what it has not; `[default]` is left out.
fn line(event: &Value) -> String {
    let text = |column: &str| event[column].as_str();
    let mut line = match text("namespace") {
        Some(DEFAULT_NAMESPACE) => String::new(),
        Some("") => "[all] ".to_owned(),
        namespace => format!("[{}] ", namespace.unwrap()),
    };
    line += text("kind").unwrap();
    if let Some(job_id) = text("job_id") {
        line += &format!(" {job_id}@{}", event["job_epoch"]);
    }
    if let Some(agent) = text("agent") {
        line += &format!(" by {agent}");
    }
    if let Some(detail) = text("detail") {
        line += &format!(": {detail}");
    }
    line
}

pub fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

pub fn job(job_id: &str) -> NewJob {
    job_in(DEFAULT_NAMESPACE, job_id)
}

pub fn job_in(namespace: &str, job_id: &str) -> NewJob {
    NewJob {
        namespace: namespace.to_owned(),
        job_id: job_id.to_owned(),
        op: "copy".to_owned(),
        payload: json("{}"),
        priority: 1,
        pinned_agent: None,
        limits: Limits::default(),
        content_hash: Sha256::digest("{}").into(),
    }
}

/// The lease under which [`Scene::lease`] hands a job over.
pub fn lease_of(job_id: &str) -> String {
    format!("lease of {job_id}")
}

pub fn grant(lease_id: &str, agent: &str, jobs: &[(Row, JobEpoch)]) -> Grant {
    Grant {
        lease_id: lease_id.to_owned(),
        namespace: DEFAULT_NAMESPACE.to_owned(),
        agent: agent.to_owned(),
        lasts: None,
        jobs: jobs.to_vec(),
    }
}

/// What the agent says that got a job by [`Scene::lease`].
pub fn success(job_id: &str) -> Reported {
    Reported {
        namespace: None,
        lease_id: lease_of(job_id),
        agent: None,
        job_id: job_id.to_owned(),
        job_epoch: 1,
        status: Status::Succeeded,
        result: Some(json("1")),
        error: None,
    }
}

pub fn recall(job_id: &str) -> Recall {
    Recall {
        namespace: DEFAULT_NAMESPACE.to_owned(),
        job_id: job_id.to_owned(),
        job_epoch: None,
        lease_id: None,
        reason: "asked".to_owned(),
    }
}

/// All that an agent has, in a round of its own.
pub fn emptied(agent: &AgentName) -> Option<Reaping> {
    let AgentName { namespace, name } = agent.clone();
    let emptied = Emptied { namespace: Some(namespace), name, reason: "the agent was deleted" };
    Some(Reaping { emptied: Some(emptied), ..Reaping::default() })
}

pub fn all_that_ran_out() -> Option<Reaping> {
    Some(Reaping { run_out: Some(EVERYTHING), ..Reaping::default() })
}

pub fn strays(leases: &[&str]) -> Option<Reaping> {
    let strays = leases.iter().map(|&lease| lease.to_owned()).collect();
    Some(Reaping { strays, ..Reaping::default() })
}

pub fn named(name: &str) -> AgentName {
    AgentName { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() }
}

pub fn heartbeat(name: &str) -> Heartbeat {
    heartbeat_in(DEFAULT_NAMESPACE, name)
}

pub fn heartbeat_in(namespace: &str, name: &str) -> Heartbeat {
    Heartbeat {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: json(r#"{"namespace": "default"}"#),
        capabilities: json(r#"{"ops":["copy"]}"#),
        worker_profile: json("null"),
        metrics: json("{ }"),
        leases: None,
    }
}
