//! A job as it was leased, and what came of it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::settings::Settings;

/// The most that a result may be, as JSON.
pub(crate) const LARGEST_RESULT: usize = 1024 * 1024;

/// A job as the controller tells it.
#[derive(Debug, Deserialize)]
pub(crate) struct Task {
    pub job_id: String,
    pub job_epoch: i64,
    pub op: String,
    #[serde(default = "null")]
    pub payload: Box<RawValue>,
}

/// A job with the lease it was given under: what a program is told of it.
#[derive(Debug, Serialize)]
pub(crate) struct Job {
    pub job_id: String,
    pub namespace: String,
    pub op: String,
    pub job_epoch: i64,
    pub lease_id: String,
    pub agent: String,
    /// As it came: nobody here changes a number by reading it.
    pub payload: Box<RawValue>,
}

impl Job {
    pub fn new(task: Task, lease_id: &str, settings: &Settings) -> Self {
        Self {
            job_id: task.job_id,
            namespace: settings.namespace.clone(),
            op: task.op,
            job_epoch: task.job_epoch,
            lease_id: lease_id.to_owned(),
            agent: settings.name.clone(),
            payload: task.payload,
        }
    }

    /// As one line of JSON.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a job is JSON");
        for byte in &mut line {
            // Inside a string they are escaped, so these only separate.
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        line
    }
}

/// How a job ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Succeeded(Box<RawValue>),
    Failed(String),
    /// It was cut short, for a reason that is the agent's: somebody else is to do it.
    GivenBack,
}

impl Outcome {
    pub fn failed(error: impl Into<String>) -> Self {
        Self::Failed(error.into())
    }

    /// Nobody is handed a result that is too large: it is said instead of cut.
    pub fn within_limits(self) -> Self {
        match self {
            Self::Succeeded(result) if result.get().len() > LARGEST_RESULT => Self::Failed(
                format!("the result has {} bytes, more than 1 MiB", result.get().len()),
            ),
            other => other,
        }
    }

    pub fn status(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::GivenBack => "given_back",
        }
    }
}

/// A result on its way to the controller.
#[derive(Debug)]
pub(crate) struct Finished {
    pub job_id: String,
    pub job_epoch: i64,
    pub outcome: Outcome,
    /// Whether it stands in for a result that was refused: it is not replaced once more.
    pub stands_in: bool,
}

/// What the controller is told of it.
#[derive(Serialize)]
pub(crate) struct Told<'f> {
    job_id: &'f str,
    job_epoch: i64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'f RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'f str>,
}

impl Finished {
    pub fn told(&self) -> Told<'_> {
        let (result, error) = match &self.outcome {
            Outcome::Succeeded(result) => (Some(&**result), None),
            Outcome::Failed(error) => (None, Some(error.as_str())),
            Outcome::GivenBack => (None, None),
        };
        Told {
            job_id: &self.job_id,
            job_epoch: self.job_epoch,
            status: self.outcome.status(),
            result,
            error,
        }
    }

    /// Roughly what it takes in a request.
    pub fn size(&self) -> usize {
        let said = match &self.outcome {
            Outcome::Succeeded(result) => result.get().len(),
            Outcome::Failed(error) => error.len(),
            Outcome::GivenBack => 0,
        };
        said + self.job_id.len()
    }
}

/// The result of a job that has none.
pub(crate) fn null() -> Box<RawValue> {
    raw(&())
}

/// A value as JSON; only of types that are JSON whatever they hold.
pub(crate) fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("this is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(outcome: Outcome) -> String {
        let finished = Finished { job_id: "j".to_owned(), job_epoch: 2, outcome, stands_in: false };
        serde_json::to_string(&finished.told()).unwrap()
    }

    #[test]
    fn a_result_has_the_form_of_the_contract_and_no_leader_epoch() {
        let number = RawValue::from_string("1.10".to_owned()).unwrap();
        assert_eq!(
            finished(Outcome::Succeeded(number)),
            r#"{"job_id":"j","job_epoch":2,"status":"succeeded","result":1.10}"#
        );
        assert_eq!(
            finished(Outcome::Succeeded(null())),
            r#"{"job_id":"j","job_epoch":2,"status":"succeeded","result":null}"#
        );
        assert_eq!(
            finished(Outcome::failed("no")),
            r#"{"job_id":"j","job_epoch":2,"status":"failed","error":"no"}"#
        );
        assert_eq!(
            finished(Outcome::GivenBack),
            r#"{"job_id":"j","job_epoch":2,"status":"given_back"}"#
        );
    }

    #[test]
    fn a_job_is_one_line_however_its_payload_was_laid_out() {
        let task = r#"{"job_id":"j","job_epoch":1,"op":"o","payload":{
            "big": 12345678901234567890.0100, "text": "a\nb" }}"#;
        let task: Task = serde_json::from_str(task).unwrap();
        let settings = Settings { name: "a".to_owned(), ..Settings::default() };
        let line = String::from_utf8(Job::new(task, "l", &settings).line()).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.contains("12345678901234567890.0100") && line.contains(r"a\nb"), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let names: Vec<_> = read.as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            names,
            ["agent", "job_epoch", "job_id", "lease_id", "namespace", "op", "payload"]
        );
    }

    #[test]
    fn a_result_above_the_limit_becomes_a_failure_that_says_so() {
        let of = |length: usize| Outcome::Succeeded(raw(&"x".repeat(length))).within_limits();
        assert_eq!(of(LARGEST_RESULT - 2).status(), "succeeded");
        match of(LARGEST_RESULT) {
            Outcome::Failed(error) => assert!(error.contains("more than 1 MiB"), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}
