//! An agent that does nothing with its jobs, over connections of its own that it keeps.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::{PATIENCE, controller::Controller};

pub struct Agent {
    http: Client,
    name: String,
}

/// What it got at once.
pub struct Lease {
    id: String,
    tasks: Vec<(String, i64)>,
}

impl Lease {
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    fn read(answer: &Value) -> Option<Self> {
        let task =
            |task: &Value| Some((task["job_id"].as_str()?.to_owned(), task["job_epoch"].as_i64()?));
        let tasks = answer["tasks"].as_array()?.iter().map(task).collect::<Option<_>>()?;
        Some(Self { id: answer["lease_id"].as_str()?.to_owned(), tasks })
    }
}

impl Agent {
    pub fn new(name: impl Into<String>) -> Result<Self> {
        Ok(Self { http: Client::builder().timeout(PATIENCE).build()?, name: name.into() })
    }

    /// Up to so many jobs, or `None` when there was none in time.
    pub async fn lease(
        &self,
        at: &Controller,
        most: usize,
        wait: Duration,
    ) -> Result<Option<Lease>> {
        let wait = u64::try_from(wait.as_millis())?;
        let asked = json!({
            "agent": self.name, "capabilities": ["bench"], "max_tasks": most, "timeout_ms": wait,
        });
        let (status, answer) = self.post(at, "/v1/leases", &asked).await?;
        if status == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        ensure!(status == StatusCode::OK, "POST /v1/leases: {status} {answer}");
        let lease = Lease::read(&answer).with_context(|| format!("no lease: {answer}"))?;
        Ok(Some(lease))
    }

    /// All have succeeded, and each must be recorded.
    pub async fn report(&self, at: &Controller, lease: &Lease) -> Result<()> {
        let result = |(job_id, job_epoch): &(String, i64)| {
            let result = json!({"ok": true});
            json!({"job_id": job_id, "job_epoch": job_epoch, "status": "succeeded", "result": result})
        };
        let mut report = match &lease.tasks[..] {
            [one] => result(one),
            many => json!({"results": many.iter().map(result).collect::<Vec<_>>()}),
        };
        report["lease_id"] = json!(lease.id);
        let (status, answer) = self.post(at, "/v1/results", &report).await?;
        ensure!(
            status == StatusCode::OK && answer["ok"] == true,
            "POST /v1/results: {status} {answer}"
        );
        Ok(())
    }

    pub async fn beat(&self, at: &Controller) -> Result<()> {
        let beat = json!({
            "name": self.name, "labels": {"namespace": "default"}, "capabilities": {"ops": ["bench"]},
            "worker_profile": {"kind": "bench"}, "metrics": {"running": 0},
        });
        let (status, answer) = self.post(at, "/v1/agents/heartbeat", &beat).await?;
        ensure!(status == StatusCode::OK, "POST /v1/agents/heartbeat: {status} {answer}");
        Ok(())
    }

    /// Submits a job, as clients do; the status says whether the node takes jobs.
    pub async fn submit(&self, at: &Controller, op: &str, job_id: &str) -> Result<StatusCode> {
        let job = json!({"job_id": job_id, "op": op, "payload": {"number": 1}});
        Ok(self.post(at, "/v1/jobs", &job).await?.0)
    }

    async fn post(&self, at: &Controller, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let answer = self.http.post(format!("{}{path}", at.url)).json(body).send().await?;
        let (status, body) = (answer.status(), answer.bytes().await?);
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}
