//! Terms for the tests to look at: won and raised as an election does it.

use std::path::{Path, PathBuf};

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, PostgresFence, Raised, SqlServerFence, SqliteFence},
    lock::{
        Acquire, Lock,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::SqliteLease,
        sqlserver_lease::{self, SqlServerLease},
    },
};
use tenure_database::{postgres::PostgresUrl, sqlserver::SqlServerUrl};
use tenure_testkit::{postgres::Postgres, secs};

use crate::process::Tenure;

/// A node that has won a term, and does nothing with it.
pub struct Leader {
    lock: Box<dyn Lock>,
    fence: Box<dyn Fence>,
    pub term: Term,
}

impl Leader {
    /// By a row of a lease table.
    pub async fn by_lease(postgres: &Postgres, table: &str, scope: &str, holder: &str) -> Self {
        let candidate = candidate(scope, holder);
        let table = LeaseTable::named(table).expect("a table");
        let lock = PostgresLease::new(url(postgres), table, candidate.clone(), lease());
        let fence = PostgresFence::new(url(postgres), lease());
        Self::win(Box::new(lock.expect("a lock")), Box::new(fence), candidate).await
    }

    /// By an advisory lock.
    pub async fn by_advisory_lock(postgres: &Postgres, scope: &str, holder: &str) -> Self {
        let candidate = candidate(scope, holder);
        let timing = Timing::heartbeat(secs(2), secs(6)).build().expect("a heartbeat");
        let settings = AdvisorySettings {
            session_silence: Some(secs(60)),
            ..AdvisorySettings::at(url(postgres))
        };
        let lock = PostgresAdvisory::new(settings, candidate.clone(), timing).expect("a lock");
        let fence = PostgresFence::new(url(postgres), timing);
        Self::win(Box::new(lock), Box::new(fence), candidate).await
    }

    /// By the lease file beside a data file.
    pub async fn by_file(data: &Path, scope: &str, holder: &str) -> Self {
        let candidate = candidate(scope, holder);
        let lock = SqliteLease::new(data, candidate.clone(), lease()).expect("a lock");
        let fence = SqliteFence::new(data, lease()).expect("a fence");
        Self::win(Box::new(lock), Box::new(fence), candidate).await
    }

    /// By a row of a lease table of SQL Server.
    pub async fn on_sqlserver(url: &SqlServerUrl, table: &str, scope: &str, holder: &str) -> Self {
        let candidate = candidate(scope, holder);
        let table = sqlserver_lease::LeaseTable::named(table).expect("a table");
        let lock = SqlServerLease::new(url.clone(), table, candidate.clone(), lease());
        let fence = SqlServerFence::new(url.clone(), lease());
        Self::win(Box::new(lock.expect("a lock")), Box::new(fence), candidate).await
    }

    async fn win(mut lock: Box<dyn Lock>, fence: Box<dyn Fence>, candidate: Candidate) -> Self {
        let Ok(Acquire::Granted(grant)) = lock.acquire(Epoch::ZERO).await else {
            panic!("the lock of {candidate:?} was not free");
        };
        let term = Term::granted(candidate.scope, candidate.holder, grant.epoch);
        let raised = fence.raise(&term, &lock.place()).await.expect("an answer of the fence");
        assert_eq!(raised, Raised::Raised);
        Self { lock, fence, term }
    }

    /// Hands over in order.
    pub async fn release(mut self) {
        self.fence.end_term(&self.term, "drained").await.expect("an end in the history");
        self.lock.release(self.term.epoch()).await.expect("a release");
    }
}

fn candidate(scope: &str, holder: &str) -> Candidate {
    let scope = Scope::new(scope).expect("a scope");
    Candidate::new(scope, HolderId::new(holder).expect("a holder"))
}

/// Long enough to outlast a test.
fn lease() -> Timing {
    Timing::lease(secs(60)).build().expect("a lease")
}

fn url(postgres: &Postgres) -> PostgresUrl {
    postgres.url().parse().expect("the server's own URL")
}

/// A server on which `tenure migrate` was run.
pub async fn migrated_server() -> Postgres {
    let postgres = Postgres::start().await.expect("a server");
    Tenure::on(&postgres.url()).run("migrate").done();
    postgres
}

/// A folder with a data file `app.db` on which `tenure migrate` was run.
pub fn migrated_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("app.db");
    Tenure::on_file(&data).run("migrate").done();
    (folder, data)
}
