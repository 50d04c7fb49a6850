//! What a person or a program gets to read: results on stdout, logs and errors on stderr.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result, anyhow};
use tenure_database::sqlserver;
use tokio_postgres::error::DbError;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    prelude::*,
};

const LOG_VARIABLE: &str = "TENURE_LOG";
const LOG_DEFAULT: &str = "warn";
/// How many lines may wait to be written.
const ROOM: usize = 1_000;

/// Writes a result. A reader that has gone away, as `head` does, has had enough of it.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(()),
    }
}

/// Writes an error with everything that caused it, once.
pub fn complain(error: &anyhow::Error) {
    // Where stderr is closed, the exit code has to do.
    let _ = writeln!(std::io::stderr(), "error: {}", explained(error));
}

fn explained(error: &anyhow::Error) -> String {
    error.chain().filter_map(told).collect::<Vec<_>>().join(": ")
}

/// What one cause adds. The drivers' words for "the database said no" add nothing to what it said.
fn told(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(said) = cause.downcast_ref::<DbError>() {
        let hint = said.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        return Some(format!("{}{hint}", said.message()));
    }
    if let Some(said) = sqlserver::said(cause) {
        return Some(said);
    }
    let postgres = cause.downcast_ref::<tokio_postgres::Error>();
    let adds_nothing = postgres.is_some_and(|error| error.as_db_error().is_some())
        || cause.is::<rusqlite::ffi::Error>();
    (!adds_nothing).then(|| cause.to_string())
}

/// SQL Server's driver.
const DRIVER: &str = "tiberius";

/// Sends logs to stderr, so that results can be piped; `TENURE_LOG` chooses which.
///
/// A thread of its own writes them, until the guard is dropped. A pipe that nobody reads may be full, of a
/// child's output too, and must not stop an election; lines for which there is no room are dropped.
pub fn log_to_stderr() -> Result<WorkerGuard> {
    let asked = std::env::var(LOG_VARIABLE).unwrap_or_else(|_| LOG_DEFAULT.to_owned());
    // The parser's own error names itself twice, and says no more than this.
    let filter: Targets = asked.parse().map_err(|_| {
        anyhow!("{LOG_VARIABLE} is {asked:?}, and should be like `warn` or `tenure=debug`")
    })?;
    // It repeats what the URL asks for, and every error of the server, whatever it means here.
    let filter = match asked.contains(DRIVER) {
        true => filter,
        false => filter.with_target(DRIVER, LevelFilter::OFF),
    };
    let lines = NonBlockingBuilder::default().buffered_lines_limit(ROOM).lossy(true);
    let (writer, guard) = lines.thread_name("tenure-log").finish(std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(guard)
}
