//! An op that is a program: the job as a line of JSON on its standard input, the result as JSON on its output.

mod family;
mod streams;

use std::{
    collections::BTreeMap,
    env, io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use self::{family::Family, streams::Heard};
use crate::job::{Job, Outcome, null};

/// What is the agent's own affair: its database and its passwords, and its supervisor's ear.
const NOT_HANDED_ON: [&str; 6] = [
    "TENURE_DB",
    "DATABASE_URL",
    "PG_CONN_STRING",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// How a program is run.
pub(super) struct Command {
    /// A path with a slash is relative to the folder.
    pub program: String,
    pub arguments: Vec<String>,
    pub timeout: Duration,
    pub folder: Option<PathBuf>,
    pub environment: BTreeMap<String, String>,
}

impl Command {
    /// Runs it to its end; whatever is left of its process group then is killed.
    pub async fn run(&self, job: &Job, cut: &CancellationToken) -> Outcome {
        let mut family = match self.start() {
            Ok(child) => Family::of(child),
            Err(error) => {
                return Outcome::failed(format!("cannot start {}: {error}", self.program));
            }
        };
        let mut heard = Heard::default();
        let ended = tokio::select! {
            ended = streams::attend(&mut family, job.line(), &mut heard) => ended,
            () = tokio::time::sleep(self.timeout) => {
                family.end().await;
                return Outcome::failed(format!("timed out after {:?}", self.timeout));
            }
            () = cut.cancelled() => {
                family.end().await;
                return Outcome::GivenBack;
            }
        };
        match ended {
            Ok(status) => outcome(status, &heard),
            Err(unheard) => {
                family.end().await;
                Outcome::failed(unheard.to_string())
            }
        }
    }

    fn start(&self) -> io::Result<tokio::process::Child> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.arguments);
        for name in env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
            if !is_handed_on(&name) {
                command.env_remove(name);
            }
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
            .envs(&self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

fn is_handed_on(name: &str) -> bool {
    let is_token = name.starts_with("TENURE_") && name.contains("TOKEN");
    !is_token && !NOT_HANDED_ON.contains(&name)
}

fn outcome(status: ExitStatus, heard: &Heard) -> Outcome {
    if !status.success() {
        let complaint = heard.complaint();
        return match complaint.is_empty() {
            true => Outcome::failed(format!("ended with {status}")),
            false => Outcome::Failed(complaint),
        };
    }
    if heard.output.trim_ascii().is_empty() {
        return Outcome::Succeeded(null());
    }
    match serde_json::from_slice::<Box<RawValue>>(&heard.output) {
        Ok(result) => Outcome::Succeeded(result),
        Err(error) => Outcome::failed(format!("its output is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_agent_are_not_handed_on() {
        for name in ["TENURE_DB", "DATABASE_URL", "TENURE_TOKEN", "TENURE_AGENT_TOKEN"] {
            assert!(!is_handed_on(name), "{name}");
        }
        assert!(is_handed_on("PATH") && is_handed_on("TENURE_LOG"));
    }
}
