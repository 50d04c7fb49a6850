//! Leader election over an advisory lock under its older names, set up by the environment.

use std::{env, str::FromStr, time::Duration};

use tenure_database::{DatabaseUrl, postgres::PostgresUrl};
use tokio::task::JoinHandle;

use crate::{
    election::{Election, ElectionEnded},
    fence::PostgresFence,
    gate::LeaderGate,
    lock::{
        Candidate,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
    },
    term::{Epoch, HolderId, Scope},
    timing::{Backoff, Timing},
};

/// The gate of an election opened or shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderStateChanged {
    /// Whether this node leads now.
    pub is_leader: bool,
    /// The term that began or ended.
    pub epoch: Epoch,
}

/// The settings of the advisory lock that the environment may hold.
#[derive(Clone, Debug)]
pub struct AdvisoryEnvironment {
    /// `PG_CONN_STRING`: the lock's session only.
    pub url: Option<PostgresUrl>,
    /// `LEADER_LOCK_KEY`: instead of the scope's hash.
    pub key: Option<i64>,
    /// `HEARTBEAT_INTERVAL_MS`, 3000.
    pub heartbeat: Duration,
    /// `HEARTBEAT_LATE_THRESHOLD_MS`, twice the heartbeat.
    pub late_threshold: Duration,
    /// `ACQUIRE_BACKOFF_MS_MIN` and `ACQUIRE_BACKOFF_MS_MAX`, 200 to 800: the pause after an error.
    pub backoff: Backoff,
    /// `EPOCH_STALE_THRESHOLD_MS`: warn when the leader's heartbeat is older.
    pub stale_after: Option<Duration>,
    /// `PG_LISTEN_CHANNEL`, `msp_leader_change`.
    pub channel: String,
    /// `MSP_LEADER_ENABLED`: `None` when unset.
    pub enabled: Option<bool>,
}

impl AdvisoryEnvironment {
    /// Reads the environment; refuses by name what cannot be used.
    pub fn read() -> Result<Self, SettingError> {
        Self::from_lookup(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let millis = |name| number(&lookup, name).map(|number| number.map(Duration::from_millis));
        let heartbeat = millis("HEARTBEAT_INTERVAL_MS")?.unwrap_or(Duration::from_secs(3));
        let pauses = Backoff::default();
        let backoff = Backoff {
            min: millis("ACQUIRE_BACKOFF_MS_MIN")?.unwrap_or(pauses.min),
            max: millis("ACQUIRE_BACKOFF_MS_MAX")?.unwrap_or(pauses.max),
            cap: pauses.cap,
        };
        Ok(Self {
            url: lookup("PG_CONN_STRING").map(|url| connection(&url)).transpose()?,
            key: number(&lookup, "LEADER_LOCK_KEY")?,
            heartbeat,
            late_threshold: millis("HEARTBEAT_LATE_THRESHOLD_MS")?.unwrap_or(heartbeat * 2),
            backoff,
            stale_after: millis("EPOCH_STALE_THRESHOLD_MS")?,
            channel: lookup("PG_LISTEN_CHANNEL").unwrap_or_else(|| "msp_leader_change".to_owned()),
            enabled: switch(&lookup, "MSP_LEADER_ENABLED")?,
        })
    }

    /// The timing that these settings mean.
    pub fn timing(&self) -> Result<Timing, SettingError> {
        Ok(Timing::heartbeat(self.heartbeat, self.late_threshold).backoff(self.backoff).build()?)
    }

    /// The lock's settings; `otherwise` is used where `PG_CONN_STRING` is not set.
    pub fn lock(&self, otherwise: Option<&PostgresUrl>) -> Result<AdvisorySettings, SettingError> {
        let url = self.url.as_ref().or(otherwise);
        let url = url.ok_or_else(|| SettingError::Unusable {
            name: "PG_CONN_STRING",
            why: "is not set, and no other database was given".to_owned(),
        })?;
        let settings = AdvisorySettings::at(url.clone());
        Ok(AdvisorySettings { key: self.key, channel: self.channel.clone(), ..settings })
    }
}

/// Elects a leader over an advisory lock, as the environment says.
#[derive(Clone, Copy, Debug)]
pub struct LeaderElectionService;

impl LeaderElectionService {
    /// Starts contending for the scope, and returns the gate and the task that ends with the election.
    ///
    /// `MSP_LEADER_ENABLED` unset means: stay a follower. The fence is in the lock's own database.
    pub fn start(scope: Scope, identity: HolderId) -> Result<Running, SettingError> {
        let settings = AdvisoryEnvironment::read()?;
        let timing = settings.timing()?;
        let candidate = Candidate::new(scope, identity);
        let lock_settings = settings.lock(None)?;
        let fence = PostgresFence::new(lock_settings.url.clone(), timing);
        let lock = PostgresAdvisory::new(lock_settings, candidate.clone(), timing);
        let lock = lock.map_err(|error| SettingError::Unusable {
            name: "the advisory lock",
            why: error.to_string(),
        })?;
        let mut builder = Election::builder(candidate, timing, lock)
            .fence(fence)
            .enabled(settings.enabled.unwrap_or(false));
        if let Some(age) = settings.stale_after {
            builder = builder.warn_when_stale(age);
        }
        let mut election = builder.start().map_err(SettingError::Thread)?;
        let gate = election.gate();
        Ok((gate, tokio::spawn(async move { election.ended().await })))
    }
}

/// The gate, and the task that ends with the election; aborting it shuts the gate.
pub type Running = (LeaderGate, JoinHandle<Result<(), ElectionEnded>>);

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// One setting by itself.
    #[error("{name} {why}")]
    Unusable {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Settings that do not go together.
    #[error(transparent)]
    Timing(#[from] crate::TimingError),
    /// No thread could be started.
    #[error("cannot start the election's thread")]
    Thread(#[source] std::io::Error),
}

fn number<T: FromStr>(
    lookup: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, SettingError> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(unusable(name, format!("is {value:?}, and must be a whole number"))),
    }
}

fn switch(
    lookup: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<bool>, SettingError> {
    match lookup(name).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(unusable(name, format!("is {other:?}, and must be true or false"))),
    }
}

fn connection(url: &str) -> Result<PostgresUrl, SettingError> {
    match url.parse() {
        Ok(DatabaseUrl::Postgres(url)) => Ok(*url),
        Ok(other) => {
            Err(unusable("PG_CONN_STRING", format!("is {other}, and must be postgres://…")))
        }
        Err(error) => Err(unusable(
            "PG_CONN_STRING",
            format!("cannot be used: {}", tenure_database::error::chain(&error)),
        )),
    }
}

fn unusable(name: &'static str, why: String) -> SettingError {
    SettingError::Unusable { name, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(set: &[(&str, &str)]) -> Result<AdvisoryEnvironment, SettingError> {
        AdvisoryEnvironment::from_lookup(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let settings = settings(&[]).unwrap();
        let ms = Duration::from_millis;
        assert_eq!((settings.heartbeat, settings.late_threshold), (ms(3000), ms(6000)));
        assert_eq!((settings.backoff.min, settings.backoff.max), (ms(200), ms(800)));
        assert_eq!(settings.backoff.cap, ms(5000));
        assert_eq!(settings.channel, "msp_leader_change");
        assert_eq!((settings.key, settings.enabled, settings.stale_after), (None, None, None));
        assert_eq!(settings.timing().unwrap().gate_open_for(), ms(6000));
    }

    #[test]
    fn the_late_threshold_follows_the_heartbeat() {
        let settings = settings(&[("HEARTBEAT_INTERVAL_MS", "1000")]).unwrap();
        assert_eq!(settings.late_threshold, Duration::from_secs(2));
    }

    #[test]
    fn unusable_settings_are_refused_by_name_and_without_passwords() {
        let refused = |name, value| settings(&[(name, value)]).unwrap_err().to_string();
        assert_eq!(
            refused("MSP_LEADER_ENABLED", "yes"),
            "MSP_LEADER_ENABLED is \"yes\", and must be true or false"
        );
        assert!(refused("LEADER_LOCK_KEY", "1.5").starts_with("LEADER_LOCK_KEY is \"1.5\""));
        assert!(refused("HEARTBEAT_INTERVAL_MS", "-3").contains("whole number"));
        assert!(!refused("PG_CONN_STRING", "postgres://me:s3cret@h:x/").contains("s3cret"));
    }
}
