//! `tenure demo`: three instances, a stream of intents, the leader killed again and again, and a verdict.

mod gateway;
mod instances;
mod load;
mod verdict;
mod view;

use std::{
    fs,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use futures_util::pin_mut;
use serde_json::json;
use tempfile::TempDir;
use tenure::{
    BootInstant, Candidate, DatabaseUrl, HolderId, Scope, Timing,
    lock::{
        Lock,
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::SqliteLease,
        sqlserver_lease::{self, SqlServerLease},
    },
};
use tenure_submissions::{
    database::{LEASES, store},
    store::Store,
};
use tokio::signal::unix::{SignalKind, signal};

use self::{gateway::Gateway, instances::Instances, load::Load, verdict::Verdict, view::View};
use crate::{
    components::{ENGINE, SUBMISSIONS},
    database,
    output::print,
};

/// Where intents go: known to the registry and to the load.
const TARGET: &str = "demo";
/// As the instances name it.
const LEASE_NAME: &str = "submission-manager-executor";
/// How often to look at the instances, and to draw.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a leader acts before it is killed.
const LEADS_FOR: Duration = Duration::from_secs(1);
/// How long everything that was submitted may take to end, once nobody is killed any more.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to show, and for how long.
#[derive(Debug)]
pub struct Demo {
    /// As it was typed; a file of its own, unless told.
    pub db: Option<String>,
    pub lasts: Duration,
    /// Intents per second.
    pub rate: u32,
    pub json: bool,
}

/// What a demo has for itself, gone with it.
struct Place {
    folder: TempDir,
    /// As the instances get it: it may hold a password.
    url: String,
    db: DatabaseUrl,
}

impl Place {
    fn new(db: Option<String>) -> Result<Self> {
        let folder = TempDir::with_prefix("tenure-demo-").context("cannot make a folder")?;
        let url = match db {
            Some(url) => url,
            None => format!("sqlite:{}", folder.path().join("tenure.db").display()),
        };
        let db = url.parse()?;
        Ok(Self { folder, url, db })
    }

    /// The targets, in a file that the instances read.
    fn registry(&self, gateway: &str) -> Result<PathBuf> {
        let path = self.folder.path().join("targets.json");
        let target = json!({
            "submissionTarget": TARGET, "gatewayType": "sms", "gatewayUrl": gateway,
            "policy": "max_attempts", "maxAttempts": 1_000_000, "terminalOutcomes": ["invalid_recipient"],
        });
        fs::write(&path, json!({"targets": [target]}).to_string())?;
        Ok(path)
    }
}

impl Demo {
    /// Shows it, and fails when anything was lost or executed twice.
    pub async fn run(self) -> Result<ExitCode> {
        let place = Place::new(self.db.clone())?;
        database::prepare(&place.db, &[ENGINE, SUBMISSIONS]).await?;
        let store = store(&place.db, PATIENCE)?;
        let is_used = !store.rebuild().await?.changes.is_empty() || is_led(&place.db).await?;
        if is_used {
            bail!("{} is in use: give the demo a database of its own", place.db);
        }
        let shown = self.show(&place, &*store).await;
        if !matches!(shown, Ok(true)) {
            keep(place.folder);
        }
        Ok(if shown? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Whether the verdict is clean.
    async fn show(&self, place: &Place, store: &dyn Store) -> Result<bool> {
        let gateway = Gateway::start().await?;
        let registry = place.registry(gateway.url())?;
        let folder = place.folder.path();
        let mut instances = Instances::start(&place.url, &place.db, &registry, folder)?;
        let load = Load::start(self.rate, instances.urls());
        let mut view = View::new(&place.db, self.json);
        let began = BootInstant::now();
        self.kill_leaders(&mut instances, &gateway, &load, &mut view, began).await?;
        view.say("no more intents, no more kills: what was begun is finished")?;
        let settled = settle(store, &mut instances, load);
        let (submitted, given_up) = tokio::select! {
            settled = settled => settled?,
            // Whoever asks twice does not want the verdict.
            told = enough() => { told?; bail!("interrupted before the verdict") }
        };
        let kills = instances.stop().await;
        let verdict = Verdict::reach(store, &gateway, submitted, given_up, &kills).await?;
        view.clear()?;
        print(&if self.json { verdict.json()? } else { verdict.to_string() })?;
        Ok(verdict.is_clean())
    }

    /// Until the time is up or somebody has seen enough.
    async fn kill_leaders(
        &self,
        instances: &mut Instances,
        gateway: &Gateway,
        load: &Load,
        view: &mut View,
        began: BootInstant,
    ) -> Result<()> {
        let enough = enough();
        pin_mut!(enough);
        loop {
            let gone = BootInstant::now().since(began);
            if gone >= self.lasts {
                return Ok(());
            }
            instances.look().await?;
            if let Some(told) = instances.kill_a_leader_that_acts(gateway, LEADS_FOR)? {
                view.say(&told)?;
            }
            view.draw(instances, gateway, load, self.lasts - gone)?;
            tokio::select! {
                told = &mut enough => return told,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}

/// Until somebody presses Ctrl-C.
async fn enough() -> Result<()> {
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Ok(())
}

/// Stops the load and waits until nothing that was confirmed is pending, or for long enough: then the verdict says what is missing.
async fn settle(
    store: &dyn Store,
    instances: &mut Instances,
    load: Load,
) -> Result<(Vec<String>, usize)> {
    let began = BootInstant::now();
    let (mut stopping, mut submitted) = (pin!(load.stop()), None::<(Vec<String>, usize)>);
    let mut over = 0;
    while BootInstant::now().since(began) < SETTLES_WITHIN {
        instances.look().await?;
        if let Some((ids, _)) = &submitted {
            over += verdict::count_over(store, &ids[over..]).await?;
            if over == ids.len() {
                break;
            }
        }
        tokio::select! {
            stopped = &mut stopping, if submitted.is_none() => submitted = Some(stopped),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    submitted.context("clients go on waiting for an instance")
}

/// Whether somebody executes submissions there.
async fn is_led(db: &DatabaseUrl) -> Result<bool> {
    let candidate = Candidate::new(Scope::new(LEASE_NAME)?, HolderId::fresh());
    let timing = Timing::lease(Duration::from_secs(10)).build()?;
    let observed = match db {
        DatabaseUrl::Postgres(url) => {
            let table = LeaseTable::named(LEASES)?;
            PostgresLease::new((**url).clone(), table, candidate, timing)?.observe().await?
        }
        DatabaseUrl::Sqlite(data) => SqliteLease::new(data, candidate, timing)?.observe().await?,
        DatabaseUrl::SqlServer(url) => {
            let table = sqlserver_lease::LeaseTable::named(LEASES)?;
            SqlServerLease::new((**url).clone(), table, candidate, timing)?.observe().await?
        }
    };
    Ok(observed.held.is_some())
}

/// Leaves what may explain it.
fn keep(folder: TempDir) {
    let kept: &Path = &folder.keep();
    eprintln!("the database and the logs of the instances are in {}", kept.display());
}
