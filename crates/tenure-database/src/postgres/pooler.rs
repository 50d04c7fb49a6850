//! Whether something between us and Postgres shares sessions among clients.

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline};

/// Whether a transaction pooler answers at this URL.
///
/// It breaks session locks, `LISTEN` and session settings without a word. At a quiet start one client
/// sees the same backend again and again, so asking twice is not enough: a second client that sits in a
/// transaction takes that backend away, and behind a pooler the first is then served by another.
pub async fn is_transaction_pooler(
    url: &PostgresUrl,
    deadline: Deadline,
) -> Result<bool, DatabaseError> {
    let first = url.connect(deadline).await?;
    let before = backend(&first, deadline).await?;
    let second = url.connect(deadline).await?;
    deadline.run(second.batch_execute("BEGIN")).await?;
    backend(&second, deadline).await?;
    let after = backend(&first, deadline).await?;
    deadline.run(second.batch_execute("ROLLBACK")).await?;
    Ok(before != after)
}

async fn backend(session: &Session, deadline: Deadline) -> Result<String, DatabaseError> {
    let answer = deadline.run(session.simple_query(BACKEND)).await?;
    Ok(format!("{answer:?}"))
}

const BACKEND: &str = include_str!("../../sql/postgres/backend.sql");
