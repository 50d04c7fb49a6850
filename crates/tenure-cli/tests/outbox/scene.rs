//! A database with an outbox, and workers as processes.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::{eventually, eventually_true, pause, postgres::Postgres, secs};
use tokio_postgres::Client;

pub struct Scene {
    pub folder: TempDir,
    pub postgres: Postgres,
    pub admin: Client,
}

/// A worker that is killed with this value.
pub struct Worker(pub Child);

impl Scene {
    pub async fn new() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let admin = postgres.connect().await.unwrap();
        let scene = Self { folder: TempDir::new().unwrap(), postgres, admin };
        let installed = scene.run(&["install"]);
        assert!(installed.status.success(), "{installed:?}");
        scene
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--db", &self.postgres.url(), "outbox"]).args(arguments);
        command.current_dir(&self.folder).env("TENURE_LOG", "tenure=info").stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// A file of rails: the one named `card` is this.
    pub fn rails(&self, card: &str) {
        fs::write(self.folder.path().join("rails.toml"), format!("[rails.card]\n{card}\n"))
            .unwrap();
    }

    pub fn http_rail(&self, url: &str) {
        self.rails(&format!("type = 'http'\nurl = '{url}'\nreference = '/id'"));
    }

    /// Starts a worker; what it logs is in a file of its name.
    pub fn worker(&self, name: &str, options: &[&str]) -> Worker {
        let log = fs::File::create(self.folder.path().join(format!("log-{name}"))).unwrap();
        let mut command = self.command(&["work", "--rails", "rails.toml", "--worker-id", name]);
        Worker(command.args(options).stderr(log).spawn().unwrap())
    }

    pub fn log_of(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("log-{name}"))).unwrap()
    }

    /// Enqueues instructions `i-1` to `i-count` of one participant, each with the key `k-…`.
    pub fn enqueue(&self, participant: &str, numbers: std::ops::RangeInclusive<usize>) {
        let lines: String = numbers.map(|number| line(participant, number) + "\n").collect();
        fs::write(self.folder.path().join("in.jsonl"), lines).unwrap();
        let enqueued = self.run(&["enqueue", "--file", "in.jsonl"]);
        assert!(enqueued.status.success(), "{enqueued:?}");
    }

    pub async fn count(&self, from: &str) -> i64 {
        self.admin.query_one(&format!("SELECT count(*) FROM {from}"), &[]).await.unwrap().get(0)
    }

    pub async fn nothing_is_pending(&self, within: Duration) {
        eventually_true("nothing is pending", within, async || {
            self.count("payment_outbox_pending").await == 0
        })
        .await;
    }

    /// The states of an instruction's attempts, in their order.
    pub async fn attempts_of(&self, instruction: &str) -> Vec<String> {
        let attempts = "SELECT attempt_no, state::text FROM payment_outbox_attempts
                        WHERE instruction_id = $1 ORDER BY attempt_no";
        let rows = self.admin.query(attempts, &[&instruction]).await.unwrap();
        let numbers: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(numbers, (1..=i32::try_from(rows.len()).unwrap()).collect::<Vec<_>>());
        rows.iter().map(|row| row.get(1)).collect()
    }

    /// Every instruction has exactly one terminal attempt, and its attempts are numbered without gaps.
    pub async fn assert_each_ended_once(&self, count: i64) {
        assert_eq!(self.count("payment_outbox_pending").await, 0);
        let each = "(SELECT outbox_id FROM payment_outbox_attempts GROUP BY outbox_id
                     HAVING count(*) FILTER (WHERE state IN ('DISPATCHED', 'FAILED')) = 1
                        AND min(attempt_no) = 1 AND max(attempt_no) = count(*)
                        AND max(attempt_no) = max(attempt_no) FILTER (WHERE state IN ('DISPATCHED', 'FAILED'))
                    ) AS each";
        assert_eq!(self.count(each).await, count);
        let instructions = "(SELECT DISTINCT instruction_id FROM payment_outbox_attempts) AS i";
        assert_eq!(self.count(instructions).await, count);
    }
}

impl Worker {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub fn pause(&self) {
        pause(Pid::from_child(&self.0)).unwrap();
    }

    /// Waits until it has ended, and returns its exit code.
    pub async fn code(&mut self) -> Option<i32> {
        let process = std::sync::Mutex::new(&mut self.0);
        eventually("the worker ends", secs(60), async || {
            process.lock().unwrap().try_wait().unwrap()
        })
        .await
        .code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn line(participant: &str, number: usize) -> String {
    let instruction: Value = json!({
        "instruction_id": format!("i-{number}"), "participant_id": participant,
        "idempotency_key": format!("k-{number}"), "rail_type": "card", "payload": {"amount": number},
    });
    instruction.to_string()
}
