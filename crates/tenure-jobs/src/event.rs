//! What has happened, as those who follow it are told.

use jiff::Timestamp;
use serde::Serialize;

/// An event; its number is its place in the order of commits.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Its number, over all namespaces.
    #[serde(skip)]
    pub number: i64,
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
    /// The state, the status or the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The term of the leader that wrote it.
    pub leader_epoch: i64,
    /// When.
    pub at: Timestamp,
}

/// Which events there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first that is kept; above the last where none is.
    pub first: i64,
    /// The last that was given.
    pub last: i64,
}
