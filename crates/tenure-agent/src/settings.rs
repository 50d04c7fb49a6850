//! How an agent behaves.

use std::{fmt, time::Duration};

use reqwest::Url;

use crate::heartbeat::JOB_LEASE;

/// The longest wait that the controller grants a poll.
const LONGEST_POLL: Duration = Duration::from_secs(120);
/// Anything shorter would be a busy loop that somebody configured.
const SHORTEST: Duration = Duration::from_millis(100);

/// How an agent behaves. Its name and its controllers have no default that works.
#[derive(Clone)]
pub struct Settings {
    /// The name under which it takes jobs.
    pub name: String,
    /// Whose jobs it takes.
    pub namespace: String,
    /// Where the controller is: stable endpoints, tried in turn.
    pub controllers: Vec<Url>,
    /// The token that the controller asks agents for.
    pub token: Option<String>,
    /// How many jobs run at once.
    pub concurrency: usize,
    /// How long a poll waits for jobs.
    pub poll: Duration,
    /// How often it says that it is there.
    pub heartbeat: Duration,
    /// How long running jobs may still take once it was asked to stop.
    pub grace: Duration,
}

/// A setting that cannot work, and why.
pub(crate) type Refused = (&'static str, String);

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: String::new(),
            namespace: "default".to_owned(),
            controllers: Vec::new(),
            token: None,
            concurrency: 4,
            poll: Duration::from_secs(30),
            heartbeat: Duration::from_secs(5),
            grace: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("controllers", &self.controllers.iter().map(Url::as_str).collect::<Vec<_>>())
            .field("has_token", &self.token.is_some())
            .field("concurrency", &self.concurrency)
            .field("poll", &self.poll)
            .field("heartbeat", &self.heartbeat)
            .field("grace", &self.grace)
            .finish()
    }
}

impl Settings {
    /// Refuses what cannot work, before anything is begun.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        for (setting, value) in [("name", &self.name), ("namespace", &self.namespace)] {
            if value.trim().is_empty() {
                return Err((setting, "must not be blank".to_owned()));
            }
        }
        if self.controllers.is_empty() {
            return Err(("controllers", "must name at least one endpoint".to_owned()));
        }
        self.controllers.iter().try_for_each(is_endpoint)?;
        if self.concurrency == 0 {
            return Err(("concurrency", "must be at least 1".to_owned()));
        }
        is_within("poll", self.poll, LONGEST_POLL)?;
        // Half of a job lease, so that one lost heartbeat loses no job.
        is_within("heartbeat", self.heartbeat, JOB_LEASE / 2)
    }
}

/// An endpoint's password would end up in every message that names it.
fn is_endpoint(url: &Url) -> Result<(), Refused> {
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(("controllers", "must be http://… or https://…".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(("controllers", "must hold no user or password: set a token".to_owned()));
    }
    Ok(())
}

fn is_within(setting: &'static str, value: Duration, longest: Duration) -> Result<(), Refused> {
    if (SHORTEST..=longest).contains(&value) {
        return Ok(());
    }
    Err((setting, format!("of {value:?} must be between {SHORTEST:?} and {longest:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Settings {
        Settings {
            name: "a".to_owned(),
            controllers: vec!["http://127.0.0.1:1".parse().unwrap()],
            token: Some("s3cret".to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let shown = format!("{:?}", good());
        assert!(shown.contains("has_token: true") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn every_refusal_names_its_setting() {
        assert_eq!(good().check(), Ok(()));
        let controller = |url: &str| Settings { controllers: vec![url.parse().unwrap()], ..good() };
        let refused = [
            ("name", Settings { name: " ".to_owned(), ..good() }),
            ("namespace", Settings { namespace: String::new(), ..good() }),
            ("controllers", Settings { controllers: Vec::new(), ..good() }),
            ("controllers", controller("ftp://host")),
            ("controllers", controller("http://user:s3cret@host")),
            ("concurrency", Settings { concurrency: 0, ..good() }),
            ("poll", Settings { poll: Duration::ZERO, ..good() }),
            ("poll", Settings { poll: Duration::from_secs(121), ..good() }),
            ("heartbeat", Settings { heartbeat: Duration::ZERO, ..good() }),
            ("heartbeat", Settings { heartbeat: Duration::from_secs(16), ..good() }),
        ];
        for (setting, settings) in refused {
            let (named, problem) = settings.check().unwrap_err();
            assert_eq!(named, setting, "{problem}");
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }
}
