//! One connection to SQL Server.

use std::{fmt, io, net, time::Duration};

use futures_util::TryStreamExt;
use socket2::{SockRef, TcpKeepalive};
use tiberius::{Client, Config, FromSql, ToSql, error::Error};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::{Batch, SqlServerUrl};
use crate::{DatabaseError, Deadline, server::Server};

/// A server that says nothing for so long, not even that it is there, is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// What every session begins with. The options are those that indexes with a condition need; `XACT_ABORT`, because
/// an error must end its transaction, whatever it was.
const SETTINGS: &str = include_str!("../../sql/sqlserver/session.sql");

/// The batch that sets them.
#[must_use]
pub fn settings(lock_timeout: Duration) -> String {
    SETTINGS.replace("{lock_timeout}", &lock_timeout.as_millis().to_string())
}

/// What a person should read of the driver's error: what the server said, and its number for it; and of a certificate
/// that was refused, what the URL can say.
#[must_use]
pub fn said(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match error.downcast_ref::<Error>()? {
        Error::Server(told) => Some(format!("{} ({})", told.message(), told.code())),
        Error::Tls(why) => {
            // What follows is advice for whoever writes programs.
            let why = why.split(" To connect anyway").next().unwrap_or_default();
            let why = why.trim_end_matches('.');
            Some(format!("TLS: {why} (the URL may say ca=FILE, or trust_certificate=true)"))
        }
        _ => None,
    }
}

/// A server whose sessions wait for a row no longer than this.
#[derive(Clone, Debug)]
pub struct SqlServer {
    url: SqlServerUrl,
    lock_timeout: Duration,
}

impl SqlServer {
    /// Sessions that give up on a row that somebody else has had for so long.
    #[must_use]
    pub fn at(url: SqlServerUrl, lock_timeout: Duration) -> Self {
        Self { url, lock_timeout }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &SqlServerUrl {
        &self.url
    }

    /// Opens a session.
    pub async fn connect(&self, deadline: Deadline) -> Result<Session, DatabaseError> {
        let opened = deadline.run(self.open()).await;
        opened.map_err(|error| match error {
            DatabaseError::SqlServer(source) => {
                DatabaseError::Connect { to: self.url.to_string(), source: Box::new(source) }
            }
            other => other,
        })
    }

    async fn open(&self) -> Result<Session, Error> {
        let config = self.url.config();
        let mut session = match Session::open(config, &config.get_addr()).await {
            // A gateway names the server itself.
            Err(Error::Routing { host, port }) => {
                Session::open(config, &format!("{host}:{port}")).await?
            }
            opened => opened?,
        };
        session.run(&settings(self.lock_timeout)).await?;
        Ok(session)
    }
}

impl Server for SqlServer {
    type Session = Session;

    async fn connect(&self, deadline: Deadline) -> Result<Session, DatabaseError> {
        self.connect(deadline).await
    }

    fn is_closed(session: &Session) -> bool {
        session.is_closed()
    }
}

/// A session: whoever drops it closes the socket, and with it whatever was not committed is rolled back.
pub struct Session {
    client: Client<Compat<TcpStream>>,
    /// The same socket, for looking at it.
    socket: net::TcpStream,
}

impl Session {
    async fn open(config: &Config, address: &str) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let alive = TcpKeepalive::new().with_time(SILENCE / 2).with_interval(SILENCE / 6);
        SockRef::from(&stream).set_tcp_keepalive(&alive)?;
        SockRef::from(&stream).set_tcp_user_timeout(Some(SILENCE))?;
        let stream = stream.into_std()?;
        let socket = stream.try_clone()?;
        let stream = TcpStream::from_std(stream)?;
        Ok(Self { client: Client::connect(config.clone(), stream.compat_write()).await?, socket })
    }

    /// Sends a batch with its parameters, and returns the rows that it ends with.
    ///
    /// # Panics
    /// When it is given another number of parameters than it takes.
    pub async fn query(
        &mut self,
        batch: &Batch,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Row>, Error> {
        assert_eq!(parameters.len(), batch.parameters, "{}", batch.sql);
        self.query_text(batch.sql, parameters).await
    }

    /// The same, for a text that was put together.
    pub async fn query_text(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Row>, Error> {
        let results = self.client.query(sql, parameters).await?.into_results().await?;
        Ok(results.into_iter().next_back().unwrap_or_default().into_iter().map(Row).collect())
    }

    /// Hands over the rows of a batch as they come, all that it has.
    pub async fn each(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
        mut each: impl FnMut(Row) -> Result<(), DatabaseError> + Send,
    ) -> Result<(), DatabaseError> {
        let mut rows = self.client.query(sql, parameters).await?.into_row_stream();
        while let Some(row) = rows.try_next().await? {
            each(Row(row))?;
        }
        Ok(())
    }

    /// Sends a batch without parameters, outside of any procedure: what it sets stays set.
    pub async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.client.simple_query(sql).await?.into_results().await.map(drop)
    }

    /// Whether the other side has ended it while nobody used it: then there is an end to be read, or a word of it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // The runtime's sockets do not wait, and neither does this one, which is the same.
        let peeked = self.socket.peek(&mut [0]);
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("socket", &self.socket).finish()
    }
}

/// A row of an answer.
#[derive(Debug)]
pub struct Row(tiberius::Row);

impl Row {
    /// A column that may be null.
    pub fn get<'r, T: FromSql<'r>>(&'r self, column: &str) -> Result<Option<T>, DatabaseError> {
        self.0.try_get(column).map_err(|_| DatabaseError::Answer { column: column.to_owned() })
    }

    /// A column that is never null.
    pub fn need<'r, T: FromSql<'r>>(&'r self, column: &str) -> Result<T, DatabaseError> {
        self.get(column)?.ok_or_else(|| DatabaseError::Answer { column: column.to_owned() })
    }
}
