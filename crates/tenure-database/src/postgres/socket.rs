//! A session whose socket can be duplicated: while anybody has a duplicate open, the server keeps the
//! session, and whatever it holds.
//!
//! The driver keeps its sockets to itself, so this connects by itself.

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
use tokio_postgres::{Config, config::Host, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{PostgresUrl, Session, hosts::Place};
use crate::{DatabaseError, Deadline};

impl PostgresUrl {
    /// Opens a session, and gives a duplicate of its socket.
    pub async fn connect_with_socket(
        &self,
        deadline: Deadline,
    ) -> Result<(Session, OwnedFd), DatabaseError> {
        deadline.run(self.first_that_answers(deadline)).await
    }

    pub(super) async fn connect_to(
        &self,
        place: &Place,
    ) -> Result<(Session, OwnedFd), DatabaseError> {
        match &place.host {
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{}", place.port));
                let stream = self.reached(UnixStream::connect(&path).await)?;
                self.begin(stream, "").await
            }
            Host::Tcp(name) => {
                let dialled = dial(name, place.address, place.port, self.config()).await;
                self.begin(self.reached(dialled)?, name).await
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

    fn reached<T>(&self, result: io::Result<T>) -> Result<T, DatabaseError> {
        result.map_err(|error| self.unreachable(error))
    }

    pub(super) fn unreachable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> DatabaseError {
        DatabaseError::Connect { to: self.to_string(), source: source.into() }
    }
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
