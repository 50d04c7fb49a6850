//! Servers to compare with, each a process of its own as ours is.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    routing::post,
};
use prometheus_client::registry::Registry as MetricsRegistry;
use sha2::{Digest, Sha256};
use tenure::{Candidate, DatabaseUrl, HolderId, Scope, Timing};
use tenure_submissions::{
    database, http,
    instance::{Behaviour, Instance},
    intake::Grouping,
    registry::Registry,
};
use tenure_testkit::postgres::Postgres;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use tokio_postgres::{Client, NoTls, Statement};

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Our handler, with one INSERT per request.
    Single,
    /// A bare handler that only groups an INSERT of the same columns.
    Bare,
    /// A gateway that accepts everything at once.
    Gateway,
}

/// A server, killed with this value.
pub struct Served {
    process: Child,
    pub url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Served {
    /// The binary beside this one, as it is.
    pub fn ours(postgres: &Postgres, registry: &Path, arguments: &[&str]) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tenure");
        if !program.exists() {
            bail!("{} is missing: cargo build --release -p tenure-cli", program.display());
        }
        let port = tenure_testkit::Port::claim()?;
        let process = Command::new(program)
            .args(["--db", &postgres.url(), "submissions", "--registry"])
            .arg(registry)
            .args(["--http", &port.number().to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { process, url: format!("http://127.0.0.1:{}", port.number()) })
    }

    pub fn other(kind: Kind, postgres: &Postgres, registry: &Path) -> Result<Self> {
        let name = match kind {
            Kind::Single => "single",
            Kind::Bare => "bare",
            Kind::Gateway => "gateway",
        };
        let mut process = Command::new(std::env::current_exe()?)
            .args(["serve", name, &postgres.url()])
            .arg(registry)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        let output = process.stdout.take().context("output")?;
        BufReader::new(output).read_line(&mut url)?;
        Ok(Self { process, url: url.trim().to_owned() })
    }
}

/// Serves until it is killed; the first line that it writes is where.
pub async fn serve(kind: Kind, url: &str, registry: &Path) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let routes = match kind {
        Kind::Single => single(url, registry)?,
        Kind::Bare => bare(url).await?,
        Kind::Gateway => gateway(),
    };
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    Ok(axum::serve(listener, routes).await?)
}

fn gateway() -> Router {
    let accepts =
        async |_: Bytes| ([(CONTENT_TYPE, "application/json")], r#"{"status":"accepted"}"#);
    Router::new().route("/sms/send", post(accepts))
}

fn single(url: &str, registry: &Path) -> Result<Router> {
    let db: DatabaseUrl = url.parse()?;
    let timing = Timing::lease(Duration::from_secs(60)).build()?;
    let candidate = Candidate::new(Scope::new("submission-manager-executor")?, HolderId::fresh());
    let builder = database::contender(&db, candidate, timing)?;
    let store = database::store(&db, Duration::from_secs(5))?;
    // As many at once as the pool has connections.
    let grouping = Grouping { largest: 1, at_once: 8 };
    let behaviour = Behaviour { grouping, ..Behaviour::default() };
    let counted = &mut MetricsRegistry::default();
    let registry = Registry::read(registry)?;
    let instance = Instance::start(builder, registry, store, behaviour, counted)?;
    let routes = http::routes(&instance, http::Guard::Anybody);
    // It lives as long as the process.
    std::mem::forget(instance);
    Ok(routes)
}

type Waiting = (i64, Bytes, oneshot::Sender<bool>);

/// What it is fastest with here; ours has what is best for ours.
const BARE_AT_ONCE: usize = 3;
const BARE_INSERT: &str = "INSERT INTO submission_intents (
         intent_id, submission_target, payload, payload_hash, gateway_type, gateway_url, policy,
         max_attempts, terminal_outcomes, created_at, updated_at, last_modified_at, next_attempt_at)
     SELECT id, 'otp', payload, hash, 'sms', 'http://127.0.0.1:1', 'max_attempts', 3,
         '[\"invalid_recipient\"]', now(), now(), now(), now()
     FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS n(id, payload, hash)";

/// No ids to compare, no contract, no answer to build: an INSERT of the same columns in groups.
async fn bare(url: &str) -> Result<Router> {
    let (queue, mut queued) = mpsc::channel::<Waiting>(1_000);
    let mut sessions = Vec::new();
    for _ in 0..BARE_AT_ONCE {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let insert = client.prepare(BARE_INSERT).await?;
        sessions.push((client, insert));
    }
    let (give_back, mut free) = mpsc::channel(BARE_AT_ONCE);
    for session in sessions {
        give_back.send(session).await?;
    }
    tokio::spawn(async move {
        while let Some(session) = free.recv().await {
            let mut batch = Vec::new();
            if queued.recv_many(&mut batch, 500).await == 0 {
                return;
            }
            let give_back = give_back.clone();
            tokio::spawn(async move {
                insert(&session, batch).await;
                let _ = give_back.send(session).await;
            });
        }
    });
    let numbers = Arc::new(AtomicU64::new(0));
    let handler =
        async |State((queue, numbers)): State<(mpsc::Sender<Waiting>, Arc<AtomicU64>)>,
               body: Bytes| {
            let (tell, told) = oneshot::channel();
            let number = numbers.fetch_add(1, Ordering::Relaxed).cast_signed();
            if queue.send((number, body, tell)).await.is_err() || !told.await.unwrap_or_default() {
                return StatusCode::INTERNAL_SERVER_ERROR;
            }
            StatusCode::OK
        };
    Ok(Router::new().route("/v1/intents", post(handler)).with_state((queue, numbers)))
}

async fn insert((client, insert): &(Client, Statement), batch: Vec<Waiting>) {
    let ids: Vec<_> = batch.iter().map(|(number, ..)| format!("bare-{number}")).collect();
    let payloads: Vec<_> = batch.iter().map(|(_, body, _)| &body[..]).collect();
    let hashes: Vec<_> = payloads.iter().map(|body| Sha256::digest(body).to_vec()).collect();
    let is_stored = client.execute(insert, &[&ids, &payloads, &hashes]).await.is_ok();
    for (.., tell) in batch {
        let _ = tell.send(is_stored);
    }
}
