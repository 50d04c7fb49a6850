//! Hands results in until somebody has accepted them, several leases at once.

use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};
use serde::Serialize;
use tenure_database::BootInstant;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Batch, Delivery, Gone, Outbox,
    verdict::{Fate, Verdict, fates},
};
use crate::{
    agent::Shared,
    controller::{Reply, SHORT_CALL},
    job::Told,
};

/// How many leases are handed in at once.
const LEASES_AT_ONCE: usize = 4;

#[derive(Serialize)]
struct Said<'b> {
    lease_id: &'b str,
    agent: &'b str,
    results: Vec<Told<'b>>,
}

/// The owner of the outbox.
pub(crate) struct HandIn {
    shared: Arc<Shared>,
    finished: mpsc::UnboundedReceiver<Delivery>,
    /// How many results wait.
    count: watch::Sender<usize>,
    outbox: Outbox,
}

impl HandIn {
    pub fn new(
        shared: Arc<Shared>,
        finished: mpsc::UnboundedReceiver<Delivery>,
        count: watch::Sender<usize>,
    ) -> Self {
        Self { shared, finished, count, outbox: Outbox::default() }
    }

    /// Until nobody is left who could finish a job, and nothing waits; or until it is to give up. How many were
    /// not handed in.
    pub async fn run(mut self, give_up: &CancellationToken) -> usize {
        let shared = Arc::clone(&self.shared);
        // Those under way end with this future, and their results are still in the outbox.
        let mut under_way = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || self.outbox.len() > 0 {
            while under_way.len() < LEASES_AT_ONCE
                && let Some(batch) = self.outbox.next(BootInstant::now())
            {
                under_way.push(hand_in(&shared, batch));
            }
            let next = self.outbox.due().filter(|_| under_way.len() < LEASES_AT_ONCE);
            tokio::select! {
                () = give_up.cancelled() => break,
                delivery = self.finished.recv(), if is_open => match delivery {
                    Some(delivery) => self.outbox.push(delivery),
                    None => is_open = false,
                },
                Some((lease_id, verdict)) = under_way.next(), if !under_way.is_empty() => {
                    let gone = self.outbox.settle(&lease_id, verdict, BootInstant::now());
                    gone.iter().for_each(|gone| self.tell(&lease_id, gone));
                }
                () = until(next) => {}
            }
            self.publish();
        }
        drop(under_way);
        self.leave().await
    }

    /// What the last jobs say is counted as well: nobody hears it any more.
    async fn leave(&mut self) -> usize {
        while let Some(delivery) = self.finished.recv().await {
            self.outbox.push(delivery);
        }
        for (lease_id, result) in self.outbox.all() {
            tracing::error!(
                target: "tenure",
                lease_id,
                job_id = result.job_id,
                job_epoch = result.job_epoch,
                status = result.outcome.status(),
                "agent_result_not_handed_in"
            );
        }
        self.shared.metrics.waiting.set(0);
        self.outbox.len()
    }

    fn publish(&self) {
        let count = self.outbox.len();
        self.shared.metrics.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.count.send_replace(count);
    }

    fn tell(&self, lease_id: &str, gone: &Gone) {
        let Gone { result, dropped } = gone;
        let Some((why, refusal)) = dropped else {
            self.shared.metrics.accepted.inc();
            return;
        };
        self.shared.metrics.dropped(*why);
        let (job_id, reason) = (&*result.job_id, why.as_str());
        let refusal = refusal.as_deref();
        if result.stands_in {
            tracing::error!(target: "tenure", job_id, lease_id, reason, refusal, "agent_result_dropped");
        } else {
            tracing::warn!(target: "tenure", job_id, lease_id, reason, refusal, "agent_result_dropped");
        }
    }
}

/// One request for the results of one lease.
async fn hand_in(shared: &Shared, batch: Batch) -> (String, Verdict) {
    let Shared { settings, controller, .. } = shared;
    let said = Said {
        lease_id: &batch.lease_id,
        agent: &settings.name,
        results: batch.results.iter().map(|result| result.told()).collect(),
    };
    let count = batch.results.len();
    let verdict = match controller.call("/v1/results", &said, SHORT_CALL).await {
        Reply::Done { from, body } => {
            let fates = fates(&batch, &body);
            if fates.contains(&Fate::Kept) {
                let at = from.as_str();
                tracing::warn!(target: "tenure", count, controller = at, "agent_results_not_decided");
                controller.leave(&from);
            }
            Verdict::Each(fates)
        }
        Reply::Refused(refusal) => {
            tracing::warn!(target: "tenure", count, %refusal, "agent_results_refused");
            Verdict::Refused(refusal)
        }
        Reply::Unheard(unheard) => Verdict::Unheard(unheard),
    };
    drop(said);
    (batch.lease_id, verdict)
}

/// For ever, if there is nothing to wait for.
async fn until(moment: Option<BootInstant>) {
    match moment {
        Some(moment) => tokio::time::sleep(moment.left()).await,
        None => std::future::pending().await,
    }
}
