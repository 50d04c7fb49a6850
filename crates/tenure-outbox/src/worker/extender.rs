//! Makes the claims in hand last, for as long as this process lives.

use tenure_database::error::chain;
use tokio_util::sync::CancellationToken;

use super::Shared;

pub(super) struct Extender<'s>(pub &'s Shared);

impl Extender<'_> {
    /// Every sixth of a lease, those of which less than two thirds are left: several tries before the end, and
    /// whoever begins a dispatch finds half of it.
    pub async fn run(&self, ended: &CancellationToken) {
        let mut due = tokio::time::interval(self.0.settings.lease.relied_on() / 6);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while ended.run_until_cancelled(due.tick()).await.is_some() {
            self.extend().await;
        }
    }

    async fn extend(&self) {
        let Shared { store, settings, held, metrics, .. } = self.0;
        let claims = held.ending_within(settings.lease.relied_on() * 2 / 3);
        if claims.is_empty() {
            return;
        }
        match store.extend(&settings.worker_id, &claims, &settings.lease).await {
            Ok(lost) => {
                // Recorded meanwhile, or lost: whoever begins or records under them hears it from the database.
                held.give_up(&lost);
            }
            Err(error) => {
                metrics.database_errors.inc();
                tracing::warn!(target: "tenure", sql_error = chain(&error), "outbox_extend_failed");
            }
        }
    }
}
