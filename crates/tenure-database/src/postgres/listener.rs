//! Hears notifications on a connection of its own, which is made anew whenever it is lost.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::Notification;

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline, error};

/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_secs(1);

/// What was heard.
#[derive(Debug)]
pub enum Heard {
    /// The connection is new: nobody knows what was told before.
    Connected,
    /// A notification.
    Told(Notification),
}

/// Listens with this statement, until nobody hears what is told any more.
#[must_use]
pub fn listen(
    url: PostgresUrl,
    listen: &'static str,
    patience: Duration,
) -> mpsc::UnboundedReceiver<Heard> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while !tell.is_closed() {
            match connect(&url, listen, patience).await {
                Ok(session) => hear(session, &tell).await,
                Err(error) => {
                    let sql_error = error::chain(&error);
                    tracing::warn!(target: "tenure", sql_error, "listening_failed");
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
    listen: &str,
    patience: Duration,
) -> Result<Session, DatabaseError> {
    let deadline = Deadline::after(patience);
    let session = url.connect(deadline).await?;
    deadline.run(session.batch_execute(listen)).await?;
    Ok(session)
}

async fn hear(mut session: Session, tell: &mpsc::UnboundedSender<Heard>) {
    let mut heard = Some(Heard::Connected);
    while let Some(one) = heard.take() {
        if tell.send(one).is_err() {
            return;
        }
        tokio::select! {
            () = tell.closed() => return,
            notification = session.notification() => heard = notification.map(Heard::Told),
        }
    }
}
