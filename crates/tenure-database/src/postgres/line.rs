//! A connection of one's own, made anew whenever a call went wrong.

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline};

/// Keeps one session for calls that come one after another.
///
/// A call takes the session out, and puts it back when it has succeeded. Whatever else happens (an
/// error, a timeout, a caller that is cancelled) drops it, so no later call can meet its remains.
#[derive(Debug)]
pub struct Line {
    url: PostgresUrl,
    idle: Option<Session>,
}

impl Line {
    /// Connects at the first call.
    #[must_use]
    pub fn to(url: PostgresUrl) -> Self {
        Self { url, idle: None }
    }

    /// The idle session, or a new one.
    pub async fn take(&mut self, deadline: Deadline) -> Result<Session, DatabaseError> {
        match self.idle.take() {
            Some(session) if !session.is_closed() => Ok(session),
            _ => self.url.connect(deadline).await,
        }
    }

    /// Gives a session back after a call that succeeded.
    pub fn put_back(&mut self, session: Session) {
        self.idle = Some(session);
    }

    /// Where it connects to.
    #[must_use]
    pub fn url(&self) -> &PostgresUrl {
        &self.url
    }
}
