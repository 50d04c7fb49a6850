//! What has happened, as those who follow it are told.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// An event; its number is its place in the order of commits.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Its number, over all namespaces.
    #[serde(skip)]
    pub number: i64,
    /// The name by which the events of its term go.
    #[serde(skip)]
    pub history: String,
    /// What kind of thing has happened.
    #[serde(skip)]
    pub kind: String,
    /// Where; empty for what concerns all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// To which job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Under which of its epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_epoch: Option<i64>,
    /// By which agent, or which leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Under which lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    /// The state, the status or the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The term of the leader that wrote it.
    pub leader_epoch: i64,
    /// When.
    pub at: Timestamp,
}

/// Which events there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first that is kept; above the last where none is.
    pub first: i64,
    /// The last that was given.
    pub last: i64,
    /// The name by which the last one's term goes.
    pub history: String,
    /// The same for the one that was asked about.
    pub history_there: String,
}

/// A place among the events: a number, and the name by which the events of its term go. After a restore numbers are
/// given anew, and names never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The name; `None` from whoever knows of none.
    pub history: Option<String>,
    /// The number.
    pub number: i64,
}

impl Position {
    /// As it was written; `None` for what never was.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (history, number) = match text.split_once('-') {
            Some((history, number)) => (Some(history.to_owned()), number),
            None => (None, text),
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self { history, number: number.parse().ok().filter(|_| is_number)? })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(history) = &self.history {
            write!(f, "{history}-")?;
        }
        write!(f, "{}", self.number)
    }
}

impl Event {
    /// Where it is.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { history: Some(self.history.clone()), number: self.number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        for text in ["0", "17", "k3v-17", "0-1"] {
            assert_eq!(Position::read(text).unwrap().to_string(), text);
        }
        for text in ["", "-", "k3v-", "k3v", "1-2-3", "+1", "-1x", "1e3"] {
            assert_eq!(Position::read(text), None, "{text:?}");
        }
    }
}
