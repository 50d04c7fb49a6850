//! A Postgres server, for those who keep sessions to it.

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline, line, pool, server::Server};

/// One session, for calls that come one after another.
pub type Line = line::Line<PostgresUrl>;
/// Several sessions, for calls that come at the same time.
pub type Pool = pool::Pool<Settled>;
/// A session out of a pool.
pub type Pooled = pool::Pooled<Settled>;

impl Server for PostgresUrl {
    type Session = Session;

    async fn connect(&self, deadline: Deadline) -> Result<Session, DatabaseError> {
        self.connect(deadline).await
    }

    fn is_closed(session: &Session) -> bool {
        session.is_closed()
    }
}

/// A server whose sessions have settings of their own.
#[derive(Clone, Debug)]
pub struct Settled {
    url: PostgresUrl,
    /// Sent once on every new session.
    settings: String,
}

impl Server for Settled {
    type Session = Session;

    async fn connect(&self, deadline: Deadline) -> Result<Session, DatabaseError> {
        let session = self.url.connect(deadline).await?;
        deadline.run(session.batch_execute(&self.settings)).await?;
        Ok(session)
    }

    fn is_closed(session: &Session) -> bool {
        session.is_closed()
    }
}

impl Pool {
    /// Connects when it has to. `settings` are statements for every new session.
    #[must_use]
    pub fn to(url: PostgresUrl, most: usize, settings: &str) -> Self {
        Self::of(Settled { url, settings: settings.to_owned() }, most)
    }
}
