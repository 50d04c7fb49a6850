//! The process itself.

use std::{path::Path, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result};
use tenure::{
    BootInstant, Candidate, DatabaseUrl, Election, Epoch, HolderId, LeaderGate, Scope, Takeover,
    Timing,
    fence::{self, PostgresFence, SqliteFence},
    lock::{
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::SqliteLease,
    },
};
use tenure_database::{Deadline, postgres::PostgresUrl};
use tokio::signal::unix::{SignalKind, signal};

use super::{LockChoice, NodeSettings, Told};

/// How often an open gate is told of.
const TOLD_EVERY_NS: u64 = 20_000_000;

/// Contends as the settings in the first argument say, until SIGTERM, or until it cannot go on.
pub async fn serve(settings: &str) -> Result<ExitCode> {
    let settings: NodeSettings = serde_json::from_str(settings).context("the node's settings")?;
    let mut election = start(&settings)?;
    let gate = election.gate();
    thread::spawn({
        let gate = gate.clone();
        move || watch(&gate)
    });
    if settings.acts {
        tokio::spawn(act(settings.db.clone(), gate));
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let ended = tokio::select! {
        ended = election.ended() => ended,
        _ = terminate.recv() => election.stop().await,
    };
    if let Err(error) = ended {
        tell(&Told::Ended { reason: error.to_string() });
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(told: &Told) {
    println!("{}", serde_json::to_string(told).expect("plain values"));
}

fn timing(settings: &NodeSettings) -> Result<Timing> {
    let lease = Duration::from_millis(settings.lease_ms);
    let renew = settings.renew_ms.map(Duration::from_millis);
    let builder = match settings.lock {
        LockChoice::PostgresAdvisory => Timing::heartbeat(renew.unwrap_or(lease / 2), lease),
        _ => Timing::lease(lease).renew_interval(renew.unwrap_or(lease / 3)),
    };
    let takeover = match settings.waits_before_acting {
        true => Takeover::Wait,
        false => Takeover::Immediate,
    };
    Ok(builder.takeover(takeover).build()?)
}

fn start(settings: &NodeSettings) -> Result<Election> {
    let timing = timing(settings)?;
    let scope = Scope::new(&settings.scope)?;
    let candidate = Candidate::new(scope, HolderId::new(&settings.holder)?);
    let election = match (settings.db.parse()?, settings.lock) {
        (DatabaseUrl::Postgres(url), LockChoice::PostgresLease) => {
            let place = lock_url(settings, &url)?;
            let lock = PostgresLease::new(place, LeaseTable::default(), candidate.clone(), timing)?;
            Election::builder(candidate, timing, lock).fence(PostgresFence::new(*url, timing))
        }
        (DatabaseUrl::Postgres(url), LockChoice::PostgresAdvisory) => {
            let mut advisory = AdvisorySettings::at(lock_url(settings, &url)?);
            advisory.session_silence = settings.session_silence_ms.map(Duration::from_millis);
            let lock = PostgresAdvisory::new(advisory, candidate.clone(), timing)?;
            Election::builder(candidate, timing, lock).fence(PostgresFence::new(*url, timing))
        }
        (DatabaseUrl::Sqlite(path), LockChoice::SqliteLease) => {
            let lock = SqliteLease::new(&path, candidate.clone(), timing)?;
            Election::builder(candidate, timing, lock).fence(SqliteFence::new(&path, timing)?)
        }
        (db, lock) => anyhow::bail!("{lock:?} does not go with {db}"),
    };
    Ok(election.start()?)
}

fn lock_url(settings: &NodeSettings, otherwise: &PostgresUrl) -> Result<PostgresUrl> {
    match &settings.lock_db {
        Some(url) => Ok(url.parse()?),
        None => Ok(otherwise.clone()),
    }
}

/// Asks the gate again and again, and tells what it says whenever that changes, and now and then while it is open.
fn watch(gate: &LeaderGate) {
    let mut open: Option<(Epoch, u64, u64)> = None;
    let mut told_at = 0;
    loop {
        let before = BootInstant::now().as_nanos();
        let epoch = gate.require_leader().ok().map(|token| token.epoch);
        match (&mut open, epoch) {
            (Some((led, _, to)), Some(epoch)) if *led == epoch => {
                *to = before;
                if before - told_at >= TOLD_EVERY_NS {
                    told_at = before;
                    tell(&Told::StillOpen { epoch, at_ns: before });
                }
            }
            (was, now) => {
                if let Some((epoch, from_ns, to_ns)) = was.take() {
                    tell(&Told::Led { epoch, from_ns, to_ns });
                }
                if let Some(epoch) = now {
                    open = Some((epoch, before, before));
                    tell(&Told::Opened { epoch, at_ns: before });
                }
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Inserts through the fence while the gate is open. What is refused is told, and never repeated.
async fn act(db: String, gate: LeaderGate) {
    loop {
        let token = gate.require_leader().ok().map(|token| token.term());
        if let Some(term) = token {
            let acted = match db.parse() {
                Ok(DatabaseUrl::Postgres(url)) => act_on_postgres(&url, &gate, &term).await,
                Ok(DatabaseUrl::Sqlite(path)) => act_on_sqlite(&path, &gate, &term),
                Ok(DatabaseUrl::SqlServer(_)) | Err(_) => return,
            };
            if let Err(fence::FenceError::Refused { epoch, .. }) = acted {
                tell(&Told::Refused { epoch });
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Acts on one connection until something goes wrong.
async fn act_on_postgres(
    url: &PostgresUrl,
    gate: &LeaderGate,
    term: &tenure::Term,
) -> Result<(), fence::FenceError> {
    let deadline = Deadline::after(Duration::from_secs(5));
    let mut client = url.connect(deadline).await?;
    while gate.ensure_epoch(term.epoch()).is_ok() {
        let transaction = fence::postgres::begin(&mut client, term).await?;
        let insert = "INSERT INTO acts (epoch, holder) VALUES ($1, $2)";
        let row = (term.epoch().get(), term.holder().as_str());
        transaction.execute(insert, &[&row.0, &row.1]).await?;
        transaction.commit().await?;
    }
    Ok(())
}

fn act_on_sqlite(
    path: &Path,
    gate: &LeaderGate,
    term: &tenure::Term,
) -> Result<(), fence::FenceError> {
    let mut connection = tenure_database::sqlite::open(path, Duration::from_secs(1))?;
    while gate.ensure_epoch(term.epoch()).is_ok() {
        let transaction = fence::sqlite::begin(&mut connection, path, term)?;
        let insert = "INSERT INTO acts (epoch, holder) VALUES (?1, ?2)";
        transaction.execute(insert, (term.epoch().get(), term.holder().as_str()))?;
        transaction.commit()?;
    }
    Ok(())
}
