//! The one place that gives up on a database call.

use std::{future::Future, time::Duration};

use crate::DatabaseError;

/// The moment after which nobody waits for an answer any more.
///
/// It runs on tokio's timer. That may fire late, which costs time but never safety: what a late answer
/// is worth is decided by the moment its request was sent.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    within: Duration,
    at: tokio::time::Instant,
}

impl Deadline {
    /// From now on, this long.
    #[must_use]
    pub fn after(within: Duration) -> Self {
        Self { within, at: tokio::time::Instant::now() + within }
    }

    /// Sleeps for one part of the time that is left, where it is cut into this many.
    pub(crate) fn share(&self, parts: usize) -> tokio::time::Sleep {
        let left = self.at.saturating_duration_since(tokio::time::Instant::now());
        tokio::time::sleep(left / u32::try_from(parts.max(1)).unwrap_or(u32::MAX))
    }

    /// Runs a call that must have answered by then.
    ///
    /// Own what the call uses, so that giving up drops it: see [`crate::postgres::Line`].
    pub async fn run<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, DatabaseError>
    where
        DatabaseError: From<E>,
    {
        match tokio::time::timeout_at(self.at, call).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(DatabaseError::TimedOut { within: self.within }),
        }
    }
}
