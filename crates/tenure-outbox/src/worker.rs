//! A worker: claims rows, hands them to rails, and records what came of it.
//!
//! ```text
//! claimer ──▶ queue ──▶ dispatches (bounded) ──▶ recorder
//!    ▲  news, next due     │ time left? else        │ in batches, repeated until answered
//!    └── room ◀────────────┴──── extender ──────────┘
//! ```
//!
//! Whatever is claimed takes a place, and keeps it until its outcome is on record; so a database that does not
//! answer stops the claiming, not the process. Told to stop, a worker claims no more, gives back what it has not
//! begun, waits for what it has begun, and records it.

mod claimer;
mod dispatcher;
mod extender;
mod held;
mod recorder;
mod repairer;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_database::postgres::PostgresUrl;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::{
    claimer::Claimer, dispatcher::Dispatcher, extender::Extender, held::Held, recorder::Recorder,
    repairer::Repairer,
};
use crate::{
    news,
    observe::Metrics,
    rail::Rails,
    store::{Lease, Store},
};

/// How long recording may go on once everything else has stopped.
const FAREWELL: Duration = Duration::from_secs(10);

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name under which it claims.
    pub worker_id: String,
    /// How long a claim lasts unless it is extended: after that, the rows of a dead worker are run again.
    pub lease: Lease,
    /// How many rows are claimed at once.
    pub batch: usize,
    /// How many dispatches are under way at once.
    pub concurrency: usize,
    /// The longest pause between two looks for work, told of it or not.
    pub poll_interval: Duration,
    /// How often it looks for expired leases.
    pub repair_interval: Duration,
    /// How many of them it takes back at once.
    pub repair_batch: usize,
    /// How long it waits for what was begun when it is told to stop.
    pub grace: Duration,
}

/// Why a worker cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A uniqueness that must hold was about to be broken.
    #[error("the outbox refused a row that must be unique: somebody writes past its functions")]
    Integrity,
}

/// A worker's parts, and what they share.
#[derive(Debug)]
struct Shared {
    store: Store,
    rails: Rails,
    settings: Settings,
    metrics: Metrics,
    held: Held,
    /// Wakes the claimer.
    wake: Arc<Notify>,
    /// Told to stop, or unable to go on: either way nothing new is begun.
    stop: CancellationToken,
    is_broken: AtomicBool,
}

/// Works until it is told to stop, and then finishes what it has begun.
pub async fn work(
    url: &PostgresUrl,
    store: Store,
    rails: Rails,
    settings: Settings,
    metrics: Metrics,
    stop: &CancellationToken,
) -> Result<(), WorkerError> {
    let shared = Arc::new(Shared {
        store,
        rails,
        settings,
        metrics,
        held: Held::default(),
        wake: Arc::default(),
        stop: stop.child_token(),
        is_broken: AtomicBool::new(false),
    });
    let ended = CancellationToken::new();
    let beside = tokio::spawn(beside(Arc::clone(&shared), url.clone(), ended.clone()));
    run(&shared).await;
    ended.cancel();
    // A part that panicked has said so.
    let _ = beside.await;
    match shared.is_broken.load(Ordering::Acquire) {
        true => Err(WorkerError::Integrity),
        false => Ok(()),
    }
}

/// What goes on until the last outcome is on record.
async fn beside(shared: Arc<Shared>, url: PostgresUrl, ended: CancellationToken) {
    let (extender, repairer) = (Extender(&shared), Repairer(&shared));
    let wake = Arc::clone(&shared.wake);
    let listener = news::listen(url, wake, ended.clone());
    tokio::join!(extender.run(&ended), repairer.run(&ended), listener);
}

/// The way of a row: claimed, dispatched, recorded. Each part ends when the one before has.
async fn run(shared: &Arc<Shared>) {
    let Shared { settings, stop, .. } = &**shared;
    let room = Arc::new(Semaphore::new(settings.batch + settings.concurrency));
    let (claimed, queue) = mpsc::unbounded_channel();
    let (told, outcomes) = mpsc::unbounded_channel();
    let claimer = Claimer::new(Arc::clone(shared), room, claimed);
    let dispatcher = Dispatcher::new(Arc::clone(shared), queue, told);
    let recorder = tokio::spawn(Recorder::new(Arc::clone(shared), outcomes).run());
    tokio::join!(claimer.run(stop), dispatcher.run(stop));
    let abort = recorder.abort_handle();
    tokio::select! {
        // A recorder that panicked has said so.
        _ = recorder => {}
        () = tokio::time::sleep(FAREWELL) => {
            abort.abort();
            tracing::error!(target: "tenure", held = shared.held.len(), "outbox_outcomes_not_recorded");
        }
    }
}
