//! A real etcd of one member, which can be paused as an overloaded or partitioned one would be.

use anyhow::Result;
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::server::{Folder, Launch, Port, Server, find_program};

/// A running etcd, gone with this value.
pub struct Etcd {
    server: Server,
    port: Port,
    // Nobody connects here, but a second server must not listen here either.
    _peer_port: Port,
}

impl Etcd {
    /// Starts an empty store.
    pub async fn start() -> Result<Self> {
        let (port, peer_port) = (Port::claim()?, Port::claim()?);
        let folder = Folder::new("etcd")?;
        let launch = Launch {
            program: find_program("etcd")?,
            arguments: arguments(&folder.entry("data"), &port, &peer_port),
            environment: Vec::new(),
            farewell: Signal::KILL,
        };
        let etcd = Self { server: Server::new(folder, launch), port, _peer_port: peer_port };
        etcd.serve().await?;
        Ok(etcd)
    }

    /// Where clients connect, as `host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// Kills the process and starts it again on the same port and data.
    pub async fn restart(&self) -> Result<()> {
        self.server.stop(Signal::KILL).await?;
        self.serve().await
    }

    /// Freezes the process: connections stay open, and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.server.pause()
    }

    /// Lets a paused process go on as if no time had passed.
    pub fn resume(&self) -> Result<()> {
        self.server.signal(Signal::CONT)
    }

    async fn serve(&self) -> Result<()> {
        self.server.start(async |_| is_healthy(&self.endpoint()).await.unwrap_or(false)).await
    }
}

/// A lone member waits for nobody's vote, so short heartbeats only make it start sooner; they also
/// lower the shortest lease it grants from two seconds to one.
fn arguments(data: &str, client_port: &Port, peer_port: &Port) -> Vec<String> {
    let [clients, peers] =
        [client_port, peer_port].map(|port| format!("http://127.0.0.1:{}", port.number()));
    [
        format!("--data-dir={data}"),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--heartbeat-interval=20".to_owned(),
        "--election-timeout=200".to_owned(),
    ]
    .to_vec()
}

async fn is_healthy(endpoint: &str) -> Result<bool> {
    let mut connection = TcpStream::connect(endpoint).await?;
    connection.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer.contains(r#""health":"true""#))
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::eventually::{eventually_true, millis, secs};

    #[tokio::test]
    async fn it_answers_again_after_a_restart() {
        let etcd = Etcd::start().await.unwrap();
        let endpoint = etcd.endpoint();
        etcd.restart().await.unwrap();
        assert_eq!(etcd.endpoint(), endpoint);
        assert!(is_healthy(&endpoint).await.unwrap());
    }

    #[tokio::test]
    async fn a_paused_one_is_silent_until_it_is_resumed() {
        let etcd = Etcd::start().await.unwrap();
        let endpoint = etcd.endpoint();
        etcd.pause().unwrap();
        tokio::select! {
            answer = is_healthy(&endpoint) => panic!("{answer:?} from a paused process"),
            () = sleep(millis(100)) => {}
        }
        etcd.resume().unwrap();
        let healthy = async || is_healthy(&endpoint).await.unwrap_or(false);
        eventually_true("an answer", secs(5), healthy).await;
    }

    #[tokio::test]
    async fn a_paused_one_ends_too() {
        let etcd = Etcd::start().await.unwrap();
        let pid = etcd.server.pid().unwrap();
        etcd.pause().unwrap();
        drop(etcd);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
