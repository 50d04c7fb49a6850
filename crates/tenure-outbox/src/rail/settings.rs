//! The file that describes a worker's rails: a table per `rail_type`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use serde::Deserialize;

use super::{Noop, Rail, Rails, command::CommandRail, http::HttpRail};

/// Why a file of rails was refused.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not what it should be. The line itself may hold a secret, and is not shown.
    #[error("{}, line {line}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// Why.
        problem: String,
    },
    /// A setting cannot work.
    #[error("{}: rails.{rail}.{field} {problem}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The rail.
        rail: String,
        /// Its setting.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// There is none.
    #[error("{} describes no rail: it needs a table [rails.NAME] per rail_type", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A setting that cannot work, and why.
pub(super) type Refused = (&'static str, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rails: BTreeMap<String, Described>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Described {
    Http(HttpSettings),
    Command(CommandSettings),
    Noop {},
}

/// A rail that is called over HTTP.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpSettings {
    pub url: String,
    pub timeout: Option<SignedDuration>,
    #[serde(default)]
    pub body: Body,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are in the environment: name of the header, name of the variable.
    #[serde(default)]
    pub headers_env: BTreeMap<String, String>,
    #[serde(default)]
    pub dispatched: Vec<StatusPattern>,
    #[serde(default)]
    pub retryable: Vec<StatusPattern>,
    #[serde(default)]
    pub failed: Vec<StatusPattern>,
    /// Where the answer has the rail's reference: a JSON pointer.
    pub reference: Option<String>,
    /// Where the answer has the rail's code: a JSON pointer.
    pub code: Option<String>,
    /// Fields without which a payload cannot be sent: JSON pointers.
    #[serde(default)]
    pub required: Vec<String>,
}

/// A rail that is a program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandSettings {
    pub command: Vec<String>,
    pub timeout: Option<SignedDuration>,
}

/// What a request carries.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Body {
    /// The payload as it was enqueued.
    #[default]
    Payload,
    /// The payload, and beside it what it belongs to.
    Envelope,
}

/// A status, or all of a class: `404`, `"5xx"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Status")]
pub(super) enum StatusPattern {
    One(u16),
    Class(u16),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Status {
    Number(u16),
    Text(String),
}

impl TryFrom<Status> for StatusPattern {
    type Error = String;

    fn try_from(status: Status) -> Result<Self, String> {
        let text = match status {
            Status::Number(number) => number.to_string(),
            Status::Text(text) => text,
        };
        match (text.parse::<u16>(), text.strip_suffix("xx").map(str::parse)) {
            (Ok(number @ 100..=599), _) => Ok(Self::One(number)),
            (_, Some(Ok(class @ 1..=5))) => Ok(Self::Class(class)),
            _ => Err(format!("{text:?} is no status such as 404 or \"5xx\"")),
        }
    }
}

impl StatusPattern {
    pub fn matches(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
        }
    }
}

pub(super) fn read(path: &Path, timeout: Duration) -> Result<Rails, SettingsError> {
    let path = path.to_owned();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(SettingsError::Read { path, source }),
    };
    let file: File = match toml::from_str(&text) {
        Ok(file) => file,
        Err(error) => {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            return Err(SettingsError::Parse { path, line, problem: error.message().to_owned() });
        }
    };
    if file.rails.is_empty() {
        return Err(SettingsError::Empty { path });
    }
    let mut rails = Rails::new(timeout);
    for (name, described) in file.rails {
        match made(described) {
            Ok((rail, own)) => rails.add(&name, rail, own),
            Err((field, problem)) => {
                return Err(SettingsError::Field { path, rail: name, field, problem });
            }
        }
    }
    Ok(rails)
}

fn made(described: Described) -> Result<(Arc<dyn Rail>, Option<Duration>), Refused> {
    Ok(match described {
        Described::Http(settings) => {
            let timeout = positive(settings.timeout)?;
            (Arc::new(HttpRail::new(settings)?), timeout)
        }
        Described::Command(settings) => {
            let timeout = positive(settings.timeout)?;
            (Arc::new(CommandRail::new(settings)?), timeout)
        }
        Described::Noop {} => (Arc::new(Noop), None),
    })
}

fn positive(timeout: Option<SignedDuration>) -> Result<Option<Duration>, Refused> {
    match timeout.map(Duration::try_from) {
        None => Ok(None),
        Some(Ok(timeout)) if !timeout.is_zero() => Ok(Some(timeout)),
        Some(_) => Err(("timeout", "must be above 0".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let error = read(file.path(), Duration::from_secs(1)).unwrap_err();
        tenure_database::error::chain(&error)
    }

    #[test]
    fn every_refusal_names_what_is_wrong() {
        assert!(refused("").contains("describes no rail"));
        assert!(refused("[rails.card]\ntype = 'fax'").contains("fax"));
        assert!(
            refused("[rails.card]\ntype = 'command'\ncommand = []").contains("rails.card.command")
        );
        let http = |rest: &str| refused(&format!("[rails.card]\ntype = 'http'\n{rest}"));
        assert!(http("url = 'ftp://x'").contains("rails.card.url"));
        assert!(http("url = 'http://x'\nretryable = ['9xx']").contains("9xx"));
        assert!(http("url = 'http://x'\ntimeout = '0s'").contains("rails.card.timeout"));
        assert!(http("url = 'http://x'\nfrequency = 3").contains("frequency"));
        assert!(http("url = 'http://x'\nheaders = { 'a b' = 'c' }").contains("rails.card.headers"));
        assert!(http("url = 'http://x'\nreference = 'id'").contains("rails.card.reference"));
        assert!(
            http("url = 'http://x'\nheaders_env = { a = 'TENURE_NO_SUCH' }")
                .contains("TENURE_NO_SUCH")
        );
    }

    #[test]
    fn a_secret_in_a_line_that_is_wrong_is_not_shown() {
        let told =
            refused("[rails.card]\ntype = 'http'\nheaders = { Authorization = 'Bearer s3cret'");
        assert!(told.contains("line 3") && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn a_status_is_matched_by_number_or_class() {
        let patterns = |text: &str| {
            let value: BTreeMap<String, Vec<StatusPattern>> = toml::from_str(text).unwrap();
            value.into_values().next().unwrap()
        };
        assert_eq!(
            patterns("a = [404, '5xx', '429']"),
            [StatusPattern::One(404), StatusPattern::Class(5), StatusPattern::One(429)]
        );
        assert!(StatusPattern::Class(5).matches(503) && !StatusPattern::Class(5).matches(404));
    }
}
