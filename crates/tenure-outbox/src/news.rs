//! Hears that something was enqueued. A word that is lost is made up for by looking now and then.

use std::{sync::Arc, time::Duration};

use tenure_database::{
    DatabaseError, Deadline,
    error::chain,
    postgres::{PostgresUrl, Session},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const LISTEN: &str = "LISTEN symphony_outbox";
/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_secs(1);

/// Wakes whoever waits, until it is told to stop.
pub async fn listen(url: PostgresUrl, wake: Arc<Notify>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match stop.run_until_cancelled(connect(&url)).await {
            Some(Ok(session)) => hear(session, &wake, &stop).await,
            Some(Err(error)) => {
                tracing::warn!(target: "tenure", sql_error = chain(&error), "outbox_news_failed");
            }
            None => return,
        }
        stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
}

async fn connect(url: &PostgresUrl) -> Result<Session, DatabaseError> {
    let deadline = Deadline::after(PATIENCE);
    let session = url.noticing_silence(PATIENCE).connect(deadline).await?;
    deadline.run(session.batch_execute(LISTEN)).await?;
    Ok(session)
}

async fn hear(mut session: Session, wake: &Notify, stop: &CancellationToken) {
    // Nobody knows what was told before.
    wake.notify_one();
    while let Some(Some(_)) = stop.run_until_cancelled(session.notification()).await {
        wake.notify_one();
    }
}
