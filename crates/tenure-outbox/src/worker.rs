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
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenure_database::{error::chain, postgres::PostgresUrl};
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
    store::{Lease, Store, StoreError},
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
    /// The database does not answer as this version expects.
    #[error(
        "the database has another version of the outbox: `tenure outbox doctor` says how it differs"
    )]
    Version,
    /// It stopped, and outcomes are not on record, or rows were not given back.
    #[error("not everything was recorded or given back: the log says what")]
    Unfinished,
    /// A part of it has panicked.
    #[error("a part of the worker has failed: the log says which")]
    Broken,
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
    /// The first reason why not everything is well.
    failure: Mutex<Option<WorkerError>>,
}

impl Shared {
    /// Nothing new is begun, and the worker ends with this.
    fn fail(&self, why: WorkerError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stop.cancel();
    }

    /// What must be unique is refused by an index: the terminal guard's refusal is told, any other ends the
    /// worker.
    fn tell_of_violation(&self, error: &StoreError) {
        let sql_error = chain(error);
        if error.is_terminal_guard() {
            self.metrics.backstops.inc();
            tracing::error!(target: "tenure", sql_error, "terminal_uniqueness_backstop");
        } else if error.is_integrity_failure() {
            self.metrics.integrity_failures.inc();
            tracing::error!(target: "tenure", sql_error, "outbox_integrity_failure");
            self.fail(WorkerError::Integrity);
        }
    }
}

/// Ends the worker when the part that has it panics: without one of its parts it would do harm.
struct Vital<'s>(&'s Shared);

impl Drop for Vital<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(WorkerError::Broken);
        }
    }
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
        held: Held::counted_by(metrics.held.clone()),
        store,
        rails,
        settings,
        metrics,
        wake: Arc::default(),
        stop: stop.child_token(),
        failure: Mutex::default(),
    });
    let ended = CancellationToken::new();
    let beside = tokio::spawn(beside(Arc::clone(&shared), url.clone(), ended.clone()));
    run(&shared).await;
    ended.cancel();
    // A part that panicked has said so.
    let _ = beside.await;
    let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

/// What goes on until the last outcome is on record.
async fn beside(shared: Arc<Shared>, url: PostgresUrl, ended: CancellationToken) {
    let _vital = Vital(&shared);
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
    let give_up = CancellationToken::new();
    let recorder = Recorder::new(Arc::clone(shared), outcomes, give_up.clone());
    let recorder = tokio::spawn(recorder.run());
    tokio::join!(claimer.run(stop), dispatcher.run(stop));
    let patience = async {
        tokio::time::sleep(FAREWELL).await;
        give_up.cancel();
        // It tells what it has, unless somebody who was not awaited still owes it an outcome.
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        // A recorder that panicked has said so.
        _ = recorder => {}
        () = patience => shared.fail(WorkerError::Unfinished),
    }
}
