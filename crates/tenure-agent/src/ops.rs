//! What an agent can do: ops that are built in, and ops that are programs.

mod built_in;
mod command;
mod settings;

use std::{collections::BTreeMap, fmt, path::Path};

use tokio_util::sync::CancellationToken;

pub use self::settings::OpsError;
use self::{built_in::BuiltIn, command::Command};
use crate::job::{Job, Outcome};

/// What an agent can do, by the names that jobs ask for.
pub struct Ops(BTreeMap<String, Op>);

enum Op {
    BuiltIn(BuiltIn),
    Command(Command),
}

/// The names alone: an environment may hold secrets.
impl fmt::Debug for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ops").field(&self.names()).finish()
    }
}

impl Ops {
    /// `echo`, `sleep` and `sha256`.
    #[must_use]
    pub fn built_in() -> Self {
        let all = BuiltIn::ALL.map(|op| (op.name().to_owned(), Op::BuiltIn(op)));
        Self(all.into())
    }

    /// What a TOML file describes.
    pub fn read(path: &Path) -> Result<Self, OpsError> {
        settings::read(path)
    }

    /// The names of all of them, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Runs a job to its end, or until it is cut short.
    pub(crate) async fn run(&self, job: &Job, cut: &CancellationToken) -> Outcome {
        let outcome = match self.0.get(&job.op) {
            Some(Op::Command(command)) => command.run(job, cut).await,
            Some(Op::BuiltIn(op)) => {
                cut.run_until_cancelled(op.run(&job.payload)).await.unwrap_or(Outcome::GivenBack)
            }
            // It was leased all the same; nobody would ever hear of it otherwise.
            None => Outcome::failed(format!("this agent has no op {:?}", job.op)),
        };
        outcome.within_limits()
    }
}
