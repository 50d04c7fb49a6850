//! What a Postgres URL says.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use tokio_postgres::{Config, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Session, hosts::places, tls};
use crate::{DatabaseError, Deadline, UrlError};

/// A Postgres server, database and role; printed without the password.
///
/// Beyond what the driver knows, `sslmode=verify-full` (and `verify-ca`, which verifies as much) checks
/// the server's certificate, against `sslrootcert` when given and the system's certificates otherwise.
/// As with libpq, `prefer` and `require` encrypt without verifying.
#[derive(Clone)]
pub struct PostgresUrl {
    config: Config,
    tls: Arc<MakeRustlsConnect>,
}

impl FromStr for PostgresUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (text, asked) = tls::Asked::split_off(text);
        let mut config: Config = text.parse().map_err(UrlError::Postgres)?;
        if asked.verifies {
            config.ssl_mode(SslMode::Require);
        }
        config.application_name(config.get_application_name().unwrap_or("tenure").to_owned());
        Ok(Self { config, tls: Arc::new(tls::connector(&asked)?) })
    }
}

impl PostgresUrl {
    /// Opens a session, and drives it in the background until it is dropped.
    ///
    /// It has no cancel token: whoever gives up on a call drops the session with it.
    pub async fn connect(&self, deadline: Deadline) -> Result<Session, DatabaseError> {
        let (session, _) = self.connect_with_socket(deadline).await?;
        Ok(session)
    }

    /// The same place, with the client's side of the connection noticing a dead peer within `silence`.
    #[must_use]
    pub fn noticing_silence(&self, silence: Duration) -> Self {
        // The kernel counts keepalives in whole seconds, and refuses zero.
        let second = Duration::from_secs(1);
        let mut config = self.config.clone();
        config
            .keepalives(true)
            .keepalives_idle((silence / 2).max(second))
            .keepalives_interval((silence / 6).max(second))
            .keepalives_retries(2)
            .tcp_user_timeout(silence);
        Self { config, tls: Arc::clone(&self.tls) }
    }

    /// The driver's settings, password included: for a pool of the caller's own.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn tls(&self) -> MakeRustlsConnect {
        self.tls.as_ref().clone()
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.config.get_user().unwrap_or_default();
        let places = places(&self.config);
        let named: Vec<_> = places.iter().map(ToString::to_string).collect();
        write!(f, "postgres://{role}@{}", named.join(","))?;
        write!(f, "/{}", self.config.get_dbname().unwrap_or(role))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}
