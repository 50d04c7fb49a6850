//! Serves requests until it is told to stop, and finishes those that have begun.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, http::StatusCode};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;
use tower_http::timeout::TimeoutLayer;

use crate::{address::Address, guard::Guard, token::Token};

/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(10);
/// How long requests that have begun may still take once the server is told to stop.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long to wait when the system has no room for another connection.
const CROWDED: Duration = Duration::from_millis(100);

/// What a server puts up with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long an answer may take.
    pub answer: Duration,
    /// How many clients at once: files are needed for other things too.
    pub clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(60), clients: 512 }
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    listener: TcpListener,
    local: SocketAddr,
    token: Option<Token>,
}

impl Server {
    /// Listens. Whoever changes something must bring the token, if there is one.
    pub async fn bind(address: &Address, token: Option<Token>) -> io::Result<Self> {
        let listener = TcpListener::bind((address.host(), address.port())).await?;
        let limits = Limits::default();
        Ok(Self { local: listener.local_addr()?, listener, token, limits })
    }

    /// Other limits than the usual.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Who may change something here.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard::new(self.token.clone(), self.local.ip())
    }

    /// Serves until `stop`; requests that have begun are answered, within a bound.
    pub async fn serve(self, routes: Router, stop: CancellationToken) {
        let Limits { answer: longest, clients } = self.limits;
        let too_late = StatusCode::SERVICE_UNAVAILABLE;
        let routes = routes.layer(TimeoutLayer::with_status_code(too_late, longest));
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(clients));
        loop {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                () = stop.cancelled() => break,
            };
            match (accepted, place) {
                (Ok((stream, _)), Ok(place)) => answer(stream, routes.clone(), &graceful, place),
                (Err(error), _) => {
                    tracing::warn!(target: "tenure", %error, "http_accept_failed");
                    tokio::time::sleep(CROWDED).await;
                }
                // The places are never closed.
                (_, Err(_)) => break,
            }
        }
        drop(self.listener);
        tokio::select! {
            () = graceful.shutdown() => {}
            () = tokio::time::sleep(FAREWELL) => {
                tracing::warn!(target: "tenure", "http_requests_cut_off");
            }
        }
    }
}

fn answer(
    stream: TcpStream,
    routes: Router,
    graceful: &GracefulShutdown,
    place: OwnedSemaphorePermit,
) {
    // Answers are small, and somebody waits for them.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let connection = graceful.watch(connection);
    // It ends with its client, or with the server, which watches it.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: "tenure", %error, "http_connection_failed");
        }
        drop(place);
    });
}
