//! The fence on SQL Server: `dbo.tenure_fence` for every client, and its Rust form.
//!
//! A fenced transaction keeps a shared lock on the fence's row until it commits; a takeover needs that row for itself.
//! See `docs/sqlserver.md` for the argument, lock by lock.

use async_trait::async_trait;
use tenure_database::{
    DatabaseError, Deadline,
    sqlserver::{Batch, Line, Meaning, Row, Session, SqlServer, SqlServerUrl, ToSql},
    sqlserver_batch,
};
use tokio::sync::Mutex;

use super::{Fence, FenceError, Raised};
use crate::{
    lock::LockPlace,
    term::{Epoch, Scope, Term},
    timing::Timing,
};

/// All statements of the fence.
pub const BATCHES: [Batch; 4] = [FENCE, RAISE, END_TERM, DRAINED];
const FENCE: Batch = sqlserver_batch!("fence/fence", 3);
const RAISE: Batch = sqlserver_batch!("fence/raise", 6);
const END_TERM: Batch = sqlserver_batch!("fence/end_term", 4);
const DRAINED: Batch = sqlserver_batch!("fence/drained", 1);
const FENCED: &str = include_str!("../../sql/sqlserver/fragment/fenced_statement.sql");

/// A batch that only its term can commit: `write` takes its own parameters from `@P4` on.
#[must_use]
pub fn fenced(write: &Batch) -> String {
    FENCED.replace("{write}", write.sql)
}

/// Runs a batch made by [`fenced`] in a transaction of its own, and returns the rows that it ends with.
pub async fn query(
    session: &mut Session,
    term: &Term,
    fenced: &str,
    parameters: &[&dyn ToSql],
) -> Result<Vec<Row>, FenceError> {
    let (scope, holder, epoch) =
        (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
    let of_term: [&dyn ToSql; 3] = [&scope, &holder, &epoch];
    let all: Vec<_> = of_term.into_iter().chain(parameters.iter().copied()).collect();
    let written = session.query_text(fenced, &all).await;
    written.map_err(|error| meaning(error.into(), term.epoch()))
}

/// Passes the fence inside a transaction that the caller has begun; until it ends, no takeover gets by.
pub async fn pass(session: &mut Session, term: &Term) -> Result<(), FenceError> {
    let (scope, holder, epoch) =
        (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
    let passed = session.query(&FENCE, &[&scope, &holder, &epoch]).await;
    passed.map(drop).map_err(|error| meaning(error.into(), term.epoch()))
}

/// What an error of a fenced batch means for the term that it carried.
#[must_use]
pub fn meaning(error: DatabaseError, epoch: Epoch) -> FenceError {
    let told = error.server_message().unwrap_or_default().to_owned();
    match error.meaning() {
        Some(Meaning::Refused) => {
            FenceError::Refused { epoch, fence: Epoch::new(stands_at(&told)), message: told }
        }
        Some(Meaning::OtherLock) => FenceError::OtherLock { message: told },
        _ => error.into(),
    }
}

/// Where the fence stands: in brackets, at the end of its refusal.
fn stands_at(refusal: &str) -> i64 {
    let tail = refusal.trim_end().strip_suffix(']').and_then(|told| told.rsplit_once('['));
    tail.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// The election's side of the fence, on a connection of its own.
#[derive(Debug)]
pub struct SqlServerFence {
    line: Mutex<Line>,
    timing: Timing,
}

impl SqlServerFence {
    /// The fence in the database that holds the data.
    #[must_use]
    pub fn new(url: SqlServerUrl, timing: Timing) -> Self {
        let line = Line::to(SqlServer::at(url, timing.statement_timeout()));
        Self { line: Mutex::new(line), timing }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }

    async fn call(
        &self,
        batch: &Batch,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Row>, DatabaseError> {
        let mut line = self.line.lock().await;
        let deadline = self.deadline();
        let mut session = line.take(deadline).await?;
        let rows = deadline.run(session.query(batch, parameters)).await?;
        line.put_back(session);
        Ok(rows)
    }
}

#[async_trait]
impl Fence for SqlServerFence {
    async fn raise(&self, term: &Term, lock: &LockPlace) -> Result<Raised, FenceError> {
        let (scope, holder, epoch) =
            (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
        let margin_ms = i64::try_from(self.timing.margin().as_millis()).unwrap_or(i64::MAX).max(1);
        let parameters: [&dyn ToSql; 6] =
            [&scope, &holder, &epoch, &lock.kind, &lock.name.as_str(), &margin_ms];
        let rows = self.call(&RAISE, &parameters).await;
        let rows = rows.map_err(|error| meaning(error, term.epoch()))?;
        let row = rows.first().ok_or_else(|| DatabaseError::Answer { column: "row".to_owned() })?;
        Ok(match row.need("raised")? {
            true => Raised::Raised,
            false => Raised::Refused { fence: Epoch::new(row.need("fence_epoch")?) },
        })
    }

    async fn rehearse(&self) {
        let mut line = self.line.lock().await;
        // What fails here will say so when it matters.
        if let Ok(session) = line.take(self.deadline()).await {
            line.put_back(session);
        }
    }

    async fn end_term(&self, term: &Term, reason: &str) -> Result<(), FenceError> {
        let (scope, holder, epoch) =
            (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
        Ok(self.call(&END_TERM, &[&scope, &holder, &epoch, &reason]).await.map(drop)?)
    }

    async fn drained_up_to(&self, scope: &Scope) -> Result<Epoch, FenceError> {
        let rows = self.call(&DRAINED, &[&scope.as_str()]).await?;
        let epoch = rows.first().map(|row| row.need("epoch")).transpose()?;
        Ok(epoch.map_or(Epoch::ZERO, Epoch::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_where_the_fence_stands() {
        assert_eq!(stands_at("term 3 of a in jobs is over: why [7]"), 7);
        assert_eq!(stands_at("term 3 of [x] in jobs is over: why [12]"), 12);
        for told in ["", "term 3", "[x]", "7]", "[7] "] {
            assert_eq!(stands_at(told), i64::from(told == "[7] ") * 7, "{told}");
        }
    }
}
