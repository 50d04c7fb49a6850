//! The suite on SQLite.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use async_trait::async_trait;
use rusqlite::Connection;
use tempfile::TempDir;
use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, Raised, SqliteFence},
    lock::{
        Acquire, Lock,
        sqlite_lease::{LeaseFile, SqliteLease},
    },
};
use tenure_database::{migrate, sqlite};
use tenure_submissions::{
    schedule::Row,
    schema,
    store::{Store, Submitted, sqlite::SqliteStore},
};
use tenure_testkit::secs;

use crate::scene::{Backend, Commit, submission};

struct OnSqlite {
    _folder: TempDir,
    path: PathBuf,
    store: SqliteStore,
    terms: AtomicI64,
}

impl OnSqlite {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("tenure.db");
        let mut file = sqlite::open(&path, secs(10)).unwrap();
        let engine = (tenure::schema::COMPONENT, &tenure::schema::SQLITE);
        migrate::sqlite::migrate(&mut file, engine.0, engine.1).unwrap();
        migrate::sqlite::migrate(&mut file, schema::COMPONENT, &schema::SQLITE).unwrap();
        let store = SqliteStore::open(&path, secs(10)).unwrap();
        Self { _folder: folder, path, store, terms: AtomicI64::new(0) }
    }

    fn file(&self) -> Connection {
        sqlite::open(&self.path, secs(10)).unwrap()
    }
}

#[async_trait]
impl Backend for OnSqlite {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn another(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.path, secs(10)).unwrap())
    }

    /// Wins the lease, which the one before gives up, and raises the fence.
    async fn term(&self) -> Term {
        let number = self.terms.fetch_add(1, Ordering::Relaxed);
        let timing = Timing::lease(secs(60)).build().unwrap();
        let scope = Scope::new("submission-manager-executor").unwrap();
        let holder = HolderId::new(format!("sm-{number}")).unwrap();
        let candidate = Candidate::new(scope.clone(), holder.clone());
        let mut lock = SqliteLease::new(&self.path, candidate, timing).unwrap();
        let leases = LeaseFile::beside(&self.path).open(secs(10)).unwrap();
        leases.execute("UPDATE tenure_leases SET expires_at = boottime_ms()", []).unwrap();
        let granted = lock.acquire(Epoch::ZERO).await.unwrap();
        let Acquire::Granted(grant) = granted else { panic!("{granted:?}") };
        let term = Term::granted(scope, holder, grant.epoch);
        let fence = SqliteFence::new(&self.path, timing).unwrap();
        assert_eq!(fence.raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
        term
    }

    async fn modified_and_now(&self, row: Row) -> (i64, i64) {
        let query =
            "SELECT last_modified_at, unixtime_us() FROM submission_intents WHERE row_number = ?";
        self.file().query_row(query, [row], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    async fn age(&self, row: Row, seconds: i64) {
        let update = "UPDATE submission_intents SET created_at = created_at - ?2 * 1000000
                      WHERE row_number = ?1";
        self.file().execute(update, (row, seconds)).unwrap();
    }

    async fn delete(&self, row: Row) {
        let delete = "DELETE FROM submission_intents WHERE row_number = ?";
        self.file().execute(delete, [row]).unwrap();
    }

    /// A file has one writer: whoever begins to write late can only commit late.
    async fn store_late(&self, id: &str) -> Box<dyn Commit> {
        Box::new(Late { store: self.another(), id: id.to_owned() })
    }
}

struct Late {
    store: Arc<dyn Store>,
    id: String,
}

#[async_trait]
impl Commit for Late {
    async fn commit(self: Box<Self>) {
        let stored = self.store.submit(&[submission(&self.id, "1")]).await.unwrap().remove(0);
        assert!(matches!(stored, Submitted::New(_)), "{stored:?}");
    }
}

every_law!(OnSqlite);
