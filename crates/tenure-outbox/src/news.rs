//! Hears that something was enqueued. A word that is lost is made up for by looking now and then.

use std::{sync::Arc, time::Duration};

use tenure_database::postgres::{self, PostgresUrl};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const LISTEN: &str = "LISTEN symphony_outbox";
/// How long connecting may take, and how long a server may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Wakes whoever waits, until it is told to stop.
pub async fn listen(url: PostgresUrl, wake: Arc<Notify>, stop: CancellationToken) {
    let mut heard = postgres::listen(url.noticing_silence(PATIENCE), LISTEN, PATIENCE);
    while let Some(Some(_)) = stop.run_until_cancelled(heard.recv()).await {
        wake.notify_one();
    }
}
