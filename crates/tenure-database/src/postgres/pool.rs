//! Several connections for calls that come at the same time.

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::Statement;

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline};

/// Keeps up to so many sessions.
///
/// As with a [`Line`](super::Line), a call takes a session out and puts it back when it has succeeded.
/// Whatever else happens drops it, so no later call can meet its remains.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    url: PostgresUrl,
    /// Sent once on every new session.
    settings: String,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    session: Session,
    prepared: HashMap<&'static str, Statement>,
}

impl Pool {
    /// Connects when it has to. `settings` are statements for every new session.
    #[must_use]
    pub fn to(url: PostgresUrl, most: usize, settings: &str) -> Self {
        let places = Arc::new(Semaphore::new(most));
        let settings = settings.to_owned();
        Self { shared: Arc::new(Shared { url, settings, places, idle: Mutex::default() }) }
    }

    /// A session of one's own; waits while all are in use.
    pub async fn take(&self, deadline: Deadline) -> Result<Pooled, DatabaseError> {
        let shared = &self.shared;
        let waits = Arc::clone(&shared.places).acquire_owned();
        let place =
            deadline.run(async { waits.await.map_err(|_| DatabaseError::ThreadEnded) }).await?;
        let idle = self.idle();
        let kept = match idle {
            Some(kept) => kept,
            None => {
                let session = shared.url.connect(deadline).await?;
                deadline.run(session.batch_execute(&shared.settings)).await?;
                Kept { session, prepared: HashMap::new() }
            }
        };
        Ok(Pooled { kept, pool: self.clone(), _place: place })
    }

    fn idle(&self) -> Option<Kept> {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|kept| !kept.session.is_closed())
    }
}

/// A session out of a pool.
#[derive(Debug)]
pub struct Pooled {
    kept: Kept,
    pool: Pool,
    _place: OwnedSemaphorePermit,
}

impl Pooled {
    /// A statement, prepared once per session.
    pub async fn prepared(
        &mut self,
        sql: &'static str,
    ) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.kept.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.kept.session.prepare(sql).await?;
        self.kept.prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Gives it back after a call that succeeded.
    pub fn put_back(self) {
        let Self { kept, pool, _place } = self;
        pool.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    }
}

impl Deref for Pooled {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.kept.session
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.kept.session
    }
}
