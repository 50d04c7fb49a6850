//! Records outcomes in batches, and tells again what was not answered: the database knows what it has recorded.

use std::{
    slice,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure_database::error::chain;
use tokio::sync::mpsc;

use super::{Shared, held::Work};
use crate::store::{Completion, Recorded, StoreError};

/// The most that is recorded at once.
const MOST: usize = 1_000;
/// The pause after the first failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An outcome, and the place that its claim takes until it is on record.
#[derive(Debug)]
pub(super) struct Told {
    pub completion: Completion,
    pub work: Work,
}

pub(super) struct Recorder {
    shared: Arc<Shared>,
    outcomes: mpsc::UnboundedReceiver<Told>,
}

impl Recorder {
    pub fn new(shared: Arc<Shared>, outcomes: mpsc::UnboundedReceiver<Told>) -> Self {
        Self { shared, outcomes }
    }

    /// Records until nobody is left who could tell anything.
    pub async fn run(mut self) {
        let mut told = Vec::with_capacity(MOST);
        while self.outcomes.recv_many(&mut told, MOST).await > 0 {
            let (completions, works): (Vec<_>, Vec<_>) =
                told.drain(..).map(|told| (told.completion, told.work)).unzip();
            self.record(&completions).await;
            let Shared { held, metrics, wake, .. } = &*self.shared;
            held.remove(completions.iter().map(|completion| &completion.claim));
            metrics.held.set(held.len() as i64);
            drop(works);
            // What comes next in order may have become claimable.
            wake.notify_one();
        }
    }

    async fn record(&self, completions: &[Completion]) {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.complete(completions).await {
                Ok(()) => return,
                Err(error) => error,
            };
            self.shared.metrics.database_errors.inc();
            if error.is_about_data() {
                return self.one_by_one(completions).await;
            }
            tracing::warn!(
                target: "tenure",
                sql_error = chain(&error),
                count = completions.len(),
                "outbox_record_failed"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn complete(&self, completions: &[Completion]) -> Result<(), StoreError> {
        let Shared { store, settings, metrics, .. } = &*self.shared;
        let answers = store.complete(&settings.worker_id, completions).await?;
        for (completion, answer) in completions.iter().zip(answers) {
            match answer {
                Recorded::Done(state) | Recorded::Repeat(state) => metrics.recorded(state),
                Recorded::LeaseLost => {
                    metrics.leases_lost.inc();
                    not_recorded(completion, "lease_lost");
                }
            }
        }
        Ok(())
    }

    /// One that the database refuses must not keep the others from being recorded.
    async fn one_by_one(&self, completions: &[Completion]) {
        let Shared { metrics, stop, is_broken, .. } = &*self.shared;
        for completion in completions {
            let error = match self.complete(slice::from_ref(completion)).await {
                Ok(()) => continue,
                Err(error) => error,
            };
            let (outbox_id, sql_error) = (completion.claim.outbox_id, chain(&error));
            if error.is_terminal_guard() {
                metrics.backstops.inc();
                tracing::error!(target: "tenure", %outbox_id, sql_error, "terminal_uniqueness_backstop");
            } else if error.is_integrity_failure() {
                metrics.integrity_failures.inc();
                tracing::error!(target: "tenure", %outbox_id, sql_error, "outbox_integrity_failure");
                is_broken.store(true, Ordering::Release);
                stop.cancel();
            } else {
                tracing::error!(target: "tenure", %outbox_id, sql_error, "outbox_record_refused");
            }
            not_recorded(completion, "refused");
        }
    }
}

/// The rail has answered, and the answer is nowhere on record: whoever looks into it finds it here.
fn not_recorded(completion: &Completion, reason: &str) {
    let Completion { claim, outcome, .. } = completion;
    tracing::error!(
        target: "tenure",
        outbox_id = %claim.outbox_id,
        instruction_id = claim.instruction_id,
        idempotency_key = claim.idempotency_key,
        state = outcome.state.as_str(),
        rail_reference = outcome.rail_reference,
        reason,
        "outbox_outcome_not_recorded"
    );
}
