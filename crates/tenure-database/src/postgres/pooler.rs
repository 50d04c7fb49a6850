//! Whether something between us and Postgres shares sessions among clients.

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline};

const BACKEND: &str = include_str!("../../sql/postgres/backend.sql");
/// How often it is tried: another client may take the very backend that would have given a pooler away.
const ROUNDS: usize = 8;

/// Whether a transaction pooler answers at this URL.
///
/// It breaks session locks, `LISTEN` and session settings without a word. At a quiet start one client
/// sees the same backend again and again, so asking twice is not enough: a second client that sits in a
/// transaction takes a backend away. Behind a pooler it gets the one that has just served the first, or
/// the first is then served by another.
pub async fn is_transaction_pooler(
    url: &PostgresUrl,
    deadline: Deadline,
) -> Result<bool, DatabaseError> {
    let first = url.connect(deadline).await?;
    let second = url.connect(deadline).await?;
    for _ in 0..ROUNDS {
        if share_a_backend(&first, &second, deadline).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn share_a_backend(
    first: &Session,
    second: &Session,
    deadline: Deadline,
) -> Result<bool, DatabaseError> {
    let before = backend(first, deadline).await?;
    deadline.run(second.batch_execute("BEGIN")).await?;
    let taken = backend(second, deadline).await?;
    let after = backend(first, deadline).await?;
    deadline.run(second.batch_execute("ROLLBACK")).await?;
    Ok(taken == before || after != before)
}

async fn backend(session: &Session, deadline: Deadline) -> Result<String, DatabaseError> {
    let answer = deadline.run(session.simple_query(BACKEND)).await?;
    Ok(format!("{answer:?}"))
}
