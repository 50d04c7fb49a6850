//! Several connections for calls that come at the same time.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{DatabaseError, Deadline, server::Server};

/// Keeps up to so many sessions.
///
/// As with a [`Line`](crate::line::Line), a call takes a session out and puts it back when it has succeeded.
/// Whatever else happens drops it, so no later call can meet its remains.
#[derive(Clone, Debug)]
pub struct Pool<S: Server> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S: Server> {
    server: S,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<S::Session>>,
}

impl<S: Server> Pool<S> {
    /// Connects when it has to.
    #[must_use]
    pub fn of(server: S, most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self { shared: Arc::new(Shared { server, places, idle: Mutex::default() }) }
    }

    /// A session of one's own; waits while all are in use.
    pub async fn take(&self, deadline: Deadline) -> Result<Pooled<S>, DatabaseError> {
        let shared = &self.shared;
        let waits = Arc::clone(&shared.places).acquire_owned();
        let place =
            deadline.run(async { waits.await.map_err(|_| DatabaseError::ThreadEnded) }).await?;
        let idle = self.idle();
        let session = match idle {
            Some(session) => session,
            None => shared.server.connect(deadline).await?,
        };
        Ok(Pooled { session, pool: self.clone(), _place: place })
    }

    fn idle(&self) -> Option<S::Session> {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|session| !S::is_closed(session))
    }
}

/// A session out of a pool.
#[derive(Debug)]
pub struct Pooled<S: Server> {
    session: S::Session,
    pool: Pool<S>,
    _place: OwnedSemaphorePermit,
}

impl<S: Server> Pooled<S> {
    /// Gives it back after a call that succeeded.
    pub fn put_back(self) {
        let Self { session, pool, _place } = self;
        pool.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}

impl<S: Server> Deref for Pooled<S> {
    type Target = S::Session;

    fn deref(&self) -> &S::Session {
        &self.session
    }
}

impl<S: Server> DerefMut for Pooled<S> {
    fn deref_mut(&mut self) -> &mut S::Session {
        &mut self.session
    }
}
