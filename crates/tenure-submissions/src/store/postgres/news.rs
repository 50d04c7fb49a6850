//! Hears what other instances, and this one, have stored and recorded.

use std::time::Duration;

use tenure_database::{
    Deadline,
    postgres::{PostgresUrl, Session},
};
use tokio::sync::mpsc;

use crate::store::News;

const LISTEN: &str = "LISTEN submission_intents; LISTEN submission_done";
const DONE: &str = "submission_done";
/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells until nobody listens any more.
pub(super) fn listen(url: PostgresUrl, patience: Duration) -> mpsc::UnboundedReceiver<News> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while !tell.is_closed() {
            match connect(&url, patience).await {
                Ok(session) => hear(session, &tell).await,
                Err(error) => {
                    let sql_error = tenure_database::error::chain(&error);
                    tracing::warn!(target: "tenure", sql_error, "submission_news_failed");
                }
            }
            tokio::select! {
                () = tell.closed() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    });
    told
}

async fn connect(
    url: &PostgresUrl,
    patience: Duration,
) -> Result<Session, tenure_database::DatabaseError> {
    let deadline = Deadline::after(patience);
    let session = url.connect(deadline).await?;
    deadline.run(session.batch_execute(LISTEN)).await?;
    Ok(session)
}

async fn hear(mut session: Session, tell: &mpsc::UnboundedSender<News>) {
    // Nobody knows what was told before.
    let mut news = Some(News::Missed);
    while let Some(told) = news.take() {
        if tell.send(told).is_err() {
            return;
        }
        tokio::select! {
            () = tell.closed() => return,
            notification = session.notification() => {
                news = notification.map(|notification| match notification.channel() {
                    DONE => News::Done(rows(notification.payload())),
                    _ => News::Stored,
                });
            }
        }
    }
}

fn rows(payload: &str) -> Vec<i64> {
    payload.split(',').filter_map(|row| row.parse().ok()).collect()
}
