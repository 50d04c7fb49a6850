//! The status for people: columns of text.

use std::{array, fmt};

use tenure::DatabaseUrl;

use super::{ScopeStatus, State, Status, TermRow};

const SCOPES: [&str; 8] =
    ["SCOPE", "STATE", "HOLDER", "EPOCH", "FENCE", "LEFT", "HEARTBEAT", "LOCK"];
const TERMS: [&str; 5] = ["EPOCH", "HOLDER", "BEGAN", "ENDED", "REASON"];

const GAP: &str = "  ";
const NOTHING: &str = "-";

pub(super) fn of(status: &Status, db: &DatabaseUrl) -> String {
    if status.scopes.is_empty() {
        return format!("no scopes yet: nobody has ever asked for a lock in {db}\n");
    }
    let scopes: Vec<_> = status.scopes.iter().map(scope_row).collect();
    let mut text = columns("", SCOPES, &scopes);
    for scope in status.scopes.iter().filter(|scope| !scope.terms.is_empty()) {
        let terms: Vec<_> = scope.terms.iter().map(term_row).collect();
        text += &format!("\nLast terms of {}\n", plain(&scope.scope));
        text += &columns(GAP, TERMS, &terms);
    }
    text
}

fn scope_row(scope: &ScopeStatus) -> [String; 8] {
    let lock = [&scope.lock, &scope.lock_place].map(|part| part.as_deref().unwrap_or_default());
    [
        plain(&scope.scope),
        scope.state.to_string(),
        or_nothing(scope.holder.as_deref()),
        scope.epoch.to_string(),
        scope.fence_epoch.map_or_else(|| NOTHING.to_owned(), |epoch| epoch.to_string()),
        seconds(scope.left_ms),
        seconds(scope.heartbeat_age_ms),
        or_nothing(Some(lock.join(" ").trim()).filter(|lock| !lock.is_empty())),
    ]
}

fn term_row(term: &TermRow) -> [String; 5] {
    [
        term.epoch.to_string(),
        plain(&term.holder),
        plain(&term.began_at),
        or_nothing(term.ended_at.as_deref()),
        or_nothing(term.reason.as_deref()),
    ]
}

fn seconds(millis: Option<i64>) -> String {
    millis.map_or_else(|| NOTHING.to_owned(), |millis| format!("{:.1}s", millis as f64 / 1e3))
}

fn or_nothing(text: Option<&str>) -> String {
    plain(text.unwrap_or(NOTHING))
}

/// A name from a database must not steer the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Every column as wide as its widest cell.
fn columns<const N: usize>(indent: &str, head: [&str; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] = array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or_default()
    });
    let line = |cells: [&str; N]| {
        let padded = (0..N).map(|at| format!("{:1$}", cells[at], widths[at]));
        format!("{indent}{}", padded.collect::<Vec<_>>().join(GAP)).trim_end().to_owned() + "\n"
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    [line(head)].into_iter().chain(rows).collect()
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Free => "free",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        })
    }
}
