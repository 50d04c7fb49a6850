//! The suite on SQLite.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, types::ValueRef};
use serde_json::Value;
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
use tenure_jobs::{
    schema,
    store::{Patience, Store, sqlite::SqliteStore},
};
use tenure_testkit::secs;

use crate::scene::{Backend, PATIENCE};

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
        for missing in [2, 0] {
            let migrated = migrate::sqlite::migrate(&mut file, schema::COMPONENT, &schema::SQLITE);
            assert_eq!(migrated.unwrap().len(), missing, "twice is harmless");
        }
        let store = SqliteStore::open(&path, secs(20), PATIENCE).unwrap();
        Self { _folder: folder, path, store, terms: AtomicI64::new(0) }
    }

    /// Moves a moment of a job to so many milliseconds from now.
    fn set_moment(&self, column: &str, job_id: &str, millis: i64) {
        let update = format!(
            "UPDATE tenure_jobs SET {column} = unixtime_us() + ?2 * 1000 WHERE job_id = ?1"
        );
        assert_eq!(self.file().execute(&update, (job_id, millis)).unwrap(), 1);
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

    fn another(&self, patience: Patience) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path, secs(20), patience).unwrap())
    }

    /// Wins the lease, which the one before gives up, and raises the fence.
    async fn term_of(&self, scope: &str) -> Term {
        let number = self.terms.fetch_add(1, Ordering::Relaxed);
        let timing = Timing::lease(secs(60)).build().unwrap();
        let scope = Scope::new(scope).unwrap();
        let holder = HolderId::new(format!("node-{number}")).unwrap();
        let candidate = Candidate::new(scope.clone(), holder.clone());
        let mut lock = SqliteLease::new(&self.path, candidate, timing).unwrap();
        let leases = LeaseFile::beside(&self.path).open(secs(10)).unwrap();
        let give_up = "UPDATE tenure_leases SET expires_at = boottime_ms() WHERE lease_name = ?";
        leases.execute(give_up, [scope.as_str()]).unwrap();
        let granted = lock.acquire(Epoch::ZERO).await.unwrap();
        let Acquire::Granted(grant) = granted else { panic!("{granted:?}") };
        let term = Term::granted(scope, holder, grant.epoch);
        let fence = SqliteFence::new(&self.path, timing).unwrap();
        assert_eq!(fence.raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
        term
    }

    async fn rows(&self, table: &str) -> Vec<Value> {
        let file = self.file();
        let mut statement = file.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns: Vec<_> = statement.column_names().map(str::to_owned).collect();
        let rows = statement.query_map([], |row| {
            let value = |(at, name): (usize, &String)| Ok((name.clone(), value(row.get_ref(at)?)));
            columns
                .iter()
                .enumerate()
                .map(value)
                .collect::<rusqlite::Result<_>>()
                .map(Value::Object)
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    async fn now(&self) -> Timestamp {
        let micros = self.file().query_row("SELECT unixtime_us()", [], |row| row.get(0)).unwrap();
        Timestamp::from_microsecond(micros).unwrap()
    }

    async fn set_left(&self, job_id: &str, millis: i64) {
        let update = "UPDATE tenure_jobs SET lease_expires_at = unixtime_us() + ?2 * 1000
                      WHERE job_id = ?1 AND state = 'leased'";
        assert_eq!(self.file().execute(update, (job_id, millis)).unwrap(), 1);
    }

    async fn set_leased(&self, job_id: &str, millis: i64) {
        self.set_moment("leased_at", job_id, -millis);
    }

    async fn set_pause(&self, job_id: &str, millis: i64) {
        self.set_moment("not_before", job_id, millis);
    }

    async fn set_deadline(&self, job_id: &str, millis: i64) {
        self.set_moment("deadline_at", job_id, millis);
    }

    async fn set_silence(&self, name: &str, millis: i64) {
        let update = "UPDATE tenure_job_agents SET last_seen_at = unixtime_us() - ?2 * 1000
                      WHERE name = ?1";
        assert_eq!(self.file().execute(update, (name, millis)).unwrap(), 1);
    }
}

fn value(column: ValueRef<'_>) -> Value {
    match column {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => format!("{bytes:02x?}").into(),
    }
}

every_law!(OnSqlite);
