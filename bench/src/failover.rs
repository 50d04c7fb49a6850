//! From the end of a leader to the next one's open gate.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tenure::{BootInstant, Epoch, Scope, schema};
use tenure_database::{Deadline, migrate, postgres::PostgresUrl, sqlite};
use tenure_testkit::{
    node::{LockChoice, Node, NodeSettings},
    postgres::Postgres,
    secs,
};

use crate::figures::{heading, ms, percentile, spread};

pub const KEY: i64 = 4_242;

/// Takes an advisory lock, says so, and holds it until the process ends.
pub async fn hold(url: &str) -> Result<()> {
    let url: PostgresUrl = url.parse()?;
    let session = url.connect(Deadline::after(secs(10))).await?;
    session.execute("SELECT pg_advisory_lock($1)", &[&KEY]).await?;
    println!("held");
    std::future::pending().await
}

/// One bare trial: from the signal to the holder until `pg_advisory_lock` answers the waiter.
async fn bare_waiter(postgres: &Postgres, signal: Signal) -> Result<f64> {
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["holder", &postgres.url()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(holder.stdout.take().context("output")?).read_line(&mut line)?;
    let waiter = postgres.connect().await?;
    let probe = postgres.connect().await?;
    let waiting = tokio::spawn(async move {
        waiter.execute("SELECT pg_advisory_lock($1)", &[&KEY]).await.map(|_| BootInstant::now())
    });
    wait_for_a_waiter(&probe, KEY).await;
    let ended = BootInstant::now();
    let pid = Pid::from_raw(i32::try_from(holder.id())?).context("a pid")?;
    kill_process(pid, signal)?;
    let answered = waiting.await??;
    holder.wait()?;
    Ok(ms(answered.since(ended)))
}

/// Somebody waits for the lock, and every session has been at rest for a while: whoever has just started
/// is not yet a follower.
const SETTLED: &str = "SELECT FROM pg_locks
     WHERE locktype = 'advisory' AND NOT granted AND (classid::bigint << 32) | objid::bigint = $1
       AND NOT EXISTS (
           SELECT FROM pg_stat_activity
           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
             AND greatest(backend_start, state_change) > clock_timestamp() - interval '100 ms')";

pub async fn wait_for_a_waiter(probe: &tokio_postgres::Client, key: i64) {
    tenure_testkit::eventually_true("somebody waits", secs(20), async || {
        probe.query(SETTLED, &[&key]).await.is_ok_and(|rows| !rows.is_empty())
    })
    .await;
}

/// A leader and a follower, again and again; what ends the leader is the trial.
struct Pair {
    settings: NodeSettings,
    program: PathBuf,
    leader: Node,
    epoch: Epoch,
    count: usize,
}

impl Pair {
    async fn start(settings: NodeSettings) -> Result<Self> {
        let program = std::env::current_exe()?;
        let leader = Node::start(&program, &settings)?;
        let (epoch, _) = leader.leads_after(Epoch::ZERO, secs(20)).await;
        Ok(Self { settings, program, leader, epoch, count: 0 })
    }

    fn follower(&mut self) -> Result<Node> {
        self.count += 1;
        let holder = format!("node-{}", self.count);
        Node::start(&self.program, &NodeSettings { holder, ..self.settings.clone() })
    }

    /// Ends the leader, and returns how long it took until the follower's gate was open.
    async fn trial(
        &mut self,
        follower: Node,
        end: impl Fn(&mut Node) -> Result<BootInstant>,
    ) -> Result<f64> {
        let ended = end(&mut self.leader)?;
        let (epoch, opened) = follower.leads_after(self.epoch, secs(60)).await;
        self.leader = follower;
        self.epoch = epoch;
        Ok(ms(opened.since(ended)))
    }
}

pub async fn run() -> Result<()> {
    let postgres = Postgres::start().await?;
    let mut client = postgres.connect().await?;
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await?;
    advisory(&postgres, &client).await?;
    let lease = NodeSettings {
        lease_ms: 2_000,
        scope: "leased".to_owned(),
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresLease, "node-0")
    };
    leases("Postgres lease row", lease, 20).await?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("bench.db");
    let mut file = sqlite::open(&data, Duration::from_secs(1))?;
    migrate::sqlite::migrate(&mut file, schema::COMPONENT, &schema::SQLITE)?;
    let db = format!("sqlite:{}", data.display());
    let lease = NodeSettings {
        lease_ms: 2_000,
        ..NodeSettings::new(&db, LockChoice::SqliteLease, "node-0")
    };
    leases("SQLite lease file", lease, 20).await
}

async fn advisory(postgres: &Postgres, client: &tokio_postgres::Client) -> Result<()> {
    heading("failover, Postgres advisory lock: end of the leader to the next open gate, 50 trials");
    let settings = NodeSettings {
        lease_ms: 6_000,
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresAdvisory, "node-0")
    };
    let key = Scope::new(&settings.scope)?.key();
    for (name, signal) in [("kill -9", Signal::KILL), ("graceful stop", Signal::TERM)] {
        let mut pair = Pair::start(settings.clone()).await?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            // In turn, so that both see the same machine.
            bare.push(bare_waiter(postgres, signal).await?);
            let follower = pair.follower()?;
            wait_for_a_waiter(client, key).await;
            ours.push(match signal {
                Signal::KILL => pair.trial(follower, Node::kill).await?,
                _ => pair.trial(follower, |leader| leader.terminate()).await?,
            });
        }
        println!("  {name:<14} {}", spread(&mut ours));
        println!("  {:<14} {}", "bare waiter", spread(&mut bare));
        let ratio = percentile(&mut ours, 0.99) / percentile(&mut bare, 0.99);
        println!("  {:<14} {ratio:.2} (p99)", "ratio");
    }
    Ok(())
}

async fn leases(name: &str, settings: NodeSettings, trials: usize) -> Result<()> {
    heading(&format!("failover, {name}: lease of {} ms, {trials} trials", settings.lease_ms));
    let mut pair = Pair::start(settings.clone()).await?;
    let mut killed = Vec::new();
    for _ in 0..trials {
        let follower = pair.follower()?;
        follower_has_looked(&follower).await;
        killed.push(pair.trial(follower, Node::kill).await?);
    }
    let beyond = percentile(&mut killed, 0.99) - settings.lease_ms as f64;
    println!("  {:<14} {}: {beyond:.1} ms beyond the lease (p99)", "kill -9", spread(&mut killed));
    let mut stopped = Vec::new();
    for _ in 0..trials {
        let follower = pair.follower()?;
        follower_has_looked(&follower).await;
        stopped.push(pair.trial(follower, |leader| leader.terminate()).await?);
    }
    println!("  {:<14} {}", "graceful stop", spread(&mut stopped));
    Ok(())
}

/// A follower that has just started must have seen the lease and begun to listen.
async fn follower_has_looked(follower: &Node) {
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(follower.leads().is_none());
}
