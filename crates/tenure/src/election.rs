//! Drives an elector over a lock with tokio; leadership as a watch value.
//!
//! An election runs on a thread of its own with its own connections, so that neither busy work nor a
//! full pool can starve the renewals. The work of a term runs on the runtime that started the election.

mod calls;
pub mod delegated;
mod driver;
mod work;

use std::{fmt, ops::Deref, sync::Arc, thread, time::Duration};

use jiff::Timestamp;
use tokio::{
    runtime,
    sync::{broadcast, mpsc, oneshot, watch},
};
use tokio_stream::{Stream, StreamExt, wrappers::BroadcastStream};

use self::driver::Shared;
pub use self::work::{NoWork, Tenure, Work, WorkError};
use crate::{
    advisory_environment::LeaderStateChanged,
    fence::{Fence, FenceError},
    gate::LeaderGate,
    lock::{Candidate, Lock},
    observe::{Metrics, Observer},
    term::{Epoch, Term},
    timing::Timing,
};

/// What a node is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The gate is shut.
    Follower,
    /// The gate is open.
    Leader,
    /// The gate is open for work that has begun, and shuts soon.
    Draining,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Follower => "FOLLOWER",
            Self::Leader => "LEADER",
            Self::Draining => "DRAINING",
        })
    }
}

/// Who leads, as this node knows it. For showing and waiting; to act, ask the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// This node's role.
    pub role: Role,
    /// The term, while the role is not follower.
    pub term: Option<Term>,
    /// Whether a term of this node's is won and not given back: from before its fence is raised until after its
    /// release.
    pub has_term: bool,
    /// Who leads, this node or another, and in which term; `None` when no live term is known.
    pub leader: Option<(String, Epoch)>,
    /// The last term that was heard of, whether it lives or not.
    pub last_epoch: Epoch,
    /// When this node's term ends unless it is renewed, by the database's clock where that was told. A renewal
    /// changes it without waking those who wait for a change.
    pub expires_at: Option<Timestamp>,
}

impl Leadership {
    fn of_nobody() -> Self {
        Self {
            role: Role::Follower,
            term: None,
            has_term: false,
            leader: None,
            last_epoch: Epoch::ZERO,
            expires_at: None,
        }
    }

    /// This term lives. Says whether that is new.
    fn sees(&mut self, holder: String, epoch: Epoch) -> bool {
        let seen = Some((holder, epoch));
        let is_new = self.leader != seen;
        self.leader = seen;
        self.last_epoch = self.last_epoch.max(epoch);
        is_new
    }

    /// No term is known to live, and this is the last one that was heard of. Says whether that is new.
    fn sees_nobody_since(&mut self, epoch: Epoch) -> bool {
        let is_new = self.leader.is_some() || epoch > self.last_epoch;
        self.leader = None;
        self.last_epoch = self.last_epoch.max(epoch);
        is_new
    }
}

/// An election on its way to being started.
#[must_use]
pub struct Builder {
    candidate: Candidate,
    timing: Timing,
    lock: Box<dyn Lock>,
    fence: Option<Arc<dyn Fence>>,
    work: Arc<dyn Work>,
    metrics: Metrics,
    enabled: bool,
    stall_timeout: Option<Duration>,
    stale_after: Option<Duration>,
}

impl Builder {
    /// The fence in the database that holds the data. Without one only the gate protects.
    pub fn fence(mut self, fence: impl Fence) -> Self {
        self.fence = Some(Arc::new(fence));
        self
    }

    /// What runs while this node leads. Default: nothing; ask the gate instead.
    pub fn work(mut self, work: impl Work) -> Self {
        self.work = Arc::new(work);
        self
    }

    /// Where to count. Default: nowhere that anybody sees.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// Whether to contend at all. Default: yes. Otherwise the node only watches who leads.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Gives the term up when the work makes no progress for this long. Default: never.
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = Some(timeout);
        self
    }

    /// Warns when another leader's heartbeat is older than this. It never triggers a takeover.
    pub fn warn_when_stale(mut self, age: Duration) -> Self {
        self.stale_after = Some(age);
        self
    }

    /// The durations that it will keep to.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Starts contending. Call it on the tokio runtime that the work shall run on.
    pub fn start(self) -> std::io::Result<Election> {
        let observer = Observer::new(self.candidate.clone(), self.timing, &self.metrics);
        let Candidate { scope, holder, .. } = self.candidate.clone();
        let gate = LeaderGate::shut(scope, holder, observer.metrics.blocked.clone());
        let shared = Arc::new(Shared {
            gate,
            leadership: watch::Sender::new(Leadership::of_nobody()),
            changes: broadcast::Sender::new(1024),
        });
        let (wishes, wished) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let (runtime, theirs) = (runtime::Handle::current(), Arc::clone(&shared));
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("tenure-election".to_owned()).spawn(move || {
            let result = own.block_on(driver::run(self, theirs, observer, wished, runtime));
            // Whoever started the election may not care how it ends.
            let _ = end.send(result);
        })?;
        let handle = Handle { shared, wishes: wishes.downgrade() };
        Ok(Election { wishes, handle, ended })
    }
}

/// What a caller may ask of a running election.
#[derive(Debug)]
enum Wish {
    Drain,
    EndDrain,
    FenceRefused(Epoch),
    Stop,
}

/// A running election. Dropping it shuts the gate and lets the lease run out; [`Election::stop`] hands
/// over in order.
pub struct Election {
    /// While this is here, the election goes on.
    wishes: mpsc::UnboundedSender<Wish>,
    handle: Handle,
    ended: oneshot::Receiver<Result<(), ElectionEnded>>,
}

/// What may be asked of a running election, from anywhere in its process. It does not keep it alive.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    wishes: mpsc::WeakUnboundedSender<Wish>,
}

impl Handle {
    /// The gate: ask it right before every act.
    #[must_use]
    pub fn gate(&self) -> LeaderGate {
        self.shared.gate.clone()
    }

    /// Who leads, as a value that can be waited on.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.subscribe()
    }

    /// Every opening and shutting of the gate from now on, in order.
    ///
    /// Whoever falls more than a thousand behind misses the oldest.
    pub fn changes(&self) -> impl Stream<Item = LeaderStateChanged> + use<> {
        BroadcastStream::new(self.shared.changes.subscribe()).filter_map(Result::ok)
    }

    /// Hands over in order, and stays out until [`Handle::end_drain`], or until nobody took over.
    pub fn drain(&self) {
        self.wish(Wish::Drain);
    }

    /// Contends again after a drain.
    pub fn end_drain(&self) {
        self.wish(Wish::EndDrain);
    }

    /// Reports what a fenced write said. A refusal ends the term that it carried, never a newer one.
    pub fn report(&self, error: &FenceError) {
        if let FenceError::Refused { epoch, .. } = error {
            self.refused(*epoch);
        }
    }

    /// Reports that the fence has refused a write of this term.
    pub fn refused(&self, epoch: Epoch) {
        self.wish(Wish::FenceRefused(epoch));
    }

    fn wish(&self, wish: Wish) {
        // An election that has ended grants no wishes; `ended` says why it has.
        if let Some(wishes) = self.wishes.upgrade() {
            let _ = wishes.send(wish);
        }
    }
}

impl Deref for Election {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Election {
    /// An election for this candidate over this lock.
    pub fn builder(candidate: Candidate, timing: Timing, lock: impl Lock + 'static) -> Builder {
        Builder {
            candidate,
            timing,
            lock: Box::new(lock),
            fence: None,
            work: Arc::new(NoWork),
            metrics: Metrics::default(),
            enabled: true,
            stall_timeout: None,
            stale_after: None,
        }
    }

    /// What may be asked of it from elsewhere in this process.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops in order: gate shut, work stopped, term released.
    pub async fn stop(mut self) -> Result<(), ElectionEnded> {
        // An election that has ended needs no word.
        let _ = self.wishes.send(Wish::Stop);
        self.ended().await
    }

    /// Waits until the election cannot go on. Then the process must end with an error: nobody else knows
    /// that this node has stopped contending.
    pub async fn ended(&mut self) -> Result<(), ElectionEnded> {
        match (&mut self.ended).await {
            Ok(result) => result,
            Err(_) => Err(ElectionEnded { reason: "its thread has failed".to_owned() }),
        }
    }
}

/// An election that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the election cannot go on: {reason}")]
pub struct ElectionEnded {
    /// What was refused, and what to do.
    pub reason: String,
}
