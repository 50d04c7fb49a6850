//! The command `tenure`: arguments, settings and wiring; the product is in the crates that it wires.

mod arguments;
mod database;
mod migrate;
mod output;
mod scope;
mod status;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::Meant;

fn main() -> ExitCode {
    let meant = arguments::read();
    match output::log_to_stderr().and_then(|()| run(meant)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(meant: Meant) -> Result<()> {
    match meant {
        Meant::Migrate(migrate) => migrate.run().await,
        Meant::Status(question) => question.answer().await,
        Meant::Change(change) => change.run().await,
    }
}
