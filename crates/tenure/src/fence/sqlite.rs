//! The fence on SQLite: the lease file and the fence row are read under the data file's write lock.
//!
//! SQLite has one writer at a time, so a transaction that has the write lock and has seen its own epoch
//! in the fence row commits before any takeover can raise it.

pub mod by_hand;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tenure_database::{
    Deadline,
    sqlite::{self, FileThread},
};

use super::{Fence, FenceError, Raised};
use crate::{
    lock::{LockError, LockPlace, sqlite_lease::LeaseFile},
    term::{Epoch, Scope, Term},
    timing::Timing,
};

const READ: &str = include_str!("../../sql/sqlite/fence/read.sql");
const RAISE: &str = include_str!("../../sql/sqlite/fence/raise.sql");
const BEGIN_TERM: &str = include_str!("../../sql/sqlite/fence/begin_term.sql");
const END_EARLIER_TERMS: &str = include_str!("../../sql/sqlite/fence/end_earlier_terms.sql");
const END_TERM: &str = include_str!("../../sql/sqlite/fence/end_term.sql");
const DRAINED: &str = include_str!("../../sql/sqlite/fence/drained.sql");

const LEASE_KIND: &str = "sqlite-lease";

/// The fence in a data file.
#[derive(Clone, Debug)]
pub struct SqliteFence {
    data: FileThread,
    path: PathBuf,
    timing: Timing,
}

/// The fence row of a scope.
struct Stands {
    epoch: Epoch,
    holder: String,
    lock_kind: String,
}

impl Stands {
    fn names(&self, term: &Term) -> bool {
        self.epoch == term.epoch() && self.holder == term.holder().as_str()
    }
}

impl SqliteFence {
    /// The fence in the file that holds the data; its schema must be there.
    pub fn new(data: &Path, timing: Timing) -> Result<Self, FenceError> {
        let connection = sqlite::open(data, timing.statement_timeout())?;
        let thread = FileThread::start(connection)
            .map_err(|_| tenure_database::DatabaseError::ThreadEnded)?;
        Ok(Self { data: thread, path: data.to_owned(), timing })
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }
}

/// Begins a transaction on the data file that only this term can commit.
///
/// The data file at `path` is the one that the connection is open on.
pub fn begin<'c>(
    connection: &'c mut Connection,
    path: &Path,
    term: &Term,
) -> Result<Transaction<'c>, FenceError> {
    let refused =
        |fence: Epoch, message: String| FenceError::Refused { epoch: term.epoch(), fence, message };
    let known = stands(connection, term.scope().as_str())?;
    let Some(known) = known else {
        let message = format!("nobody has ever led the scope '{}'", term.scope());
        return Err(refused(Epoch::ZERO, message));
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // After the wait for the write lock, which may have been longer than the lease.
    if known.lock_kind == LEASE_KIND
        && let Some(why) = lease_refusal(path, term)?
    {
        return Err(refused(known.epoch, format!("{term} is over: {why}")));
    }
    match stands(&transaction, term.scope().as_str())? {
        Some(fence) if fence.names(term) => Ok(transaction),
        fence => {
            let (epoch, holder) = fence.map_or_else(Default::default, |f| (f.epoch, f.holder));
            Err(refused(
                epoch,
                format!("{term} is over: the fence stands at term {epoch} of {holder}"),
            ))
        }
    }
}

fn stands(data: &Connection, scope: &str) -> Result<Option<Stands>, rusqlite::Error> {
    data.query_row(READ, [scope], |row| {
        Ok(Stands {
            epoch: Epoch::new(row.get("epoch")?),
            holder: row.get("holder")?,
            lock_kind: row.get("lock_kind")?,
        })
    })
    .optional()
}

/// Why the lease file does not speak for this term, if it does not.
fn lease_refusal(data: &Path, term: &Term) -> Result<Option<String>, FenceError> {
    let lease = LeaseFile::beside(data).lease_of(term.scope(), Duration::from_secs(1));
    let lease = lease.map_err(|error| match error {
        LockError::Database(error) => FenceError::Database(error),
        other => FenceError::OtherLock { message: other.to_string() },
    })?;
    Ok(match lease {
        None => Some("there is no lease".to_owned()),
        Some(lease) if lease.epoch != term.epoch() || lease.holder != term.holder().as_str() => {
            Some(format!("the lease names term {} of {}", lease.epoch, lease.holder))
        }
        Some(lease) if lease.left.is_zero() => Some("its lease has expired".to_owned()),
        Some(_) => None,
    })
}

#[async_trait]
impl Fence for SqliteFence {
    async fn raise(&self, term: &Term, lock: &LockPlace) -> Result<Raised, FenceError> {
        let (term, kind) = (term.clone(), lock.kind);
        let fence = self.data.call(self.deadline(), move |data| raise(data, &term, kind)).await?;
        match fence {
            Ok(raised) => Ok(raised),
            Err(other) => Err(FenceError::OtherLock {
                message: format!(
                    "the scope in {} is fenced by the lock {other}, not by {kind} (stop every node, then \
                     run: tenure scope switch-lock)",
                    self.path.display()
                ),
            }),
        }
    }

    async fn end_term(&self, term: &Term, reason: &str) -> Result<(), FenceError> {
        let (term, reason) = (term.clone(), reason.to_owned());
        self.data
            .call(self.deadline(), move |data| {
                let (scope, holder) = (term.scope().as_str(), term.holder().as_str());
                data.execute(END_TERM, (scope, holder, term.epoch().get(), reason))
            })
            .await?;
        Ok(())
    }

    async fn drained_up_to(&self, scope: &Scope) -> Result<Epoch, FenceError> {
        let scope = scope.clone();
        let looked = self.data.call(self.deadline(), move |data| {
            data.query_row(DRAINED, [scope.as_str()], |row| row.get(0)).optional()
        });
        Ok(looked.await?.map_or(Epoch::ZERO, Epoch::new))
    }
}

/// Raises, or says which other kind of lock fences the scope.
fn raise(
    data: &mut Connection,
    term: &Term,
    kind: &'static str,
) -> Result<Result<Raised, String>, rusqlite::Error> {
    let (scope, holder, epoch) =
        (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
    let transaction = data.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(fence) = stands(&transaction, scope)?
        && !fence.lock_kind.is_empty()
        && fence.lock_kind != kind
    {
        return Ok(Err(fence.lock_kind));
    }
    if transaction.execute(RAISE, (scope, holder, epoch, kind))? == 1 {
        transaction.execute(END_EARLIER_TERMS, (scope, epoch, "taken_over"))?;
        transaction.execute(BEGIN_TERM, (scope, holder, epoch, kind))?;
    }
    let fence = stands(&transaction, scope)?;
    transaction.commit()?;
    Ok(Ok(match fence {
        Some(fence) if fence.names(term) => Raised::Raised,
        fence => Raised::Refused { fence: fence.map_or(Epoch::ZERO, |fence| fence.epoch) },
    }))
}
