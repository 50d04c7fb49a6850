//! Hearing from Postgres that a lock has changed, on a connection of its own.

use std::time::Duration;

use tenure_database::{
    DatabaseError, Deadline, error,
    postgres::{PostgresUrl, Session, is_transaction_pooler},
};
use tokio::sync::mpsc;

use super::News;
use crate::timing::Timing;

/// Whether a transaction pooler may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooler {
    Possible,
    /// The lock itself refuses to work through one.
    Refused,
}

/// Tells of every notification that `concerns` this lock, until the lock is gone.
///
/// What may have been missed while the connection was down is told once it is up again. Behind a
/// transaction pooler notifications never come; then nobody waits for them.
pub(super) async fn listen(
    url: PostgresUrl,
    listen: String,
    timing: Timing,
    pooler: Pooler,
    tell: mpsc::UnboundedSender<News>,
    concerns: impl Fn(&str) -> bool + Send,
) {
    let patience = timing.call_timeout().max(Duration::from_secs(1));
    let url = url.noticing_silence(Duration::from_secs(30));
    let mut failures = 0;
    while !tell.is_closed() {
        match connect(&url, &listen, pooler, patience).await {
            Ok(Some(session)) => {
                failures = 0;
                follow(session, &tell, &concerns).await;
            }
            Ok(None) => {
                tracing::info!(
                    target: "tenure",
                    "a transaction pooler answers: a released lease is seen at the next look, not at once"
                );
                return;
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(target: "tenure", sql_error = error::chain(&error), "cannot listen for changes");
            }
        }
        let (pause, spread) = timing.backoff().pause(failures.max(1));
        tokio::time::sleep(pause + spread.mul_f64(fastrand::f64())).await;
    }
}

async fn connect(
    url: &PostgresUrl,
    listen: &str,
    pooler: Pooler,
    patience: Duration,
) -> Result<Option<Session>, DatabaseError> {
    let deadline = Deadline::after(patience);
    if pooler == Pooler::Possible && is_transaction_pooler(url, deadline).await? {
        return Ok(None);
    }
    let session = url.connect(deadline).await?;
    deadline.run(session.batch_execute(listen)).await?;
    Ok(Some(session))
}

async fn follow(
    mut session: Session,
    tell: &mpsc::UnboundedSender<News>,
    concerns: &impl Fn(&str) -> bool,
) {
    let mut told = tell.send(News::Changed);
    while told.is_ok() {
        match session.notification().await {
            Some(notification) if concerns(notification.payload()) => {
                told = tell.send(News::Changed);
            }
            Some(_) => {}
            None => return,
        }
    }
}
