//! A fenced write of one statement on Postgres: the cheapest there is.

use tokio_postgres::{Client, Statement, types::ToSql};

use super::{FenceError, postgres};
use crate::term::Term;

const FENCED: &str = include_str!("../../sql/postgres/fragment/fenced_statement.sql");

/// A write that only its term can commit, in autocommit and in one round trip.
///
/// The write is an `INSERT`, `UPDATE` or `DELETE` without `RETURNING`, whose parameters begin at `$4`. It is
/// wrapped so that it fails as a whole unless the fence is passed; there is nothing in it to forget.
///
/// It does not tighten the session's timeouts: give sessions that write this way a `statement_timeout` below
/// the margin, or a write that waits for a row holds a takeover back. A table with the trigger
/// `tenure_require_fence` takes only transactions that have called `tenure_fence`: see
/// [`postgres::begin`](super::postgres::begin).
///
/// ```no_run
/// # use tenure::{Term, fence::{FenceError, FencedStatement}};
/// # async fn pay(client: &tokio_postgres::Client, term: &Term) -> Result<(), FenceError> {
/// let pay = FencedStatement::prepare(client, "UPDATE invoices SET paid = true WHERE id = $4").await?;
/// let rows = pay.execute(client, term, &[&7_i64]).await?;
/// assert!(rows <= 1, "zero: the invoice has moved on; a refusal of the fence would be an error");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FencedStatement {
    statement: Statement,
}

impl FencedStatement {
    /// Prepares a write on this connection.
    pub async fn prepare(client: &Client, write: &str) -> Result<Self, FenceError> {
        let statement = client.prepare(&FENCED.replace("{write}", write)).await?;
        Ok(Self { statement })
    }

    /// Writes, and returns how many rows were. Zero rows are the data's answer, and never the fence's.
    pub async fn execute(
        &self,
        client: &Client,
        term: &Term,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, FenceError> {
        let (scope, holder) = (term.scope().as_str(), term.holder().as_str());
        let epoch = term.epoch().get();
        let of_term: [&(dyn ToSql + Sync); 3] = [&scope, &holder, &epoch];
        let all: Vec<_> = of_term.into_iter().chain(parameters.iter().copied()).collect();
        let answer = client.query_one(&self.statement, &all).await;
        let row = answer.map_err(|error| postgres::meaning(error, term.epoch()))?;
        Ok(row.get::<_, i64>("rows").unsigned_abs())
    }
}
