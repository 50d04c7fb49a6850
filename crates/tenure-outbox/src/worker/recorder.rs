//! Records outcomes in batches, and tells again what was not answered: the database knows what it has recorded.

use std::{slice, sync::Arc, time::Duration};

use tenure_database::error::chain;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Shared, Vital, WorkerError, held::Work};
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
    /// Cancelled when nobody waits any longer for what cannot be recorded.
    give_up: CancellationToken,
}

impl Recorder {
    pub fn new(
        shared: Arc<Shared>,
        outcomes: mpsc::UnboundedReceiver<Told>,
        give_up: CancellationToken,
    ) -> Self {
        Self { shared, outcomes, give_up }
    }

    /// Records until nobody is left who could tell anything.
    pub async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _vital = Vital(&shared);
        let mut told = Vec::with_capacity(MOST);
        while self.outcomes.recv_many(&mut told, MOST).await > 0 {
            let (completions, works): (Vec<_>, Vec<_>) =
                told.drain(..).map(|told| (told.completion, told.work)).unzip();
            self.record(&completions).await;
            drop(works);
            // What comes next in order may have become claimable.
            shared.wake.notify_one();
        }
    }

    /// All of them, in as many parts as it takes: one that the database refuses, or more than it manages in
    /// time, must not keep the others from being recorded.
    async fn record(&self, completions: &[Completion]) {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.complete(completions).await {
                Ok(()) => return,
                Err(error) => error,
            };
            self.shared.metrics.database_errors.inc();
            let sql_error = chain(&error);
            tracing::warn!(target: "tenure", sql_error, count = completions.len(), "outbox_record_failed");
            if matches!(error, StoreError::Unknown(_)) {
                self.shared.fail(WorkerError::Version);
                return not_recorded(completions, "refused");
            }
            if error.is_about_data() && completions.len() == 1 {
                return self.refused(completions, &error);
            }
            if (error.is_about_data() || error.is_about_time()) && completions.len() > 1 {
                let (first, second) = completions.split_at(completions.len() / 2);
                Box::pin(self.record(first)).await;
                return Box::pin(self.record(second)).await;
            }
            if self.give_up.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                self.shared.fail(WorkerError::Unfinished);
                return not_recorded(completions, "the database does not answer");
            }
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
                    not_recorded(slice::from_ref(completion), "lease_lost");
                }
            }
        }
        Ok(())
    }

    fn refused(&self, completions: &[Completion], error: &StoreError) {
        self.shared.tell_of_violation(error);
        not_recorded(completions, "refused");
    }
}

/// The rail has answered, and the answer is nowhere on record: whoever looks into it finds it here.
fn not_recorded(completions: &[Completion], reason: &str) {
    for Completion { claim, outcome, .. } in completions {
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
}
