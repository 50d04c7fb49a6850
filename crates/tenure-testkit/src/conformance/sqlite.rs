//! The lease file of SQLite under the laws.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use async_trait::async_trait;
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;
use tenure::{
    Epoch, Timing,
    lock::{
        Lock,
        sqlite_lease::{LeaseFile, SqliteLease},
    },
    schema,
};
use tenure_database::{migrate, sqlite};

use super::backend::{Backend, Blocked, Blocker, named};
use crate::{eventually_true, secs};

/// A folder with a data file and its lease file.
pub struct SqliteBackend {
    folder: TempDir,
}

impl SqliteBackend {
    pub async fn start() -> Result<Self> {
        let backend = Self { folder: tempfile::tempdir()? };
        let mut data = sqlite::open(&backend.data(), Duration::from_secs(1))?;
        migrate::sqlite::migrate(&mut data, schema::COMPONENT, &schema::SQLITE)?;
        Ok(backend)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("tenure.db")
    }

    fn leases(&self) -> Connection {
        LeaseFile::beside(&self.data()).open(Duration::from_secs(1)).expect("the lease file")
    }

    fn lock(&self, scope: &str, holder: &str, timing: Timing) -> Box<dyn Lock> {
        Box::new(SqliteLease::new(&self.data(), named(scope, holder), timing).expect("a lock"))
    }
}

/// A thread that sits in a transaction until it is told to commit.
struct OpenTransaction {
    commit: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

#[async_trait]
impl Blocked for OpenTransaction {
    async fn unblock(self: Box<Self>) {
        self.commit.send(()).expect("the thread waits");
        self.thread.join().expect("the thread commits");
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(scope, holder, self.timing())
    }

    fn patient_candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(scope, holder, self.patient_timing())
    }

    /// There is no wire to lose it on: nobody looks at it.
    async fn candidate_whose_reply_is_lost(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        let mut lock = self.candidate(scope, holder);
        drop(lock.acquire(Epoch::ZERO).await);
        lock
    }

    async fn block(&self, scope: &str, blocker: Blocker) -> Box<dyn Blocked> {
        let (commit, told) = std::sync::mpsc::channel();
        let (begun, begin) = std::sync::mpsc::channel();
        let (mut leases, scope) = (self.leases(), scope.to_owned());
        let thread = std::thread::spawn(move || {
            let open = leases.transaction_with_behavior(TransactionBehavior::Immediate);
            let open = open.expect("the write lock");
            if let Blocker::Changes = blocker {
                let change =
                    "UPDATE tenure_leases SET acquired_at = acquired_at WHERE lease_name = ?1";
                open.execute(change, [scope]).expect("a change");
            }
            begun.send(()).expect("the test waits");
            told.recv().expect("the test goes on");
            open.commit().expect("a commit");
        });
        begin.recv().expect("the write lock was taken");
        Box::new(OpenTransaction { commit, thread })
    }

    /// There is no server: what survives is what is in the file after every process has closed it.
    async fn restart_server(&self) {
        eventually_true("the files are closed", secs(5), async || {
            !self.folder.path().join("tenure.db-lease-wal").exists()
        })
        .await;
    }

    async fn listening(&self) {
        eventually_true("the file is watched", secs(5), async || {
            std::fs::read_dir("/proc/self/fd").is_ok_and(|fds| {
                fds.flatten().any(|fd| {
                    std::fs::read_link(fd.path())
                        .is_ok_and(|link| link.to_string_lossy().contains("inotify"))
                })
            })
        })
        .await;
    }
}
