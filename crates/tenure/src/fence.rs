//! The check inside the database: whoever is not in the current term cannot write.
//!
//! *Win, then raise.* The win commits holder and epoch in the lock's own row. The winner then raises the
//! fence row of the scope, in the database that holds the data, in a transaction of its own, and only
//! if the row stands below its epoch. Only after that does the gate open.
//!
//! A fenced transaction first looks at the lock's row without locking it, and is refused when the lease
//! has expired by the database's clock or names another term. Then it locks the fence shared, and
//! compares. It keeps that lock until it commits, so a takeover waits for it or refuses it: safety rests
//! on this second step. The first keeps the writers of an expired holder from starving a takeover.
//!
//! A refusal means that the term is over. It is one error, [`FenceError::Refused`], and is never retried.

pub mod postgres;
pub mod sqlite;
pub mod sqlserver;
mod statement;

use async_trait::async_trait;
use tenure_database::DatabaseError;

pub use self::{
    postgres::PostgresFence, sqlite::SqliteFence, sqlserver::SqlServerFence,
    statement::FencedStatement,
};
use crate::{
    lock::LockPlace,
    term::{Epoch, Scope, Term},
};

/// What an election needs of the database that holds the data.
#[async_trait]
pub trait Fence: Send + Sync + 'static {
    /// Raises the fence to a term that was won, and writes its beginning into the history.
    async fn raise(&self, term: &Term, lock: &LockPlace) -> Result<Raised, FenceError>;

    /// Gets ready for a raise, so that a takeover need not wait for a connection. Best effort.
    async fn rehearse(&self) {}

    /// Writes the end of a term into the history.
    async fn end_term(&self, term: &Term, reason: &str) -> Result<(), FenceError>;

    /// The last term that an operator asked to hand over; zero for none.
    async fn drained_up_to(&self, scope: &Scope) -> Result<Epoch, FenceError> {
        let _ = scope;
        Ok(Epoch::ZERO)
    }
}

#[async_trait]
impl Fence for Box<dyn Fence> {
    async fn raise(&self, term: &Term, lock: &LockPlace) -> Result<Raised, FenceError> {
        (**self).raise(term, lock).await
    }

    async fn rehearse(&self) {
        (**self).rehearse().await;
    }

    async fn end_term(&self, term: &Term, reason: &str) -> Result<(), FenceError> {
        (**self).end_term(term, reason).await
    }

    async fn drained_up_to(&self, scope: &Scope) -> Result<Epoch, FenceError> {
        (**self).drained_up_to(scope).await
    }
}

/// The answer to a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Raised {
    /// The fence names the term now.
    Raised,
    /// The fence knows a newer term: this one is lost.
    Refused {
        /// Where it stands.
        fence: Epoch,
    },
}

/// What a fence says other than yes.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// The term is over. Whatever carried it must stop; trying again can never help.
    #[error("refused by the fence: {message}")]
    Refused {
        /// The term's number.
        epoch: Epoch,
        /// Where the fence stands, zero where it was not told.
        fence: Epoch,
        /// Why, as the database put it.
        message: String,
    },
    /// The scope is fenced by another kind of lock, or by another lock of this kind.
    #[error("{message}")]
    OtherLock {
        /// Which, and what to do.
        message: String,
    },
    /// No answer: the write may or may not have been applied.
    #[error("the fenced call got no answer")]
    Database(#[from] DatabaseError),
}

impl FenceError {
    /// Whether the term is over.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

impl From<tokio_postgres::Error> for FenceError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<rusqlite::Error> for FenceError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}
