//! A fenced write of one statement on Postgres: the cheapest there is.

use tokio_postgres::{
    Client, Statement,
    types::{ToSql, Type},
};

use super::{FenceError, postgres};
use crate::{
    lock::postgres_lease::LeaseTable,
    term::{Scope, Term},
};

const FENCED: &str = include_str!("../../sql/postgres/fragment/fenced_statement.sql");
const LOCK_OF: &str = include_str!("../../sql/postgres/fence/lock_of.sql");
const LEASE: &str = include_str!("../../sql/postgres/fragment/lock_speaks/lease.sql");
const ADVISORY: &str = include_str!("../../sql/postgres/fragment/lock_speaks/advisory.sql");
const ELSEWHERE: &str = include_str!("../../sql/postgres/fragment/lock_speaks/elsewhere.sql");

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
/// let pay = FencedStatement::prepare(
///     client,
///     term.scope(),
///     "UPDATE invoices SET paid = true WHERE id = $4",
/// )
/// .await?;
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
    /// Prepares a write on this connection, for the terms of a scope. It is made for the lock that the scope
    /// has now; after a switch to another it is slower, and as safe.
    pub async fn prepare(client: &Client, scope: &Scope, write: &str) -> Result<Self, FenceError> {
        let known = client.query_typed(LOCK_OF, &[(&scope.as_str(), Type::TEXT)]).await?;
        let (kind, place) = known.first().map_or(("", ""), |row| (row.get(0), row.get(1)));
        let lock_speaks = lock_speaks(kind, place);
        let sql = FENCED.replace("{lock_speaks}", &lock_speaks).replace("{write}", write);
        Ok(Self { statement: client.prepare(&sql).await? })
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
        let written = client.execute(&self.statement, &all).await;
        written.map_err(|error| postgres::meaning(error, term.epoch()))
    }
}

/// How a fenced statement looks at the lock's own row. What is not known here is left to the function.
fn lock_speaks(kind: &str, place: &str) -> String {
    let lock = match kind {
        "postgres-lease" => LeaseTable::named(place).map(|table| table.statement(LEASE)).ok(),
        "postgres-advisory" => {
            place.parse().map(|key: i64| ADVISORY.replace("{scope_key}", &key.to_string())).ok()
        }
        _ => None,
    };
    lock.unwrap_or_else(|| ELSEWHERE.to_owned())
}
