//! Takes back the leases of workers that died, beside what claiming meets of them.

use std::time::Duration;

use tenure_database::{BootInstant, error::chain};
use tokio_util::sync::CancellationToken;

use super::Shared;

pub(super) struct Repairer<'s>(pub &'s Shared);

impl Repairer<'_> {
    /// Now and then, and never for more than a fiftieth of the time: where vacuum cannot clean up, looking for
    /// expired leases walks over all that ever were.
    pub async fn run(&self, ended: &CancellationToken) {
        let mut pause = Duration::ZERO;
        while ended.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            let began = BootInstant::now();
            while self.repair().await && !ended.is_cancelled() {}
            let took = BootInstant::now().since(began);
            pause = self.0.settings.repair_interval.max(took * 50);
        }
    }

    /// Whether there may be more.
    async fn repair(&self) -> bool {
        let Shared { store, settings, metrics, .. } = self.0;
        match store.repair(settings.repair_batch, &settings.worker_id).await {
            Ok(count) => {
                metrics.repaired.inc_by(count as u64);
                count == settings.repair_batch
            }
            Err(error) => {
                metrics.database_errors.inc();
                self.0.tell_of_violation(&error);
                tracing::warn!(target: "tenure", sql_error = chain(&error), "outbox_repair_failed");
                false
            }
        }
    }
}
