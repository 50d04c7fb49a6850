//! A rail that is a program: the instruction as JSON on its standard input, the outcome as JSON on its output.

use std::{io, process::Stdio};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};
use uuid::Uuid;

use super::{
    DISPATCH_ERROR, Outcome, Rail, State,
    settings::{CommandSettings, Refused},
};
use crate::claim::Claim;

/// The most that is read of what a program says.
const LARGEST_ANSWER: u64 = 64 * 1024;

pub(super) struct CommandRail {
    program: String,
    arguments: Vec<String>,
}

#[derive(Serialize)]
struct Asked<'c> {
    outbox_id: Uuid,
    instruction_id: &'c str,
    participant_id: &'c str,
    sequence_id: i64,
    idempotency_key: &'c str,
    rail_type: &'c str,
    attempt_no: i32,
    payload: &'c RawValue,
}

#[derive(Deserialize)]
struct Answered {
    state: String,
    rail_reference: Option<String>,
    rail_code: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
}

impl CommandRail {
    pub fn new(settings: CommandSettings) -> Result<Self, Refused> {
        let mut words = settings.command.into_iter();
        match words.next() {
            Some(program) if !program.is_empty() => {
                Ok(Self { program, arguments: words.collect() })
            }
            _ => Err(("command", "must be a list: a program and its arguments".to_owned())),
        }
    }

    async fn run(&self, claim: &Claim) -> io::Result<Outcome> {
        let mut family = Family(self.start()?);
        let child = &mut family.0;
        let asked = asked(claim)?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let written = async move {
            if let Some(mut input) = input {
                // A program may have heard enough before the end.
                let _ = input.write_all(&asked).await;
            }
        };
        let ((), output, errors) = tokio::join!(written, all(output), all(errors));
        let status = child.wait().await?;
        Ok(match serde_json::from_slice::<Answered>(&output?) {
            Ok(answered) => outcome(answered),
            Err(error) => {
                let said = String::from_utf8_lossy(&errors?).trim().to_owned();
                let why = if status.success() {
                    format!("no outcome on its output: {error}")
                } else {
                    said
                };
                Outcome::retryable(
                    DISPATCH_ERROR,
                    format!("{} ended with {status}: {why}", self.program),
                )
            }
        })
    }

    fn start(&self) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            // The database is the worker's affair, and its password too.
            .env_remove("TENURE_DB")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

#[async_trait]
impl Rail for CommandRail {
    async fn dispatch(&self, claim: &Claim) -> Outcome {
        self.run(claim).await.unwrap_or_else(|error| {
            Outcome::retryable(DISPATCH_ERROR, format!("{}: {error}", self.program))
        })
    }
}

/// A program with what it started: whoever is given up on is ended as a whole.
struct Family(Child);

impl Drop for Family {
    fn drop(&mut self) {
        // It has no number any more when it was waited for.
        let pid = self.0.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn asked(claim: &Claim) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Asked {
        outbox_id: claim.outbox_id,
        instruction_id: &claim.instruction_id,
        participant_id: &claim.participant_id,
        sequence_id: claim.sequence_id,
        idempotency_key: &claim.idempotency_key,
        rail_type: &claim.rail_type,
        attempt_no: claim.attempt_no(),
        payload: &claim.payload,
    })?;
    line.push(b'\n');
    Ok(line)
}

fn outcome(answered: Answered) -> Outcome {
    let Some(state) = State::named(&answered.state) else {
        let message = format!("{:?} is not DISPATCHED, RETRYABLE or FAILED", answered.state);
        return Outcome::retryable(DISPATCH_ERROR, message);
    };
    Outcome {
        state,
        rail_reference: answered.rail_reference,
        rail_code: answered.rail_code,
        error_code: answered.error_code,
        error_message: answered.error_message,
    }
}

async fn all(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(LARGEST_ANSWER).read_to_end(&mut read).await?;
        // The rest is not kept; a program that says too much must not wait for a reader.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(read)
}
