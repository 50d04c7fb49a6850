//! A real HAProxy with a test's configuration.

use std::net::Ipv4Addr;

use anyhow::Result;
use rustix::process::Signal;
use tokio::net::TcpStream;

use crate::server::{Folder, Launch, Port, Server, find_program};

/// A running HAProxy, gone with this value.
pub struct Haproxy {
    // Held for its Drop, which ends the process.
    _server: Server,
    port: Port,
}

impl Haproxy {
    /// Starts with the configuration that this makes for the port to listen on.
    pub async fn with(configuration: impl FnOnce(u16) -> String) -> Result<Self> {
        let (folder, port) = (Folder::new("haproxy")?, Port::claim()?);
        folder.write("haproxy.cfg", &configuration(port.number()))?;
        let launch = Launch {
            program: find_program("haproxy")?,
            // In one process that stays in front: what is ended is all there is.
            arguments: vec!["-db".to_owned(), "-f".to_owned(), folder.entry("haproxy.cfg")],
            environment: Vec::new(),
            farewell: Signal::KILL,
        };
        let server = Server::new(folder, launch);
        server
            .start(async |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).await.is_ok())
            .await?;
        Ok(Self { _server: server, port })
    }

    /// The port where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }
}
