//! `tenure outbox stats` and `tenure outbox doctor`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use tenure_database::{Deadline, postgres::PostgresUrl};
use tenure_outbox::{
    doctor::{self, Finding},
    store::Store,
};

use crate::{database::CONNECT, output};

/// The view's columns, as people read them, and by which column.
const LINES: [(&str, &[&str]); 6] = [
    ("pending", &["pending_count", "due_pending_count", "due_unleased_count"]),
    ("leased", &["leased_count", "expired_lease_count"]),
    ("done", &["dispatched_count", "failed_count", "dlq_count", "retryable_count"]),
    ("latest attempt", &["attempt_1", "attempt_2", "attempt_3", "attempt_4", "attempt_5_plus"]),
    ("last hour", &["dispatched_last_hour", "failed_last_hour"]),
    ("oldest pending", &["oldest_pending_age_seconds"]),
];

pub(super) async fn stats(store: &Store, json: bool) -> Result<()> {
    let status = store.status().await?;
    if json {
        return output::print(&format!("{status}\n"));
    }
    let columns: Map<String, Value> =
        serde_json::from_str(&status).context("supervisor_outbox_status")?;
    let text: String = LINES.iter().map(|(name, of)| line(name, of, &columns)).collect();
    output::print(&text)
}

fn line(name: &str, of: &[&str], columns: &Map<String, Value>) -> String {
    let number = |column: &&str| match columns.get(*column) {
        Some(Value::Number(number)) => number.to_string(),
        _ => "-".to_owned(),
    };
    let word = |column: &&str| {
        column.trim_end_matches("_count").trim_end_matches("_last_hour").replace('_', " ")
    };
    let parts: Vec<_> =
        of.iter().map(|column| format!("{} {}", number(column), word(column))).collect();
    format!("{name:<16}{}\n", parts.join(", "))
}

pub(super) async fn doctor(url: &PostgresUrl, json: bool) -> Result<ExitCode> {
    let session = url.connect(Deadline::after(CONNECT)).await?;
    let findings = Deadline::after(CONNECT).run(doctor::examine(&session)).await?;
    let told: Vec<_> = findings
        .iter()
        .map(|finding| match finding {
            Finding::Missing(fact) => ("missing", fact),
            Finding::Unexpected(fact) => ("unexpected", fact),
        })
        .collect();
    let text = match json {
        true => {
            let told: Vec<_> =
                told.iter().map(|(what, fact)| json!({"finding": what, "fact": fact})).collect();
            format!("{}\n", Value::Array(told))
        }
        false if told.is_empty() => format!("the outbox in {url} is as it should be\n"),
        false => told.iter().map(|(what, fact)| format!("{what}: {fact}\n")).collect(),
    };
    output::print(&text)?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
