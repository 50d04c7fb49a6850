//! One statement in a transaction of its own, in two round trips, through any pooler.

use std::time::Duration;

use futures_util::try_join;
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

pub(crate) const BEGIN: &str = include_str!("../sql/postgres/call/begin.sql");
const SETTINGS: &str = include_str!("../sql/postgres/call/settings.sql");

pub(crate) type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// Runs a statement that must be durable, and that the server itself ends after `limit`.
///
/// Unnamed statements and settings of the transaction alone: nothing of it outlives the transaction,
/// so a transaction pooler does no harm. The statement is sent when the transaction has begun and has its settings:
/// behind a `BEGIN` that failed it would commit by itself, and need not be durable.
pub(crate) async fn transact(
    client: &Client,
    limit: Duration,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let limit = limit.as_millis().to_string();
    let settings: [Parameter<'_>; 1] = [(&limit, Type::TEXT)];
    try_join!(client.batch_execute(BEGIN), client.query_typed(SETTINGS, &settings))?;
    let statement = client.query_typed(statement, parameters);
    let (rows, ()) = try_join!(statement, client.batch_execute("COMMIT"))?;
    Ok(rows)
}
