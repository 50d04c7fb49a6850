//! Takes claims from the queue and hands them to their rails, so many at once.

use std::{sync::Arc, time::Duration};

use tenure_database::{BootInstant, error::chain};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Shared, WorkerError, held::Work, recorder::Told};
use crate::{claim::Claim, store::Completion};

/// The longest pause before another attempt.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedReceiver<Work>,
    told: mpsc::UnboundedSender<Told>,
}

impl Dispatcher {
    pub fn new(
        shared: Arc<Shared>,
        queue: mpsc::UnboundedReceiver<Work>,
        told: mpsc::UnboundedSender<Told>,
    ) -> Self {
        Self { shared, queue, told }
    }

    /// Dispatches until it is told to stop; then gives back what it has not begun, and waits for the rest.
    pub async fn run(mut self, stop: &CancellationToken) {
        let slots = Arc::new(Semaphore::new(self.shared.settings.concurrency));
        let tasks = TaskTracker::new();
        while let Some(Some((work, slot))) = stop.run_until_cancelled(self.next(&slots)).await {
            let (shared, told) = (Arc::clone(&self.shared), self.told.clone());
            tasks.spawn(async move {
                let outcome = dispatch(&shared, work).await;
                drop(slot);
                if let Some(outcome) = outcome {
                    // The recorder goes on for as long as anybody can tell it something.
                    let _ = told.send(outcome);
                }
            });
        }
        self.give_back().await;
        tasks.close();
        tokio::select! {
            () = tasks.wait() => {}
            () = tokio::time::sleep(self.shared.settings.grace) => {
                let count = tasks.len();
                tracing::error!(target: "tenure", count, "outbox_dispatches_not_awaited");
                self.shared.fail(WorkerError::Unfinished);
            }
        }
    }

    /// A slot first: what waits in the queue has not begun.
    async fn next(&mut self, slots: &Arc<Semaphore>) -> Option<(Work, OwnedSemaphorePermit)> {
        let slot = Arc::clone(slots).acquire_owned().await.expect("the slots are never closed");
        Some((self.queue.recv().await?, slot))
    }

    /// Until the claimer has ended, what it was just given included.
    async fn give_back(&mut self) {
        let mut works = Vec::new();
        while let Some(work) = self.queue.recv().await {
            works.push(work);
        }
        let claims: Vec<_> = works.iter().map(|work| Arc::clone(&work.claim)).collect();
        if !claims.is_empty() && !release(&self.shared, &claims).await {
            self.shared.fail(WorkerError::Unfinished);
        }
    }
}

/// Whether the database has heard of it; otherwise their leases run out, and count as lost.
async fn release(shared: &Shared, claims: &[Arc<Claim>]) -> bool {
    let Shared { store, settings, metrics, .. } = shared;
    match store.release(&settings.worker_id, claims).await {
        Ok(count) => {
            metrics.released.inc_by(count as u64);
            true
        }
        Err(error) => {
            metrics.database_errors.inc();
            let sql_error = chain(&error);
            tracing::warn!(target: "tenure", sql_error, count = claims.len(), "outbox_release_failed");
            false
        }
    }
}

/// One attempt; `None` when the claim was lost before it began.
async fn dispatch(shared: &Shared, work: Work) -> Option<Told> {
    let Shared { rails, metrics, settings, .. } = shared;
    if !has_time(shared, &work.claim).await {
        return None;
    }
    metrics.inflight.inc();
    let began = BootInstant::now();
    let outcome = rails.dispatch(&work.claim).await;
    let latency = BootInstant::now().since(began);
    metrics.inflight.dec();
    metrics.dispatched(latency);
    let claim = Arc::clone(&work.claim);
    let retry_after = match rails.takes(&claim) {
        true => retry_after(claim.attempt_no()),
        // Somebody else may have the rail, or this worker may be given it.
        false => LONGEST_RETRY,
    };
    tracing::debug!(
        target: "tenure",
        outbox_id = %claim.outbox_id,
        worker_id = settings.worker_id,
        state = outcome.state.as_str(),
        "outbox_dispatched"
    );
    Some(Told { completion: Completion { claim, outcome, latency, retry_after }, work })
}

/// Whether the claim lasts long enough to begin. A worker that was paused finds here that it does not, and asks
/// the database before it calls anybody.
async fn has_time(shared: &Shared, claim: &Arc<Claim>) -> bool {
    let Shared { store, rails, settings, metrics, .. } = shared;
    // A call that outlasts the lease is covered by extending it; half of a lease is there to begin with.
    let needed = rails.timeout_of(claim).min(settings.lease.relied_on() / 2);
    if claim.left() >= needed {
        return true;
    }
    let claims = [Arc::clone(claim)];
    match store.extend(&settings.worker_id, &claims, &settings.lease).await {
        Ok(lost) if lost.is_empty() && claim.left() >= needed => return true,
        Ok(lost) if !lost.is_empty() => {
            metrics.leases_lost.inc();
            tracing::warn!(target: "tenure", outbox_id = %claim.outbox_id, "outbox_claim_lost_before_dispatch");
            return false;
        }
        // The answer came too late to begin.
        Ok(_) => {}
        Err(error) => {
            metrics.database_errors.inc();
            let (outbox_id, sql_error) = (claim.outbox_id, chain(&error));
            tracing::warn!(target: "tenure", %outbox_id, sql_error, "outbox_extend_failed");
        }
    }
    release(shared, &claims).await;
    false
}

/// One second after the first attempt, twice as long after each, and a minute at most.
fn retry_after(attempt_no: i32) -> Duration {
    let doublings = u32::try_from(attempt_no - 1).unwrap_or(0).min(6);
    Duration::from_secs(2_u64.pow(doublings)).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_later_and_later_up_to_a_minute() {
        let seconds: Vec<_> = [1, 2, 3, 6, 7, 8, 20].map(|n| retry_after(n).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60, 60]);
    }
}
