//! An agent under test, and what is looked at.

use std::fs;

use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::Value;
use tenure_agent::{Drained, Metrics, Ops, Settings};
use tenure_testkit::{eventually, millis, secs};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::controller::Node;

/// An agent at work.
pub struct Running {
    pub stop: CancellationToken,
    pub hurry: CancellationToken,
    pub task: JoinHandle<Drained>,
    registry: Registry,
}

pub fn settings(urls: &[&str]) -> Settings {
    Settings {
        name: "a".to_owned(),
        controllers: urls.iter().map(|url| url.parse().unwrap()).collect(),
        poll: secs(30),
        heartbeat: millis(200),
        grace: secs(10),
        ..Settings::default()
    }
}

/// Ops as a file describes them.
pub fn ops(text: &str) -> Ops {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    Ops::read(file.path()).unwrap()
}

/// An op named `x` that is a line of shell.
pub fn shell(line: &str, rest: &str) -> Ops {
    ops(&format!("[ops.x]\ncommand = ['sh', '-c', '''{line}''']\n{rest}"))
}

pub fn start(settings: Settings, ops: Ops) -> Running {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let (stop, hurry) = (CancellationToken::new(), CancellationToken::new());
    let run = tenure_agent::run(settings, ops, metrics, stop.clone(), hurry.clone());
    let task = tokio::spawn(async move { run.await.unwrap() });
    Running { stop, hurry, task, registry }
}

/// An agent of one controller, with what is built in.
pub fn agent_of(node: &Node) -> Running {
    start(settings(&[&node.url]), Ops::built_in())
}

impl Running {
    /// A line of the metrics, as it is shown.
    pub fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Asks it to stop, and waits until it has.
    pub async fn drained(self) -> usize {
        self.stop.cancel();
        within("the end", self.task).await.unwrap().not_handed_in
    }
}

/// What comes of a future that has to be quick about it.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::select! {
        value = future => value,
        () = tokio::time::sleep(secs(20)) => panic!("{what}: not within 20 s"),
    }
}

/// The first result of a job that is handed in.
pub async fn result_of(node: &Node, job_id: &str) -> Value {
    let what = format!("a result of {job_id}");
    eventually(&what, secs(20), async || node.results_of(job_id).first().cloned()).await
}

/// A number that a program has written into a file.
pub async fn number_in(path: &std::path::Path) -> i32 {
    eventually("a number in a file", secs(20), async || {
        fs::read_to_string(path).ok()?.strip_suffix('\n')?.trim().parse().ok()
    })
    .await
}

/// Whether no process has that number, but perhaps one that is dead and not yet buried.
pub fn is_gone(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}
