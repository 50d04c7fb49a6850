//! The backend that decides who holds a scope.
//!
//! A lock is asked one thing at a time, by the election that owns it. Expected answers are values;
//! an error means "we do not know", and the request may still be applied at any later time.
//!
//! What each gives:
//!
//! | lock | no two gates open at once |
//! | --- | --- |
//! | lease row (Postgres, SQL Server, SQLite) | always, as long as clocks run at nearly the same rate |
//! | etcd | the same, as long as etcd keeps a lease that is kept alive; before 3.4.31 and 3.5.13 a member that was deposed while it was frozen may end one early, and there only the fence holds, or `Takeover::Wait` |
//! | Postgres advisory lock | when a process dies, freezes or is cut off; when the *server* ends the session, two gates may be open for at most the late threshold, and there only the fence holds |

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod postgres_advisory;
pub mod postgres_lease;
mod postgres_news;
mod processes;
pub mod sqlite_lease;
pub mod sqlserver_lease;
mod witness;

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tenure_database::{BootInstant, DatabaseError};
use tokio::sync::mpsc;
use tokio_postgres::Row;

pub use self::{
    processes::Processes,
    witness::{ClockReading, Reading, Signs, Witness},
};
use crate::{
    elector::{Renewal, Shown},
    term::{Epoch, HolderId, Scope},
};

/// Who asks a lock, and for what.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What is to be led.
    pub scope: Scope,
    /// Who asks.
    pub holder: HolderId,
    /// Stored beside the holder with every win: a row that names it was won by this very process,
    /// even if another one goes by the same configured name.
    pub nonce: Arc<str>,
}

impl Candidate {
    /// A candidate with a nonce of its own.
    #[must_use]
    pub fn new(scope: Scope, holder: HolderId) -> Self {
        Self { scope, holder, nonce: uuid::Uuid::new_v4().to_string().into() }
    }
}

/// Decides who holds one scope.
///
/// Every call answers within a bounded time. Dropping a call's future abandons the request.
#[async_trait]
pub trait Lock: Send {
    /// What the fence row remembers of it: a scope is fenced by one kind of lock at a time.
    fn place(&self) -> LockPlace;

    /// Asks for a term with an epoch above `floor` and above all that the lock and the fence know.
    async fn acquire(&mut self, floor: Epoch) -> Result<Acquire, LockError>;

    /// The same, for a node that has seen this renewal of another's term run out by its own clock: a row that
    /// still shows it is taken whatever its expiry says.
    async fn acquire_overdue(
        &mut self,
        floor: Epoch,
        renewal: Renewal,
    ) -> Result<Acquire, LockError> {
        let _ = renewal;
        self.acquire(floor).await
    }

    /// Extends the term, if it is still this holder's and has not expired by the database's clock.
    async fn renew(&mut self, epoch: Epoch) -> Result<Renew, LockError>;

    /// Gives the term back, if it is still this holder's; never touches another term.
    async fn release(&mut self, epoch: Epoch) -> Result<(), LockError>;

    /// Looks who holds the lock, without asking for it.
    async fn observe(&mut self) -> Result<Observed, LockError>;

    /// Starts telling what happens to the lock between two calls, for as long as the lock lives.
    fn news(&mut self) -> mpsc::UnboundedReceiver<News>;

    /// For how long `acquire` itself waits for the lock, if it does; such a call is dropped when the node is
    /// drained.
    fn wait(&self) -> Option<Duration> {
        None
    }
}

/// The kind of lock, and which one of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPlace {
    /// `postgres-lease`, `postgres-advisory`, `sqlserver-lease`, `sqlite-lease` or `etcd`.
    pub kind: &'static str,
    /// The table, or the cluster.
    pub name: String,
}

/// The answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquire {
    /// The term is ours.
    Granted(Grant),
    /// It is not.
    Held(Holding),
}

/// A term that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The term's number.
    pub epoch: Epoch,
    /// The moment before the statement that proves the term was sent: what the local deadline counts
    /// from. Where the lock was waited for, this is after the wait.
    pub sent_at: BootInstant,
    /// How long the gates of earlier terms may still be open, counted from when the lock granted, and so
    /// at the latest from when the answer is there. Where another server granted last, that is a whole lease:
    /// what it granted since nobody here knows.
    pub settle: Duration,
    /// What the server said about itself.
    pub reading: Reading,
    /// The connection that the lock lives on, where it lives on one.
    pub hold: Option<Hold>,
}

/// A duplicate of the connection that a lock lives on. While anybody has it open, whoever that is, the
/// death of this process does not free the lock.
#[derive(Clone, Debug)]
pub struct Hold(Arc<OwnedFd>);

impl Hold {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Arc::new(socket))
    }
}

impl AsFd for Hold {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PartialEq for Hold {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Hold {}

/// Somebody's term, seen by a candidate that asked for the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Who holds it.
    pub holder: String,
    /// The term's number.
    pub epoch: Epoch,
    /// How long it still runs by the database's clock, where the lock can say.
    pub left: Option<Duration>,
    /// Its last renewal, where the lock has an expiry that a clock decides.
    pub shown: Option<Shown>,
    /// How long ago its holder last proved itself, where the lock records that.
    pub heartbeat_age: Option<Duration>,
    /// It carries this candidate's nonce.
    pub ours: bool,
    /// What the server said about itself.
    pub reading: Reading,
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Renew {
    /// The term goes on.
    Renewed {
        /// The moment before the renewal was sent.
        sent_at: BootInstant,
        /// Whether the stored expiry has moved ahead. It never moves back.
        extends: bool,
        /// What the server said about itself.
        reading: Reading,
    },
    /// The term is no longer ours.
    Lost,
}

/// The lock as anybody sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The term that is held now, if any.
    pub held: Option<Holding>,
    /// The highest epoch that the lock knows.
    pub epoch: Epoch,
    /// What the server said about itself.
    pub reading: Reading,
}

/// What happens between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The lock may have changed hands or become free.
    Changed,
    /// The session that held this term is gone.
    SessionEnded(Epoch),
}

/// No answer. The request may have been applied, or may be at any later time.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// This lock cannot work as it is set up; trying again would not help.
    #[error("{0}")]
    Refused(String),
    /// The server that answered does not take writes: a standby, or a read-only database.
    #[error("the server that answered is a standby and takes no writes")]
    Standby,
    /// The call failed or got no answer.
    #[error("the lock's database did not answer")]
    Database(#[from] DatabaseError),
    /// The call failed or got no answer.
    #[cfg(feature = "etcd")]
    #[error("etcd did not answer")]
    Etcd(#[source] Box<etcd_client::Error>),
}

impl From<tokio_postgres::Error> for LockError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl LockError {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// What a row with `server` and `now_ms` says about the Postgres that gave it.
fn postgres_reading(row: &Row, asked: BootInstant) -> Reading {
    let server: String = row.get("server");
    let clock = ClockReading {
        server: postgres_lease::millis(row.get("now_ms")),
        asked,
        answered: BootInstant::now(),
    };
    Reading { server: Some(server.into()), clock: Some(clock), shown: None }
}
