//! Hearing from etcd that the leader key has come or gone, on a connection of its own.

use std::time::Duration;

use etcd_client::WatchStream;
use tenure_database::{Deadline, error};
use tokio::sync::mpsc;

use super::session::{Line, call};
use crate::{
    lock::{LockError, News},
    timing::Timing,
};

/// Tells of every change of the key, until nobody listens any more.
///
/// What may have been missed while the connection was down is told once it is up again.
pub(super) async fn watch(
    mut line: Line,
    key: String,
    timing: Timing,
    tell: mpsc::UnboundedSender<News>,
) {
    let patience = timing.call_timeout().max(Duration::from_secs(1));
    let mut failures = 0;
    while !tell.is_closed() {
        match begin(&mut line, &key, Deadline::after(patience)).await {
            Ok(changes) => {
                failures = 0;
                follow(changes, &tell).await;
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(target: "tenure", error = error::chain(&error), "cannot watch the leader key");
            }
        }
        let (pause, spread) = timing.backoff().pause(failures.max(1));
        tokio::time::sleep(pause + spread.mul_f64(fastrand::f64())).await;
    }
}

async fn begin(line: &mut Line, key: &str, deadline: Deadline) -> Result<WatchStream, LockError> {
    let mut session = line.take(deadline).await?;
    call(deadline, session.client.watch(key, None)).await
}

/// The first message says that the watch stands.
async fn follow(mut changes: WatchStream, tell: &mpsc::UnboundedSender<News>) {
    let mut told = Ok(());
    while told.is_ok() {
        let message = tokio::select! {
            message = changes.message() => message,
            () = tell.closed() => return,
        };
        match message {
            Ok(Some(change)) if !change.canceled() => told = tell.send(News::Changed),
            _ => return,
        }
    }
}
