//! A session whose socket can be duplicated: while anybody has a duplicate open, the server keeps the
//! session, and whatever it holds.
//!
//! The driver keeps its sockets to itself, so this connects by itself: the places of the URL in order.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream, lookup_host},
};
use tokio_postgres::{
    Config,
    config::{Host, TargetSessionAttrs},
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline};

const DEFAULT_PORT: u16 = 5432;

impl PostgresUrl {
    /// Opens a session, and gives a duplicate of its socket.
    pub async fn connect_with_socket(
        &self,
        deadline: Deadline,
    ) -> Result<(Session, OwnedFd), DatabaseError> {
        deadline.run(self.first_that_answers()).await
    }

    async fn first_that_answers(&self) -> Result<(Session, OwnedFd), DatabaseError> {
        let mut last = self.unreachable(io::Error::other("the URL names no host"));
        for (at, host) in self.config().get_hosts().iter().enumerate() {
            let port = of_host(self.config().get_ports(), at).unwrap_or(DEFAULT_PORT);
            let address = of_host(self.config().get_hostaddrs(), at);
            match self.connect_to(host, address, port).await {
                Ok((session, _)) if self.avoids(&session).await? => {
                    last = self.unreachable(io::Error::other("only standbys answered"));
                }
                Ok(connected) => return Ok(connected),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(
        &self,
        host: &Host,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<(Session, OwnedFd), DatabaseError> {
        match host {
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                let stream = self.reached(UnixStream::connect(&path).await)?;
                self.begin(stream, "").await
            }
            Host::Tcp(name) => {
                let stream = self.reached(dial(name, address, port, self.config()).await)?;
                self.begin(stream, name).await
            }
        }
    }

    async fn begin<S>(&self, stream: S, host: &str) -> Result<(Session, OwnedFd), DatabaseError>
    where
        S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
    {
        let socket = self.reached(stream.as_fd().try_clone_to_owned())?;
        let mut tls = self.tls();
        let tls = <MakeRustlsConnect as MakeTlsConnect<S>>::make_tls_connect(&mut tls, host);
        let tls = tls.map_err(|error| self.unreachable(error))?;
        let connected = self.config().connect_raw(stream, tls).await;
        let (client, connection) = connected.map_err(|error| self.unreachable(error))?;
        Ok((Session::driving(client, connection), socket))
    }

    /// Whether the URL asks for a server that takes writes, and this one does not.
    async fn avoids(&self, session: &Session) -> Result<bool, DatabaseError> {
        if self.config().get_target_session_attrs() != TargetSessionAttrs::ReadWrite {
            return Ok(false);
        }
        let answer = session.query_typed_one("SHOW transaction_read_only", &[]).await?;
        Ok(answer.get::<_, &str>(0) == "on")
    }

    fn reached<T>(&self, result: io::Result<T>) -> Result<T, DatabaseError> {
        result.map_err(|error| self.unreachable(error))
    }

    fn unreachable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> DatabaseError {
        DatabaseError::Connect { to: self.to_string(), source: source.into() }
    }
}

/// What was given for this host; what was given once is for all of them.
fn of_host<T: Copy>(given: &[T], at: usize) -> Option<T> {
    given.get(at).or(given.first().filter(|_| given.len() == 1)).copied()
}

async fn dial(
    name: &str,
    address: Option<IpAddr>,
    port: u16,
    config: &Config,
) -> io::Result<TcpStream> {
    let stream = match address {
        Some(address) => TcpStream::connect((address, port)).await?,
        None => TcpStream::connect(&*lookup_host((name, port)).await?.collect::<Vec<_>>()).await?,
    };
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    Ok(stream)
}
