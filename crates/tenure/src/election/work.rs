//! What a leader does in its term, and how it is begun and stopped.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure_database::BootInstant;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use crate::{elector::Event, lock::Hold, term::Term};

/// What runs while this node leads.
///
/// Leadership ends in this order: the gate shuts, `stop` is cancelled, `lead` returns, the term is
/// released. Never release while work may still run: return only when nothing of it does.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// Rebuilds what a leader needs, after the fence was raised and before the gate opens. A failure
    /// gives the term up. Dropped when the term ends meanwhile.
    async fn prepare(&self, term: &Term) -> Result<(), WorkError> {
        let _ = term;
        Ok(())
    }

    /// Runs from the opening of the gate until `tenure.stop` is cancelled. Returning earlier, or
    /// panicking, gives the term up: work never runs twice under one epoch.
    async fn lead(&self, tenure: Tenure);

    /// Called once for every term that was prepared, when nothing of it runs any more, and before it is
    /// released.
    async fn ended(&self, term: &Term) {
        let _ = term;
    }
}

/// Why a leader could not begin.
pub type WorkError = Box<dyn std::error::Error + Send + Sync>;

/// One term, as its work sees it.
#[derive(Clone, Debug)]
pub struct Tenure {
    /// The term, for fenced writes.
    pub term: Term,
    /// Cancelled when the work must stop.
    pub stop: CancellationToken,
    /// Until when the work may act, by this machine's boot clock; moved ahead with every renewal.
    pub until: watch::Receiver<BootInstant>,
    /// The connection that the lock lives on, where it lives on one. It is closed with the last clone.
    pub hold: Option<Hold>,
    progress: Progress,
    events: mpsc::UnboundedSender<Event>,
}

impl Tenure {
    /// Gives the term up before the work has ended: the gate shuts now, and whatever was begun may be finished and
    /// written until [`Work::lead`] returns.
    pub fn give_up(&self) {
        // The election may have ended meanwhile.
        let _ = self.events.send(Event::GivenUp { epoch: self.term.epoch() });
    }

    /// Says that the work is alive. Matters only where the election has a stall timeout.
    pub fn made_progress(&self) {
        self.progress.made();
    }
}

/// No work: for those who only ask the gate.
#[derive(Clone, Copy, Debug)]
pub struct NoWork;

#[async_trait]
impl Work for NoWork {
    async fn lead(&self, tenure: Tenure) {
        tenure.stop.cancelled().await;
    }
}

/// When the work last said that it is alive, in nanoseconds of the boot clock.
#[derive(Clone, Debug, Default)]
struct Progress(Arc<AtomicU64>);

impl Progress {
    fn made(&self) {
        self.0.store(BootInstant::now().as_nanos(), Ordering::Relaxed);
    }

    fn last(&self) -> BootInstant {
        BootInstant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Starts and stops the work of one election, on the runtime of whoever started the election.
pub(super) struct Workers {
    work: Arc<dyn Work>,
    runtime: Handle,
    events: mpsc::UnboundedSender<Event>,
    stall_timeout: Option<Duration>,
    current: Option<Running>,
}

/// The work of one term, from its preparation to its end.
struct Running {
    stop: CancellationToken,
    /// Cancelled when the gate opens.
    lead: CancellationToken,
    until: watch::Sender<BootInstant>,
}

impl Workers {
    pub(super) fn new(
        work: Arc<dyn Work>,
        runtime: Handle,
        events: mpsc::UnboundedSender<Event>,
        stall_timeout: Option<Duration>,
    ) -> Self {
        Self { work, runtime, events, stall_timeout, current: None }
    }

    /// Prepares, and leads once it is told to. Says `Prepared` or `Stalled`, and `Stopped` exactly once,
    /// when nothing of this term runs any more.
    pub(super) fn prepare(&mut self, term: Term, hold: Option<Hold>) {
        let until = watch::Sender::new(BootInstant::default());
        let (stop, progress) = (CancellationToken::new(), Progress::default());
        let (until_then, events) = (until.subscribe(), self.events.clone());
        let tenure = Tenure { term, stop: stop.clone(), until: until_then, hold, progress, events };
        let lead = CancellationToken::new();
        let term_of_work = TermOfWork {
            work: Arc::clone(&self.work),
            tenure,
            lead: lead.clone(),
            stall_timeout: self.stall_timeout,
            events: self.events.clone(),
        };
        self.current = Some(Running { stop, lead, until });
        self.runtime.spawn(term_of_work.run());
    }

    /// The gate is open.
    pub(super) fn lead(&self) {
        if let Some(running) = &self.current {
            running.lead.cancel();
        }
    }

    /// The gate is open until then.
    pub(super) fn act_until(&self, until: BootInstant) {
        if let Some(running) = &self.current {
            running.until.send_replace(until);
        }
    }

    /// Tells the work to stop.
    pub(super) fn stop(&mut self) {
        if let Some(running) = self.current.take() {
            running.stop.cancel();
        }
    }
}

struct TermOfWork {
    work: Arc<dyn Work>,
    tenure: Tenure,
    lead: CancellationToken,
    stall_timeout: Option<Duration>,
    events: mpsc::UnboundedSender<Event>,
}

impl TermOfWork {
    async fn run(self) {
        let epoch = self.tenure.term.epoch();
        let prepared =
            self.tenure.stop.run_until_cancelled(self.work.prepare(&self.tenure.term)).await;
        match prepared {
            Some(Ok(())) => self.tell(Event::Prepared { epoch }),
            Some(Err(error)) => {
                tracing::error!(target: "tenure", epoch = epoch.get(), %error, "leader_prepare_failed");
                self.tell(Event::Stalled { epoch });
            }
            None => {}
        }
        if self.tenure.stop.run_until_cancelled(self.lead.cancelled()).await.is_some() {
            self.lead().await;
        }
        let Self { work, tenure, events, .. } = self;
        work.ended(&tenure.term).await;
        // Nothing of the term is left, its hold on the lock included.
        drop(tenure);
        let _ = events.send(Event::Stopped { epoch });
    }

    async fn lead(&self) {
        self.tenure.made_progress();
        // A task of its own, so that a panic is an end of the work like any other.
        let (work, tenure) = (Arc::clone(&self.work), self.tenure.clone());
        let leading = tokio::spawn(async move { work.lead(tenure).await });
        let watching =
            self.stall_timeout.map(|timeout| tokio::spawn(self.watch_for_stall(timeout)));
        if let Err(error) = leading.await {
            let epoch = self.tenure.term.epoch().get();
            tracing::error!(target: "tenure", epoch, %error, "leader_work_failed");
        }
        if let Some(watching) = watching {
            watching.abort();
        }
    }

    fn watch_for_stall(&self, timeout: Duration) -> impl Future<Output = ()> + use<> {
        let (tenure, events) = (self.tenure.clone(), self.events.clone());
        async move {
            loop {
                let left = (tenure.progress.last() + timeout).left();
                if left.is_zero() {
                    // The election may have ended meanwhile.
                    let _ = events.send(Event::Stalled { epoch: tenure.term.epoch() });
                    return;
                }
                tokio::time::sleep(left).await;
            }
        }
    }

    fn tell(&self, event: Event) {
        // The election may have ended meanwhile.
        let _ = self.events.send(event);
    }
}
