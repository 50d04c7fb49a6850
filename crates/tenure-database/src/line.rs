//! A connection of one's own, made anew whenever a call went wrong.

use crate::{DatabaseError, Deadline, server::Server};

/// Keeps one session for calls that come one after another.
///
/// A call takes the session out, and puts it back when it has succeeded. Whatever else happens (an
/// error, a timeout, a caller that is cancelled) drops it, so no later call can meet its remains.
#[derive(Debug)]
pub struct Line<S: Server> {
    server: S,
    idle: Option<S::Session>,
}

impl<S: Server> Line<S> {
    /// Connects at the first call.
    #[must_use]
    pub fn to(server: S) -> Self {
        Self { server, idle: None }
    }

    /// The idle session, or a new one.
    pub async fn take(&mut self, deadline: Deadline) -> Result<S::Session, DatabaseError> {
        match self.idle.take() {
            Some(session) if !S::is_closed(&session) => Ok(session),
            _ => self.server.connect(deadline).await,
        }
    }

    /// Gives a session back after a call that succeeded.
    pub fn put_back(&mut self, session: S::Session) {
        self.idle = Some(session);
    }

    /// Where it connects to.
    #[must_use]
    pub fn server(&self) -> &S {
        &self.server
    }
}
