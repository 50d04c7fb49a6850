//! A fenced write of one statement on Postgres: the cheapest there is.

use tokio_postgres::{Client, Statement, types::ToSql};

use super::{FenceError, postgres};
use crate::term::Term;

const OPEN: &str = include_str!("../../sql/postgres/fragment/open_fence.sql");

/// A statement that writes only while its term may, in autocommit and in one round trip.
///
/// `{fence}` stands for the part that passes the fence; the write takes its rows from `fence`, and its own
/// parameters begin at `$4`:
///
/// ```no_run
/// # use tenure::{Term, fence::{FenceError, FencedStatement}};
/// # async fn pay(client: &tokio_postgres::Client, term: &Term) -> Result<(), FenceError> {
/// let pay = FencedStatement::prepare(
///     client,
///     "WITH {fence} UPDATE invoices SET paid = true FROM fence WHERE id = $4",
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
    /// Prepares a statement on this connection; one that does not read `fence` is refused.
    pub async fn prepare(client: &Client, sql: &str) -> Result<Self, FenceError> {
        if !reads_the_fence(sql) {
            return Err(FenceError::NotFenced { statement: sql.to_owned() });
        }
        let statement = client.prepare(&sql.replace("{fence}", OPEN)).await?;
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
        let written = client.execute(&self.statement, &all).await;
        let rows = written.map_err(|error| postgres::meaning(error, term.epoch()))?;
        if rows == 0 {
            // Was it the fence or the data? A refusal is for ever, so asking afterwards is soon enough.
            postgres::pass(client, term).await?;
        }
        Ok(rows)
    }
}

/// A common table expression that nobody reads is never run: that would be no fence at all.
fn reads_the_fence(sql: &str) -> bool {
    let rest = sql.replacen("{fence}", " ", 1).to_lowercase();
    let words: Vec<_> = rest.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let reads = words
        .windows(2)
        .any(|pair| matches!(pair, ["from" | "using" | "join" | "lateral", "fence"]));
    sql.matches("{fence}").count() == 1 && reads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_does_not_read_the_fence_is_found() {
        for fenced in [
            "WITH {fence} UPDATE t SET a = 1 FROM fence WHERE id = $4",
            "WITH {fence} DELETE FROM t USING fence WHERE id = $4",
            "WITH {fence} INSERT INTO t (id) SELECT $4 FROM fence",
            "WITH x AS (SELECT 1), {fence} UPDATE t SET a = 1 FROM x JOIN fence ON true",
        ] {
            assert!(reads_the_fence(fenced), "{fenced}");
        }
        for unfenced in [
            "WITH {fence} UPDATE t SET a = 1 WHERE id = $4",
            "UPDATE t SET a = 1 FROM fence WHERE id = $4",
            "WITH {fence} UPDATE fence SET a = 1",
        ] {
            assert!(!reads_the_fence(unfenced), "{unfenced}");
        }
    }
}
