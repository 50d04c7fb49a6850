//! The fence on Postgres: `tenure_fence` for every client, and its Rust form.
//!
//! ```no_run
//! # async fn pay(client: &mut tokio_postgres::Client, term: &tenure::Term) -> Result<(), tenure::fence::FenceError> {
//! let transaction = tenure::fence::postgres::begin(client, term).await?;
//! transaction.execute("UPDATE accounts SET paid = true WHERE id = $1", &[&7]).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```

mod held_back;

use std::{convert::Infallible, ops::Deref, sync::PoisonError};

use async_trait::async_trait;
use futures_util::{FutureExt, future::try_join_all, join, try_join};
use tenure_database::{
    BootInstant, DatabaseError, Deadline,
    postgres::{Line, PostgresUrl},
};
use tokio::sync::Mutex;
use tokio_postgres::{
    Client, GenericClient, Row, Statement,
    types::{ToSql, Type},
};

use super::{Fence, FenceError, Raised};
use crate::{
    lock::LockPlace,
    postgres_call::{BEGIN, Parameter, transact},
    term::{Epoch, Scope, Term},
    timing::Timing,
};

const FENCE: &str = include_str!("../../sql/postgres/fence/fence.sql");
const RAISE: &str = include_str!("../../sql/postgres/fence/raise.sql");
const REHEARSE: &str = include_str!("../../sql/postgres/fence/rehearse.sql");
const END_TERM: &str = include_str!("../../sql/postgres/fence/end_term.sql");
const DRAINED: &str = include_str!("../../sql/postgres/fence/drained.sql");

/// The SQLSTATE of a refusal.
pub const REFUSED: &str = "TN001";
/// The SQLSTATE of a scope that is fenced by another lock.
pub const OTHER_LOCK: &str = "TN002";

/// After a statement that failed, a bare `COMMIT` would roll back and say that all is well. Any other command says that
/// it is not, and then nothing behind it in the same message is run; this one does what the commit would do first.
const COMMIT: &str = "SET CONSTRAINTS ALL IMMEDIATE; COMMIT";

/// Up to so many futures are polled in the order in which they were given, all of them.
const MOST_CALLS: usize = 30;

/// Begins a transaction that only this term can commit, in one round trip.
///
/// For one statement in autocommit, join the fence to it instead:
/// `WITH fence AS MATERIALIZED (SELECT tenure_fence($1, $2, $3)) UPDATE … FROM fence WHERE …`.
///
/// It takes the client for itself: with two transactions on one session, the end of the first would
/// leave the second without its fence.
pub async fn begin<'c>(
    client: &'c mut Client,
    term: &Term,
) -> Result<FencedTransaction<'c>, FenceError> {
    let client = &*client;
    let transaction = FencedTransaction { client, open: true };
    let (scope, holder, epoch) =
        (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
    let parameters: [Parameter<'_>; 3] =
        [(&scope, Type::TEXT), (&holder, Type::TEXT), (&epoch, Type::INT8)];
    // Sent together and answered in order; after a refusal the transaction can only roll back.
    let begun = try_join!(client.batch_execute(BEGIN), client.query_typed(FENCE, &parameters));
    match begun {
        Ok(_) => Ok(transaction),
        Err(error) => Err(meaning(error, term.epoch())),
    }
}

/// A transaction that has passed the fence; until it ends, no takeover gets by. Dropped without a commit,
/// it is rolled back.
#[must_use]
#[derive(Debug)]
pub struct FencedTransaction<'c> {
    client: &'c Client,
    open: bool,
}

impl FencedTransaction<'_> {
    /// Commits. An error means that nobody knows whether it was; after a statement that failed, it was not.
    pub async fn commit(mut self) -> Result<(), FenceError> {
        self.client.batch_execute(COMMIT).await?;
        self.open = false;
        Ok(())
    }
}

impl Deref for FencedTransaction<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
    }
}

impl Drop for FencedTransaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // Polled once it is sent; nobody waits for the answer, and later calls queue up behind it.
            let _ = self.client.batch_execute("ROLLBACK").now_or_never();
        }
    }
}

/// A prepared statement and its parameters, for [`together`].
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// Prepared on the connection that it is sent over.
    pub statement: &'c Statement,
    /// In the order of its `$1`, `$2` and so on.
    pub parameters: &'c [&'c (dyn ToSql + Sync)],
}

/// Runs statements that only this term can commit, in a transaction of their own and in two round trips, and
/// returns the rows of each, in order. What depends on another's answer needs [`begin`].
///
/// Nothing is sent before the fence has been passed inside the transaction. Whatever is sent ahead, each with a
/// Sync of its own, goes on when an earlier message has failed: behind a `BEGIN` that was cancelled, writes would
/// commit one by one, and unfenced (measured). For the same reason statements are prepared beforehand, so that
/// the commit cannot overtake one of them, and the client is taken whole, so that nobody else's commit can.
pub async fn together(
    client: &mut Client,
    term: &Term,
    calls: &[Call<'_>],
) -> Result<Vec<Vec<Row>>, FenceError> {
    assert!(calls.len() <= MOST_CALLS, "{} statements in one transaction", calls.len());
    let mut transaction = begin(client, term).await?;
    let client = transaction.client;
    let answers = calls.iter().map(|call| client.query(call.statement, call.parameters));
    // A statement that cannot even be sent ends this before the commit is; the transaction is rolled back then.
    let written = try_join!(try_join_all(answers), client.batch_execute("COMMIT"));
    let (rows, ()) = written.map_err(|error| meaning(error, term.epoch()))?;
    transaction.open = false;
    Ok(rows)
}

/// Runs one statement that only this term can commit, and returns its rows. For batches; a write of one row
/// without rows to return is cheaper as a [`FencedStatement`](super::FencedStatement).
pub async fn query(
    client: &mut Client,
    term: &Term,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, FenceError> {
    let answers = together(client, term, &[Call { statement, parameters }]).await?;
    Ok(answers.into_iter().flatten().collect())
}

/// Passes the fence inside a transaction that has just begun; until it ends, no takeover gets by.
pub async fn pass(transaction: &impl GenericClient, term: &Term) -> Result<(), FenceError> {
    let (scope, holder, epoch) =
        (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
    let passed = transaction
        .query_typed(FENCE, &[(&scope, Type::TEXT), (&holder, Type::TEXT), (&epoch, Type::INT8)])
        .await;
    passed.map(drop).map_err(|error| meaning(error, term.epoch()))
}

/// What an error of a fenced statement means for the term that it carried.
#[must_use]
pub fn meaning(error: tokio_postgres::Error, epoch: Epoch) -> FenceError {
    let Some(told) = error.as_db_error() else { return error.into() };
    let message = told.message().to_owned();
    match told.code().code() {
        REFUSED => {
            let fence = told.detail().and_then(|detail| detail.parse().ok()).unwrap_or(0);
            FenceError::Refused { epoch, fence: Epoch::new(fence), message }
        }
        OTHER_LOCK => {
            let hint = told.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            FenceError::OtherLock { message: message + &hint }
        }
        _ => error.into(),
    }
}

/// The election's side of the fence, on connections of its own.
#[derive(Debug)]
pub struct PostgresFence {
    line: Mutex<Line>,
    /// For whoever clears the way while a raise waits.
    second: Mutex<Line>,
    /// The term that is being raised, and since when.
    raising: std::sync::Mutex<Option<(Epoch, BootInstant)>>,
    timing: Timing,
}

impl PostgresFence {
    /// The fence in the database that holds the data.
    #[must_use]
    pub fn new(url: PostgresUrl, timing: Timing) -> Self {
        let second = Mutex::new(Line::to(url.clone()));
        let (line, raising) = (Mutex::new(Line::to(url)), std::sync::Mutex::default());
        Self { line, second, raising, timing }
    }

    /// When this term was first tried to be raised.
    fn raising_since(&self, epoch: Epoch) -> BootInstant {
        let mut raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, since) = raising
            .filter(|(raised, _)| *raised == epoch)
            .unwrap_or_else(|| (epoch, BootInstant::now()));
        *raising = Some((epoch, since));
        since
    }

    /// Ends what holds the raise of this term back for longer than the margin; never returns.
    async fn clear_the_way(&self, term: &Term) -> Infallible {
        let patience = self.raising_since(term.epoch()) + self.timing.margin();
        tokio::time::sleep(patience.left()).await;
        let mut second = self.second.lock().await;
        held_back::clear_the_way(&mut second, term.scope(), self.timing.call_timeout()).await
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }
}

#[async_trait]
impl Fence for PostgresFence {
    async fn raise(&self, term: &Term, lock: &LockPlace) -> Result<Raised, FenceError> {
        let mut line = self.line.lock().await;
        let deadline = self.deadline();
        let session = line.take(deadline).await?;
        let (scope, holder, epoch) =
            (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
        let (kind, place) = (lock.kind, lock.name.as_str());
        let margin_ms = i64::try_from(self.timing.margin().as_millis()).unwrap_or(i64::MAX);
        let parameters: [Parameter<'_>; 6] = [
            (&scope, Type::TEXT),
            (&holder, Type::TEXT),
            (&epoch, Type::INT8),
            (&kind, Type::TEXT),
            (&place, Type::TEXT),
            (&margin_ms, Type::INT8),
        ];
        let limit = self.timing.statement_timeout();
        let raised = tokio::select! {
            raised = deadline.run(transact(&session, limit, RAISE, &parameters)) => raised,
            never = self.clear_the_way(term) => match never {},
        };
        let rows = raised.map_err(|error| match error {
            DatabaseError::Postgres(error) => meaning(error, term.epoch()),
            other => other.into(),
        })?;
        line.put_back(session);
        let row = &rows[0];
        Ok(match row.get("raised") {
            true => Raised::Raised,
            false => Raised::Refused { fence: Epoch::new(row.get("fence_epoch")) },
        })
    }

    /// Connects, and raises once in a transaction that is rolled back: a session's first call of a
    /// function costs milliseconds, and a takeover is when they matter.
    async fn rehearse(&self) {
        let mut line = self.line.lock().await;
        let deadline = self.deadline();
        let Ok(session) = line.take(deadline).await else { return };
        let rehearsal = async {
            // Awaited: outside a transaction, what follows would stay.
            session.batch_execute(BEGIN).await?;
            let (raised, ended) =
                join!(session.query_typed(REHEARSE, &[]), session.batch_execute("ROLLBACK"));
            raised.and(ended)
        };
        // What fails here will say so when it matters.
        if deadline.run(rehearsal).await.is_ok() {
            line.put_back(session);
        }
    }

    async fn end_term(&self, term: &Term, reason: &str) -> Result<(), FenceError> {
        let mut line = self.line.lock().await;
        let deadline = self.deadline();
        let session = line.take(deadline).await?;
        let (scope, holder, epoch) =
            (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
        let parameters: [Parameter<'_>; 4] = [
            (&scope, Type::TEXT),
            (&holder, Type::TEXT),
            (&epoch, Type::INT8),
            (&reason, Type::TEXT),
        ];
        let limit = self.timing.statement_timeout();
        deadline.run(transact(&session, limit, END_TERM, &parameters)).await?;
        line.put_back(session);
        Ok(())
    }

    async fn drained_up_to(&self, scope: &Scope) -> Result<Epoch, FenceError> {
        let mut line = self.line.lock().await;
        let deadline = self.deadline();
        let session = line.take(deadline).await?;
        let scope = scope.as_str();
        let parameters: [Parameter<'_>; 1] = [(&scope, Type::TEXT)];
        let rows = deadline.run(session.query_typed(DRAINED, &parameters)).await?;
        line.put_back(session);
        Ok(rows.first().map_or(Epoch::ZERO, |row| Epoch::new(row.get("epoch"))))
    }
}
