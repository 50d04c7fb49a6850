//! A SQLite file with candidates for one scope, and work that tells what happens to it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tempfile::TempDir;
use tenure::{
    Candidate, Election, Epoch, HolderId, Role, Scope, Tenure, Timing, Work,
    election::{Builder, WorkError},
    fence::SqliteFence,
    lock::sqlite_lease::{LeaseFile, SqliteLease},
    schema,
};
use tenure_database::{migrate, sqlite};
use tenure_testkit::{eventually, millis, secs};

pub struct Scene {
    folder: TempDir,
    pub timing: Timing,
}

impl Scene {
    pub fn new() -> Self {
        let timing = Timing::lease(millis(1_500))
            .drain_grace(secs(2))
            .drain_cooldown(secs(3))
            .hold_down(millis(300))
            .build()
            .unwrap();
        Self::with(timing)
    }

    pub fn with(timing: Timing) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap(), timing };
        let mut data = sqlite::open(&scene.data(), secs(1)).unwrap();
        migrate::sqlite::migrate(&mut data, schema::COMPONENT, &schema::SQLITE).unwrap();
        scene
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("tenure.db")
    }

    pub fn candidate(&self, holder: &str) -> Builder {
        let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap());
        let lock = SqliteLease::new(&self.data(), candidate.clone(), self.timing).unwrap();
        let fence = SqliteFence::new(&self.data(), self.timing).unwrap();
        Election::builder(candidate, self.timing, lock).fence(fence)
    }

    /// How long the lease of the scope still runs.
    pub fn lease_left(&self) -> Duration {
        let lease = LeaseFile::beside(&self.data()).lease_of(&Scope::new("jobs").unwrap(), secs(1));
        lease.unwrap().map_or(Duration::ZERO, |lease| lease.left)
    }

    /// The history of terms: epoch and reason of the end.
    pub fn history(&self) -> Vec<(i64, Option<String>)> {
        let data = sqlite::open(&self.data(), secs(1)).unwrap();
        let mut query =
            data.prepare("SELECT epoch, reason FROM tenure_terms ORDER BY epoch").unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

/// Waits until this election's role is `role`, and returns the term if there is one.
pub async fn becomes(election: &Election, role: Role) -> Option<Epoch> {
    let mut leadership = election.leadership();
    let waited = leadership.wait_for(|leadership| leadership.role == role);
    let what = format!("the role becomes {role}");
    let seen = tokio::select! {
        seen = waited => seen.unwrap().term.as_ref().map(tenure::Term::epoch),
        () = tokio::time::sleep(secs(10)) => panic!("{what}: not within 10 s"),
    };
    seen
}

/// What happened to some work, in order.
#[derive(Clone, Debug, Default)]
pub struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub async fn holds(&self, what: &str) {
        eventually(what, secs(10), async || {
            self.notes().iter().any(|note| note == what).then_some(())
        })
        .await;
    }
}

/// Work that notes what happens to it.
pub struct Noted {
    pub diary: Diary,
    /// Runs when the work was told to stop, before it says that it has.
    pub on_stop: Box<dyn Fn() + Send + Sync>,
    pub behaviour: Behaviour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    RunsUntilStopped,
    CannotPrepare,
    Panics,
    MakesNoProgress,
}

impl Noted {
    pub fn new(diary: &Diary, behaviour: Behaviour) -> Self {
        Self { diary: diary.clone(), on_stop: Box::new(|| {}), behaviour }
    }
}

#[async_trait]
impl Work for Noted {
    async fn prepare(&self, term: &tenure::Term) -> Result<(), WorkError> {
        self.diary.note(format!("prepare {}", term.epoch()));
        match self.behaviour {
            Behaviour::CannotPrepare => Err("no schedule".into()),
            _ => Ok(()),
        }
    }

    async fn lead(&self, tenure: Tenure) {
        let epoch = tenure.term.epoch();
        self.diary.note(format!("lead {epoch}"));
        assert!(self.behaviour != Behaviour::Panics, "as the test asks");
        tenure.stop.cancelled().await;
        (self.on_stop)();
        self.diary.note(format!("stopped {epoch}"));
    }
}
