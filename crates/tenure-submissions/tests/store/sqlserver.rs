//! The suite on SQL Server, where `TENURE_TEST_SQLSERVER` names one.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, Raised, SqlServerFence},
    lock::{
        Acquire, Lock,
        sqlserver_lease::{LeaseTable, SqlServerLease},
    },
};
use tenure_database::sqlserver::Session;
use tenure_submissions::{
    schedule::Row,
    schema,
    store::{Store, sqlserver::SqlServerStore},
};
use tenure_testkit::{
    secs,
    sqlserver::{Database, not_shown},
};

use crate::scene::{Backend, Commit};

/// Laws that read what was written since a moment.
const OF_ROWVERSIONS: [&str; 4] = [
    "a_refresh_brings_what_a_rebuild_did_not",
    "a_refresh_misses_nothing_when_transactions_commit_out_of_order",
    "equal_moments_across_a_page_boundary_are_not_skipped",
    "every_write_is_brought_by_a_refresh",
];

/// The database goes last: whoever is connected keeps it.
struct OnSqlServer {
    store: SqlServerStore,
    terms: AtomicI64,
    knows_active_rowversions: bool,
    reads_json: bool,
    database: Database,
}

impl OnSqlServer {
    async fn start() -> Self {
        let components: [(_, &[_]); 2] = [
            (tenure::schema::COMPONENT, &tenure::schema::SQLSERVER),
            (schema::COMPONENT, &schema::SQLSERVER),
        ];
        let database = Database::with(&components).await.unwrap();
        let store = SqlServerStore::new(database.url(), secs(10));
        let knows_active_rowversions = database.knows_active_rowversions().await.unwrap();
        let reads_json = database.reads_json().await.unwrap();
        Self { store, terms: AtomicI64::new(0), knows_active_rowversions, reads_json, database }
    }

    async fn session(&self) -> Session {
        self.database.session().await.unwrap()
    }
}

#[async_trait]
impl Backend for OnSqlServer {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn another(&self) -> Arc<dyn Store> {
        Arc::new(SqlServerStore::new(self.database.url(), secs(10)))
    }

    fn shows(&self, law: &str) -> bool {
        let lacks = match law {
            _ if !self.knows_active_rowversions && OF_ROWVERSIONS.contains(&law) => {
                "it has no MIN_ACTIVE_ROWVERSION()"
            }
            "an_id_is_kept_as_it_is_whatever_it_holds" if !self.reads_json => {
                "OPENJSON leaves quotes escaped there"
            }
            _ => return true,
        };
        not_shown(law, lacks);
        false
    }

    fn stalls(&self) -> bool {
        true
    }

    /// Wins the lease, which the one before gives up, and raises the fence.
    async fn term(&self) -> Term {
        let number = self.terms.fetch_add(1, Ordering::Relaxed);
        let timing = Timing::lease(secs(60)).build().unwrap();
        let scope = Scope::new("submission-manager-executor").unwrap();
        let holder = HolderId::new(format!("sm-{number}")).unwrap();
        let candidate = Candidate::new(scope.clone(), holder.clone());
        let table = LeaseTable::named("submission_manager_leases").unwrap();
        let give_up = "UPDATE dbo.submission_manager_leases SET expires_at = SYSUTCDATETIME()";
        self.session().await.run(give_up).await.unwrap();
        let url = self.database.url();
        let mut lock = SqlServerLease::new(url.clone(), table, candidate, timing).unwrap();
        let granted = lock.acquire(Epoch::ZERO).await.unwrap();
        let Acquire::Granted(grant) = granted else { panic!("{granted:?}") };
        let term = Term::granted(scope, holder, grant.epoch);
        let fence = SqlServerFence::new(url.clone(), timing);
        let raised = fence.raise(&term, &lock.place()).await.unwrap();
        assert_eq!(raised, Raised::Raised);
        term
    }

    async fn modified_and_now(&self, row: Row) -> (i64, i64) {
        let query = "SELECT DATEDIFF_BIG(MICROSECOND, '1970-01-01', last_modified_at) AS modified,
                            DATEDIFF_BIG(MICROSECOND, '1970-01-01', SYSUTCDATETIME()) AS now
                     FROM dbo.submission_intents WHERE row_number = @P1";
        let rows = self.session().await.query_text(query, &[&row]).await.unwrap();
        (rows[0].need("modified").unwrap(), rows[0].need("now").unwrap())
    }

    async fn age(&self, row: Row, seconds: i64) {
        let update = "UPDATE dbo.submission_intents
                      SET created_at = DATEADD(SECOND, -@P2, created_at) WHERE row_number = @P1";
        self.session().await.query_text(update, &[&row, &seconds]).await.unwrap();
    }

    async fn delete(&self, row: Row) {
        let delete = "DELETE FROM dbo.submission_intents WHERE row_number = @P1";
        self.session().await.query_text(delete, &[&row]).await.unwrap();
    }

    async fn store_late(&self, id: &str) -> Box<dyn Commit> {
        let mut session = self.session().await;
        session.run("BEGIN TRANSACTION").await.unwrap();
        let insert = "INSERT INTO dbo.submission_intents (intent_id, submission_target, payload, payload_hash,
                          gateway_type, gateway_url, policy, terminal_outcomes, created_at, updated_at,
                          last_modified_at, next_attempt_at)
                      VALUES (@P1, N'otp', 0x, CAST(0x AS binary(32)), 'sms', N'http://gateway', 'one_shot', N'[]',
                          SYSUTCDATETIME(), SYSUTCDATETIME(), SYSUTCDATETIME(), SYSUTCDATETIME())";
        session.query_text(insert, &[&id]).await.unwrap();
        Box::new(Open(session))
    }
}

struct Open(Session);

#[async_trait]
impl Commit for Open {
    async fn commit(mut self: Box<Self>) {
        self.0.run("COMMIT TRANSACTION").await.unwrap();
    }
}

every_law!(OnSqlServer, ignore = "needs TENURE_TEST_SQLSERVER");
