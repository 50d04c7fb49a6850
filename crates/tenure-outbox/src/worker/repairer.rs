//! Takes back the leases of workers that died, beside what claiming meets of them.

use tenure_database::error::chain;
use tokio_util::sync::CancellationToken;

use super::Shared;

pub(super) struct Repairer<'s>(pub &'s Shared);

impl Repairer<'_> {
    pub async fn run(&self, ended: &CancellationToken) {
        let mut due = tokio::time::interval(self.0.settings.repair_interval);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while ended.run_until_cancelled(due.tick()).await.is_some() {
            while self.repair().await && !ended.is_cancelled() {}
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
                tracing::warn!(target: "tenure", sql_error = chain(&error), "outbox_repair_failed");
                false
            }
        }
    }
}
