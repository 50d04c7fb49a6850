//! Keeps the queue filled: one claimer per process.

use std::{sync::Arc, time::Duration};

use tenure_database::error::chain;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{Shared, held::Work};

/// The pause after the first failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// So long a worker that has run out of work waits for a word before it asks when the next row is due.
const LULL: Duration = Duration::from_millis(20);
/// Nobody polls more often.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

pub(super) struct Claimer {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    queue: mpsc::UnboundedSender<Work>,
}

impl Claimer {
    pub fn new(
        shared: Arc<Shared>,
        room: Arc<Semaphore>,
        queue: mpsc::UnboundedSender<Work>,
    ) -> Self {
        Self { shared, room, queue }
    }

    /// Claims until it is told to stop. A claim that was sent is awaited: its rows would be nobody's until their
    /// lease is over.
    pub async fn run(self, stop: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        while let Some(place) = stop.run_until_cancelled(self.room()).await {
            let asked = place.num_permits();
            match self.claim(place).await {
                Ok(count) if count == asked => pause = FIRST_PAUSE,
                Ok(_) => {
                    pause = FIRST_PAUSE;
                    stop.run_until_cancelled(self.work_may_be_there()).await;
                }
                Err(error) => {
                    self.shared.metrics.database_errors.inc();
                    self.shared.tell_of_violation(&error);
                    tracing::warn!(target: "tenure", sql_error = chain(&error), "outbox_claim_failed");
                    stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Room for half a batch at least: while less is free, everybody who dispatches has something to do.
    async fn room(&self) -> OwnedSemaphorePermit {
        let batch = self.shared.settings.batch;
        let half = u32::try_from(batch.div_ceil(2)).unwrap_or(u32::MAX);
        let places = Arc::clone(&self.room).acquire_many_owned(half).await;
        let mut places = places.expect("the room is never closed");
        while places.num_permits() < batch {
            match Arc::clone(&self.room).try_acquire_owned() {
                Ok(place) => places.merge(place),
                Err(_) => break,
            }
        }
        places
    }

    async fn claim(
        &self,
        mut places: OwnedSemaphorePermit,
    ) -> Result<usize, crate::store::StoreError> {
        let Shared { store, settings, held, metrics, .. } = &*self.shared;
        let claims =
            store.claim(places.num_permits(), &settings.worker_id, &settings.lease).await?;
        let count = claims.len();
        metrics.claimed.inc_by(count as u64);
        for claim in claims {
            let place = places.split(1).expect("no more rows than asked for");
            // Nobody takes them any more when this fails: they are given back by their end.
            let _ = self.queue.send(held.hold(claim, place));
        }
        Ok(count)
    }

    /// Waits for a word of new work, for the next row that falls due, or for a while.
    async fn work_may_be_there(&self) {
        let Shared { store, settings, wake, .. } = &*self.shared;
        tokio::select! {
            () = wake.notified() => return,
            () = tokio::time::sleep(LULL.min(settings.poll_interval)) => {}
        }
        let due = match store.next_due().await {
            Ok(due) => due.unwrap_or(settings.poll_interval),
            Err(_) => settings.poll_interval,
        };
        tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep(due.max(SHORTEST_WAIT).min(settings.poll_interval)) => {}
        }
    }
}
