//! What an answer means for the results that were handed in.

use serde::Deserialize;
use serde_json::Value;

use super::Batch;
use crate::controller::{Refusal, Unheard};

/// What came of a batch.
#[derive(Debug)]
pub(super) enum Verdict {
    /// For each result, in the order sent.
    Each(Vec<Fate>),
    /// The whole request is refused, for something that is in it.
    Refused(Refusal),
    /// Nobody who leads has taken it.
    Unheard(Unheard),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Accepted,
    Dropped(Dropped),
    /// To be told again: nobody who could decide has decided.
    Kept,
}

/// Why nobody will have a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// The job was leased again since.
    StaleJob,
    /// The lease has ended.
    StaleLease,
    /// There is no such job.
    NotFound,
    /// The controller will not have it, whatever it says.
    Refused,
}

impl Dropped {
    pub const ALL: [Self; 4] = [Self::StaleJob, Self::StaleLease, Self::NotFound, Self::Refused];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::StaleJob => "stale_job",
            Self::StaleLease => "stale_lease",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
        }
    }

    /// By the contract's words; `None` where they do not say that a result is worth nothing any more.
    pub(super) fn of(error: Option<&str>, stale: Option<&str>) -> Option<Self> {
        match (error, stale) {
            (Some("STALE_EPOCH" | "STALE_LEASE"), Some("job")) => Some(Self::StaleJob),
            (Some("STALE_EPOCH" | "STALE_LEASE"), Some("lease")) => Some(Self::StaleLease),
            (Some("STALE_LEASE"), None) => Some(Self::StaleLease),
            (Some("NOT_FOUND"), _) => Some(Self::NotFound),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Answers {
    results: Vec<Value>,
}

/// What an answer says of each result. A result that it says nothing of is kept: telling it again is harmless.
pub(super) fn fates(batch: &Batch, body: &[u8]) -> Vec<Fate> {
    let answers = serde_json::from_slice(body).unwrap_or(Answers { results: Vec::new() });
    let of = |job_id: &str| answers.results.iter().find(|answer| answer["job_id"] == job_id);
    batch.results.iter().map(|result| of(&result.job_id).map_or(Fate::Kept, fate)).collect()
}

fn fate(answer: &Value) -> Fate {
    if answer["ok"] == true {
        return Fate::Accepted;
    }
    let (error, stale) = (answer["error"].as_str(), answer["stale"].as_str());
    match (Dropped::of(error, stale), error) {
        (Some(why), _) => Fate::Dropped(why),
        // A stale leader, or nobody says whose epoch it is: only a stale job or lease ends a result.
        (None, Some("STALE_EPOCH" | "STALE_LEASE" | "NOT_LEADER")) => Fate::Kept,
        (None, Some("INTERNAL" | "INTERNAL_ERROR" | "UNAVAILABLE") | None) => Fate::Kept,
        (None, Some(_)) => Fate::Dropped(Dropped::Refused),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::{Finished, Outcome};

    fn batch(job_ids: &[&str]) -> Batch {
        let result = |job_id: &&str| {
            let (job_id, outcome) = ((*job_id).to_owned(), Outcome::failed(""));
            Arc::new(Finished { job_id, job_epoch: 1, outcome, stands_in: false })
        };
        Batch { lease_id: "l".to_owned(), results: job_ids.iter().map(result).collect() }
    }

    #[test]
    fn each_result_has_the_fate_that_its_answer_names() {
        let answers = [
            (r#""ok":true"#, Fate::Accepted),
            (r#""error":"STALE_EPOCH","stale":"job""#, Fate::Dropped(Dropped::StaleJob)),
            (r#""error":"STALE_EPOCH","stale":"lease""#, Fate::Dropped(Dropped::StaleLease)),
            (r#""error":"STALE_EPOCH","stale":"leader""#, Fate::Kept),
            (r#""error":"STALE_EPOCH""#, Fate::Kept),
            (r#""error":"NOT_LEADER""#, Fate::Kept),
            (r#""error":"INTERNAL""#, Fate::Kept),
            (r#""error":"NOT_FOUND""#, Fate::Dropped(Dropped::NotFound)),
            (r#""error":"BAD_STATUS""#, Fate::Dropped(Dropped::Refused)),
        ];
        let ids = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];
        let said = ids
            .iter()
            .zip(&answers)
            .map(|(id, (said, _))| format!(r#"{{"job_id":"{id}",{said}}}"#));
        let body = format!(r#"{{"ok":false,"results":[{}]}}"#, said.collect::<Vec<_>>().join(","));
        assert_eq!(fates(&batch(&ids), body.as_bytes()), answers.map(|(_, fate)| fate));
    }

    #[test]
    fn what_an_answer_does_not_speak_of_is_kept() {
        let two = batch(&["a", "b"]);
        let first = br#"{"ok":true,"results":[{"job_id":"a","ok":true}]}"#;
        assert_eq!(fates(&two, first), [Fate::Accepted, Fate::Kept]);
        let others = br#"{"ok":true,"results":[{"job_id":"c","ok":true},{"ok":true}]}"#;
        assert_eq!(fates(&two, others), [Fate::Kept, Fate::Kept]);
        assert_eq!(fates(&two, b"<html>"), [Fate::Kept, Fate::Kept]);
    }
}
