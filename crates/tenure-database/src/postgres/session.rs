//! One connection to Postgres, and the task that drives it.

use std::{
    collections::HashMap,
    future::poll_fn,
    ops::{Deref, DerefMut},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::mpsc,
    task::JoinHandle,
};
use tokio_postgres::{AsyncMessage, Client, Connection, Notification, Statement};
use tokio_util::sync::CancellationToken;

/// A session: whoever drops it closes the socket at once, and with it whatever the session held; unless
/// somebody has a duplicate of the socket. The server is not told: whatever it hears, it hears from the socket.
#[derive(Debug)]
pub struct Session {
    /// There until the session is dropped.
    client: Option<Client>,
    ended: CancellationToken,
    notifications: mpsc::UnboundedReceiver<Notification>,
    driver: Option<JoinHandle<()>>,
    prepared: HashMap<&'static str, Statement>,
}

impl Session {
    pub(super) fn driving<S, T>(client: Client, connection: Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let ended = CancellationToken::new();
        let (notify, notifications) = mpsc::unbounded_channel();
        let driver = tokio::spawn(drive(connection, notify, ended.clone().drop_guard()));
        let prepared = HashMap::new();
        Self { client: Some(client), ended, notifications, driver: Some(driver), prepared }
    }

    /// Cancelled when the connection has ended, whoever ended it.
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// A statement, prepared once per session.
    pub async fn prepared(
        &mut self,
        sql: &'static str,
    ) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.prepare(sql).await?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    /// The next notification of a channel that this session listens to; `None` when it has ended.
    pub async fn notification(&mut self) -> Option<Notification> {
        self.notifications.recv().await
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        driver.abort();
        // A driver that sees its client go says goodbye to the server, duplicates or not. So the client goes
        // last.
        let client = self.client.take();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let _ = driver.await;
                drop(client);
            });
        }
    }
}

async fn drive<S, T>(
    mut connection: Connection<S, T>,
    notify: mpsc::UnboundedSender<Notification>,
    _ended: tokio_util::sync::DropGuard,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                // Nobody listening any more is not the connection's concern.
                let _ = notify.send(notification);
            }
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(target: "tenure", message = notice.message(), "notice of the database");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(target: "tenure", sql_error = %error, "a database session ended");
                return;
            }
            None => return,
        }
    }
}
