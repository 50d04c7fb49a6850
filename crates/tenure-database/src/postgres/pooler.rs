//! Whether something between us and Postgres shares sessions among clients.

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline};

const BACKEND: &str = include_str!("../../sql/postgres/backend.sql");
/// How many clients sit in a transaction at once, to take away what a pooler keeps idle.
const HOLDERS: usize = 3;
/// How often that is tried: another client may take the very backend that would have given it away.
const ROUNDS: usize = 4;

/// Whether a transaction pooler answers at this URL.
///
/// It breaks session locks, `LISTEN` and session settings without a word. At a quiet start one client
/// sees the same backend again and again, so asking twice is not enough: others that sit in transactions
/// take backends away, and behind a pooler one of them gets the backend that has just served the first,
/// or the first is then served by another.
pub async fn is_transaction_pooler(
    url: &PostgresUrl,
    deadline: Deadline,
) -> Result<bool, DatabaseError> {
    let first = url.connect(deadline).await?;
    let mut holders = Vec::new();
    for _ in 0..HOLDERS {
        holders.push(url.connect(deadline).await?);
    }
    for _ in 0..ROUNDS {
        if shares_a_backend(&first, &holders, deadline).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn shares_a_backend(
    first: &Session,
    holders: &[Session],
    deadline: Deadline,
) -> Result<bool, DatabaseError> {
    let before = backend(first, deadline).await?;
    let mut shared = false;
    for holder in holders {
        deadline.run(holder.batch_execute("BEGIN")).await?;
        shared |= backend(holder, deadline).await? == before;
    }
    shared |= backend(first, deadline).await? != before;
    for holder in holders {
        deadline.run(holder.batch_execute("ROLLBACK")).await?;
    }
    Ok(shared)
}

async fn backend(session: &Session, deadline: Deadline) -> Result<String, DatabaseError> {
    let answer = deadline.run(session.simple_query(BACKEND)).await?;
    Ok(format!("{answer:?}"))
}
