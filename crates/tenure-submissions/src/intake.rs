//! Takes submissions: many requests share one round trip to the database, and each is answered when its own row
//! is durable.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::{
    observe::Metrics,
    store::{Store, StoreError, Submission, Submitted},
};

/// How submissions share round trips to the database.
#[derive(Clone, Copy, Debug)]
pub struct Grouping {
    /// How many share one at most.
    pub largest: usize,
    /// How many are under way at once: while one is written to disk, the next is gathered.
    pub at_once: usize,
}

impl Default for Grouping {
    fn default() -> Self {
        Self { largest: 500, at_once: 2 }
    }
}

/// How many bytes of payloads are written together: nobody waits long behind them.
const LARGEST_WRITE: usize = 4 * 1024 * 1024;

type Answer = oneshot::Sender<Result<Submitted, Arc<StoreError>>>;

/// Where requests hand in what they want stored.
#[derive(Clone, Debug)]
pub struct Intake {
    queue: mpsc::Sender<(Submission, Answer)>,
}

impl Intake {
    /// Starts gathering; it ends when the last handle is gone and all was answered.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, metrics: Metrics, grouping: Grouping) -> Self {
        let (queue, queued) = mpsc::channel(2 * grouping.largest);
        tokio::spawn(gather(store, metrics, grouping, queued));
        Self { queue }
    }

    /// Stores one; the answer comes when it is durable.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, IntakeError> {
        let (answer, answered) = oneshot::channel();
        self.queue.send((submission, answer)).await.map_err(|_| IntakeError::Stopped)?;
        Ok(answered.await.map_err(|_| IntakeError::Stopped)??)
    }
}

async fn gather(
    store: Arc<dyn Store>,
    metrics: Metrics,
    grouping: Grouping,
    mut queued: mpsc::Receiver<(Submission, Answer)>,
) {
    let places = Arc::new(Semaphore::new(grouping.at_once));
    // Never closed, so a place always comes.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let mut batch = Vec::new();
        if queued.recv_many(&mut batch, grouping.largest).await == 0 {
            return;
        }
        let (store, metrics) = (Arc::clone(&store), metrics.clone());
        tokio::spawn(async move {
            write(&*store, &metrics, batch).await;
            drop(place);
        });
    }
}

/// In parts that the database takes in one bite.
async fn write(store: &dyn Store, metrics: &Metrics, batch: Vec<(Submission, Answer)>) {
    let (mut part, mut bytes) = (Vec::new(), 0);
    for one in batch {
        bytes += one.0.payload.len();
        if bytes > LARGEST_WRITE && !part.is_empty() {
            write_part(store, metrics, std::mem::take(&mut part)).await;
            bytes = one.0.payload.len();
        }
        part.push(one);
    }
    write_part(store, metrics, part).await;
}

async fn write_part(store: &dyn Store, metrics: &Metrics, part: Vec<(Submission, Answer)>) {
    let (submissions, answers): (Vec<_>, Vec<_>) = part.into_iter().unzip();
    match store.submit(&submissions).await {
        Ok(submitted) => {
            for (answer, submitted) in answers.into_iter().zip(submitted) {
                count(metrics, &submitted);
                // A client that has gone away has its intent stored all the same.
                let _ = answer.send(Ok(submitted));
            }
        }
        Err(error) => {
            let sql_error = tenure_database::error::chain(&error);
            tracing::error!(target: "tenure", sql_error, "submission_intake_failed");
            let error = Arc::new(error);
            for answer in answers {
                let _ = answer.send(Err(Arc::clone(&error)));
            }
        }
    }
}

fn count(metrics: &Metrics, submitted: &Submitted) {
    match submitted {
        Submitted::New(_) => metrics.created.inc(),
        Submitted::Existing(_) => metrics.idempotent_hits.inc(),
        Submitted::Conflict { .. } => metrics.conflicts.inc(),
        Submitted::Refused => 0,
    };
}

/// Why a submission was not stored, as far as is known.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IntakeError {
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The instance is stopping.
    #[error("the instance is stopping")]
    Stopped,
}
