//! A TCP proxy that fails as networks do: it holds bytes back without a word, in one direction or
//! both, or it cuts connections.
//!
//! Held means lost in transit for now. The other side learns nothing, not even that a connection
//! was closed, until [`Proxy::pass`] lets everything arrive, late and in order.

mod connection;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Result;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Which way bytes flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the clients; new connections do not reach the server either.
    ToServer,
    /// From the server: requests arrive and take effect, their answers do not.
    ToClient,
    /// A black hole.
    Both,
}

/// A proxy on a loopback port. Dropping it ends its tasks and connections.
pub struct Proxy {
    addr: SocketAddr,
    state: watch::Sender<State>,
    connections: TaskTracker,
    _listening: AbortOnDropHandle<()>,
}

/// What all connections look at.
#[derive(Clone)]
struct State {
    /// Where new connections are passed on to.
    target: SocketAddr,
    mode: Mode,
    trap: Option<Arc<Trap>>,
    /// How often everything was cut: a connection ends when the count moves on, even if `pass`
    /// follows `cut` before the connection had a chance to look.
    cuts: u64,
}

/// Holds everything as soon as a client has sent this.
struct Trap {
    word: Vec<u8>,
    is_sprung: AtomicBool,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Pass,
    Hold(Direction),
    Cut,
}

impl Proxy {
    /// Passes connections on to `target`, which need not be up yet.
    pub async fn to(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let state = watch::Sender::new(State { target, mode: Mode::Pass, trap: None, cuts: 0 });
        let connections = TaskTracker::new();
        let listening =
            tokio::spawn(connection::listen(listener, state.subscribe(), connections.clone()));
        Ok(Self { addr, state, connections, _listening: AbortOnDropHandle::new(listening) })
    }

    /// Where clients connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The port of [`Proxy::addr`].
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// Lets everything through, and first what was held.
    pub fn pass(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::Pass;
            state.trap = None;
        });
    }

    /// Passes new connections on to another server, and resets those to the old one.
    pub fn redirect(&self, target: SocketAddr) {
        self.state.send_modify(|state| {
            state.target = target;
            state.cuts += 1;
        });
    }

    /// Keeps back all bytes of a direction. Connections stay open, and new ones are accepted.
    pub fn hold(&self, direction: Direction) {
        self.state.send_modify(|state| state.mode = Mode::Hold(direction));
    }

    /// Keeps back all bytes that follow a request which contains `word`: it arrives, and nothing else does, its
    /// answer included.
    pub fn hold_after(&self, word: &str) {
        let (word, is_sprung) = (word.as_bytes().to_vec(), AtomicBool::new(false));
        let trap = Some(Arc::new(Trap { word, is_sprung }));
        self.state.send_modify(|state| state.trap = trap);
    }

    /// Resets all connections, and new ones until [`Proxy::pass`] or [`Proxy::hold`].
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::Cut;
            state.cuts += 1;
        });
    }

    /// How many connections are open; a held one is until its end may be told.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }
}

impl State {
    fn lets_pass(&self, direction: Direction) -> bool {
        match self.mode {
            Mode::Pass => !self.trap.as_ref().is_some_and(|trap| trap.is_sprung()),
            Mode::Hold(held) => held != direction && held != Direction::Both,
            Mode::Cut => false,
        }
    }
}

impl Trap {
    fn is_sprung(&self) -> bool {
        self.is_sprung.load(Ordering::SeqCst)
    }

    fn sees(&self, request: &[u8]) {
        if request.windows(self.word.len()).any(|part| part == self.word) {
            self.is_sprung.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::sleep,
    };

    use super::*;
    use crate::eventually::{eventually_true, millis, secs};

    /// A proxy, and the server behind it.
    async fn proxied() -> (Proxy, TcpListener) {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::to(server.local_addr().unwrap()).await.unwrap();
        (proxy, server)
    }

    /// Both ends of a connection that the proxy has taken up.
    async fn connected(proxy: &Proxy, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        arrives("hello", &mut server).await;
        (client, server)
    }

    async fn arrives(text: &str, at: &mut TcpStream) {
        let mut buffer = vec![0; text.len()];
        at.read_exact(&mut buffer).await.unwrap();
        assert_eq!(String::from_utf8(buffer).unwrap(), text);
    }

    async fn nothing_arrives(at: &mut TcpStream) {
        tokio::select! {
            read = at.read_u8() => panic!("{read:?} arrived"),
            () = sleep(millis(50)) => {}
        }
    }

    async fn is_reset(end: &mut TcpStream) {
        let error = end.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn bytes_and_ends_pass_both_ways() {
        let (proxy, listener) = proxied().await;
        let (mut client, mut server) = connected(&proxy, &listener).await;
        client.write_all(b"ask").await.unwrap();
        arrives("ask", &mut server).await;
        client.shutdown().await.unwrap();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        server.write_all(b"answer").await.unwrap();
        arrives("answer", &mut client).await;
        assert_eq!(proxy.connections(), 1);

        drop(server);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        eventually_true("the end", secs(1), async || proxy.connections() == 0).await;
    }

    #[tokio::test]
    async fn held_bytes_arrive_late_and_in_order() {
        let (proxy, listener) = proxied().await;
        let (mut client, mut server) = connected(&proxy, &listener).await;
        proxy.hold(Direction::Both);
        for part in ["one ", "two ", "three"] {
            client.write_all(part.as_bytes()).await.unwrap();
            server.write_all(part.as_bytes()).await.unwrap();
        }
        nothing_arrives(&mut client).await;
        nothing_arrives(&mut server).await;

        proxy.pass();
        arrives("one two three", &mut client).await;
        arrives("one two three", &mut server).await;
    }

    #[tokio::test]
    async fn one_direction_can_be_held_alone() {
        let (proxy, listener) = proxied().await;
        let (mut client, mut server) = connected(&proxy, &listener).await;
        proxy.hold(Direction::ToClient);
        client.write_all(b"ask").await.unwrap();
        arrives("ask", &mut server).await;
        server.write_all(b"answer").await.unwrap();
        nothing_arrives(&mut client).await;

        proxy.hold(Direction::ToServer);
        arrives("answer", &mut client).await;
        client.write_all(b"again").await.unwrap();
        nothing_arrives(&mut server).await;
    }

    #[tokio::test]
    async fn nothing_follows_the_request_with_the_word() {
        let (proxy, listener) = proxied().await;
        let (mut client, mut server) = connected(&proxy, &listener).await;
        proxy.hold_after("this");
        client.write_all(b"not yet").await.unwrap();
        arrives("not yet", &mut server).await;
        server.write_all(b"answered").await.unwrap();
        arrives("answered", &mut client).await;

        client.write_all(b"and this").await.unwrap();
        arrives("and this", &mut server).await;
        server.write_all(b"held").await.unwrap();
        nothing_arrives(&mut client).await;
        client.write_all(b"held").await.unwrap();
        nothing_arrives(&mut server).await;
        proxy.pass();
        arrives("held", &mut client).await;
        arrives("held", &mut server).await;
    }

    #[tokio::test]
    async fn a_server_does_not_learn_that_a_held_client_left() {
        let (proxy, listener) = proxied().await;
        let (client, mut server) = connected(&proxy, &listener).await;
        proxy.hold(Direction::Both);
        drop(client);
        nothing_arrives(&mut server).await;
        assert_eq!(proxy.connections(), 1);

        proxy.pass();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_connection_made_while_held_is_accepted_and_waits() {
        let (proxy, listener) = proxied().await;
        proxy.hold(Direction::Both);
        let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
        client.write_all(b"ask").await.unwrap();
        eventually_true("an open connection", secs(1), async || proxy.connections() == 1).await;

        proxy.pass();
        arrives("ask", &mut listener.accept().await.unwrap().0).await;
    }

    #[tokio::test]
    async fn a_cut_resets_both_ends_even_when_pass_follows_at_once() {
        let (proxy, listener) = proxied().await;
        let (mut client, mut server) = connected(&proxy, &listener).await;
        proxy.cut();
        proxy.pass();
        is_reset(&mut client).await;
        is_reset(&mut server).await;
        connected(&proxy, &listener).await;
    }

    #[tokio::test]
    async fn new_connections_are_reset_while_cut() {
        let (proxy, listener) = proxied().await;
        proxy.cut();
        is_reset(&mut TcpStream::connect(proxy.addr()).await.unwrap()).await;
        proxy.pass();
        connected(&proxy, &listener).await;
    }

    #[tokio::test]
    async fn a_client_is_reset_when_the_server_is_down() {
        let (proxy, listener) = proxied().await;
        drop(listener);
        is_reset(&mut TcpStream::connect(proxy.addr()).await.unwrap()).await;
    }

    #[tokio::test]
    async fn dropping_the_proxy_ends_its_tasks() {
        let (proxy, listener) = proxied().await;
        let (mut client, _server) = connected(&proxy, &listener).await;
        proxy.hold(Direction::Both);
        let (addr, connections) = (proxy.addr(), proxy.connections.clone());
        drop(proxy);
        is_reset(&mut client).await;
        let refused = async || connections.is_empty() && TcpStream::connect(addr).await.is_err();
        eventually_true("the end of all tasks", secs(1), refused).await;
    }
}
