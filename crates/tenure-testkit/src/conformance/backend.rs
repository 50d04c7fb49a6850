//! What a backend must be able to do for the laws to be tried on it.

use std::time::Duration;

use async_trait::async_trait;
use tenure::{
    Candidate, HolderId, Scope, Timing,
    lock::{Lock, LockError},
};

/// How somebody else stands in the way of a renewal.
#[derive(Clone, Copy, Debug)]
pub enum Blocker {
    /// Locks the row and leaves it as it is.
    Locks,
    /// Changes the row.
    Changes,
}

/// Stands in the way until it is told to leave.
#[async_trait]
pub trait Blocked: Send {
    async fn unblock(self: Box<Self>);
}

/// A server (or a file) with candidates for its locks.
#[async_trait]
pub trait Backend: Sync {
    /// A candidate that has not asked for anything yet.
    fn candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock>;

    /// A candidate among so many that connecting alone takes them long.
    fn one_of_many(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.candidate(scope, holder)
    }

    /// The durations of these candidates.
    fn timing(&self) -> Timing {
        short_lease()
    }

    /// A candidate that waits long enough for an answer to be overtaken by its lease.
    fn patient_candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock>;

    /// The durations of these candidates.
    fn patient_timing(&self) -> Timing {
        Timing::lease(Duration::from_millis(3_000))
            .renew_interval(Duration::from_millis(2_200))
            .call_timeout(Duration::from_millis(2_000))
            .build()
            .expect("a lease that leaves room for a long call")
    }

    /// Makes a holder fall silent until its term has expired; returned, it can only be refused.
    async fn fall_silent(&self, lock: Box<dyn Lock>) -> Box<dyn Lock> {
        tokio::time::sleep(self.timing().lease_duration()).await;
        lock
    }

    /// A candidate that has asked for the term, and whose reply was lost after the commit.
    async fn candidate_whose_reply_is_lost(&self, scope: &str, holder: &str) -> Box<dyn Lock>;

    async fn block(&self, scope: &str, blocker: Blocker) -> Box<dyn Blocked>;

    async fn restart_server(&self);

    /// Returns once candidates that asked for news are sure to hear them.
    async fn listening(&self);

    /// Whether an acquire waits for the lock by itself.
    fn waits(&self) -> bool {
        false
    }

    /// Whether this error says that the session which held the term is gone, and the term with it. A lock that is
    /// not held by a session answers.
    fn is_end_of_session(&self, error: &LockError) -> bool {
        let _ = error;
        false
    }

    /// Why a law says nothing about this lock, if it does not.
    fn has_no_meaning(&self, law: &str) -> Option<&'static str> {
        let _ = law;
        None
    }
}

pub(super) fn short_lease() -> Timing {
    let lease = Timing::lease(Duration::from_millis(1_500));
    // Two hundred candidates on two cores take their time.
    lease.call_timeout(Duration::from_millis(450)).build().expect("a lease of 1.5 s")
}

pub(super) fn named(scope: &str, holder: &str) -> Candidate {
    let scope = Scope::new(scope).expect("a scope of a test");
    Candidate::new(scope, HolderId::new(holder).expect("a holder of a test"))
}
