//! What an answer of a controller means, whichever call it belongs to.

use std::{fmt, time::Duration};

use reqwest::StatusCode;
use serde_json::Value;

use crate::backoff::LONGEST;

/// As much of a refusal as is shown.
const SHOWN: usize = 300;

/// What one node said.
#[derive(Debug)]
pub(super) enum Answer {
    /// It leads, and has done it.
    Done(Vec<u8>),
    /// It does not lead, and may know who does.
    NotLeader { leader_url: Option<String> },
    /// It leads, and will not have this request.
    Refused(Refusal),
    /// It asks for another token.
    Forbidden,
    /// Whatever that is, it is not the controller's last word.
    Failed { why: String, retry_after: Option<Duration> },
}

/// Why a request is not what the controller takes.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    /// `STALE_EPOCH`, `NOT_FOUND` and so on.
    pub error: Option<String>,
    /// Which epoch, where that is the matter.
    pub stale: Option<String>,
    said: String,
}

impl Refusal {
    pub fn new(status: StatusCode, body: &[u8]) -> Self {
        let said = json(body);
        Self {
            status,
            error: field(&said, "error"),
            stale: field(&said, "stale"),
            said: String::from_utf8_lossy(body).trim().chars().take(SHOWN).collect(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if !self.said.is_empty() {
            write!(f, ": {}", self.said)?;
        }
        Ok(())
    }
}

/// Reads an answer by its status, its `Retry-After` and its body.
pub(super) fn read(status: StatusCode, retry_after: Option<&str>, body: Vec<u8>) -> Answer {
    if status.is_success() {
        return Answer::Done(body);
    }
    let refusal = Refusal::new(status, &body);
    match status.as_u16() {
        401 | 403 => Answer::Forbidden,
        409 => conflict(refusal, &body),
        400 | 413 | 422 => Answer::Refused(refusal),
        // Otherwise no controller has said so: that is the wrong address.
        404 if refusal.error.as_deref() == Some("NOT_FOUND") => Answer::Refused(refusal),
        429 | 503 => failed(&refusal, retry_after.and_then(seconds)),
        _ => failed(&refusal, None),
    }
}

fn failed(said: &Refusal, retry_after: Option<Duration>) -> Answer {
    Answer::Failed { why: said.to_string(), retry_after }
}

fn conflict(refusal: Refusal, body: &[u8]) -> Answer {
    match refusal.error.as_deref() {
        Some("NOT_LEADER") => Answer::NotLeader { leader_url: field(&json(body), "leader_url") },
        // It was fenced off just now, and knows no successor.
        Some("STALE_EPOCH") if refusal.stale.as_deref() == Some("leader") => {
            Answer::NotLeader { leader_url: None }
        }
        _ => Answer::Refused(refusal),
    }
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// At the top, or under `detail`, where older controllers have it alone.
fn field(said: &Value, name: &str) -> Option<String> {
    let found = [&said[name], &said["detail"][name]];
    found.into_iter().find_map(Value::as_str).map(ToOwned::to_owned)
}

fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        read(StatusCode::from_u16(status).unwrap(), None, body.as_bytes().to_vec())
    }

    #[test]
    fn a_standby_names_the_leader_at_the_top_or_under_detail() {
        for body in [
            r#"{"error":"NOT_LEADER","leader_url":"http://b"}"#,
            r#"{"detail":{"error":"NOT_LEADER","leader_url":"http://b"}}"#,
        ] {
            match answer(409, body) {
                Answer::NotLeader { leader_url } => assert_eq!(leader_url.unwrap(), "http://b"),
                other => panic!("{other:?}"),
            }
        }
        let nobody = answer(409, r#"{"error":"NOT_LEADER","leader_url":null}"#);
        assert!(matches!(nobody, Answer::NotLeader { leader_url: None }));
    }

    #[test]
    fn a_leader_that_was_fenced_off_is_a_leader_no_more() {
        let fenced = answer(409, r#"{"error":"STALE_EPOCH","stale":"leader"}"#);
        assert!(matches!(fenced, Answer::NotLeader { leader_url: None }));
        match answer(409, r#"{"error":"STALE_EPOCH","stale":"job"}"#) {
            Answer::Refused(refusal) => assert_eq!(refusal.stale.unwrap(), "job"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_controller_can_say_that_something_is_not_there() {
        assert!(matches!(answer(404, r#"{"error":"NOT_FOUND"}"#), Answer::Refused(_)));
        assert!(matches!(answer(404, "<html>"), Answer::Failed { .. }));
    }

    #[test]
    fn neither_a_redirect_nor_an_error_of_the_server_is_a_last_word() {
        for status in [301, 302, 307, 308, 408, 418, 500, 502, 504] {
            assert!(
                matches!(answer(status, ""), Answer::Failed { retry_after: None, .. }),
                "{status}"
            );
        }
        assert!(matches!(answer(401, ""), Answer::Forbidden));
    }

    #[test]
    fn retry_after_is_honoured_up_to_five_seconds() {
        let after = |text| match read(StatusCode::SERVICE_UNAVAILABLE, Some(text), Vec::new()) {
            Answer::Failed { retry_after, .. } => retry_after.map(|after| after.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!([after("2"), after("3600"), after("soon")], [Some(2), Some(5), None]);
    }
}
