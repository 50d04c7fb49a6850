//! The command `tenure`: arguments, settings and wiring; the product is in the crates that it wires.

mod agent;
mod arguments;
mod components;
mod contend;
mod controller;
mod database;
mod demo;
mod drain;
mod migrate;
mod node;
mod outbox;
mod output;
mod run;
mod scope;
mod shown;
#[cfg(test)]
mod statements;
mod status;
mod submissions;

use std::{env, process::ExitCode};

use anyhow::Result;

use crate::arguments::Meant;

fn main() -> ExitCode {
    // Before anything else: a keeper stays small.
    if env::args().nth(1).as_deref() == Some(run::KEEPER) {
        return match tenure_run::keeper::keep() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let meant = arguments::read();
    let failure = meant.failure();
    match output::log_to_stderr().and_then(|_guard| carry_out(meant)) {
        Ok(code) => code,
        Err(error) => {
            output::complain(&error);
            failure
        }
    }
}

/// On one thread, which is small and enough to supervise; those that serve many requests have all of them.
fn carry_out(meant: Meant) -> Result<ExitCode> {
    let mut runtime = match meant {
        Meant::Submissions(_) | Meant::Outbox(_) | Meant::Controller(_) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    runtime.enable_all().build()?.block_on(begin(meant))
}

async fn begin(meant: Meant) -> Result<ExitCode> {
    match meant {
        Meant::Run(run) => return Ok(run.run().await?.into()),
        Meant::Demo(demo) => return demo.run().await,
        Meant::Drain(drain) => drain.run().await?,
        Meant::Submissions(submissions) => submissions.run().await?,
        Meant::Outbox(outbox) => return outbox.run().await,
        Meant::Controller(controller) => controller.run().await?,
        Meant::Agent(agent) => return agent.run().await,
        Meant::Node(node) => node.run().await?,
        Meant::Migrate(migrate) => migrate.run().await?,
        Meant::Status(question) => question.answer().await?,
        Meant::Change(change) => change.run().await?,
    }
    Ok(ExitCode::SUCCESS)
}
