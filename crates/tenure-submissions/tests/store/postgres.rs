//! The suite on Postgres.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, PostgresFence, Raised},
    lock::{
        Acquire, Lock,
        postgres_lease::{LeaseTable, PostgresLease},
    },
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_submissions::{
    schedule::Row,
    schema,
    store::{Store, postgres::PostgresStore},
};
use tenure_testkit::{postgres::Postgres, secs};
use tokio_postgres::Client;

use crate::scene::{Backend, Commit};

struct OnPostgres {
    _postgres: Postgres,
    url: PostgresUrl,
    client: Client,
    store: PostgresStore,
    terms: AtomicI64,
}

impl OnPostgres {
    async fn start() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let mut client = postgres.connect().await.unwrap();
        let engine = (tenure::schema::COMPONENT, &tenure::schema::POSTGRES);
        migrate::postgres::migrate(&mut client, engine.0, engine.1).await.unwrap();
        let migrated =
            migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES);
        migrated.await.unwrap();
        let url: PostgresUrl = postgres.url().parse().unwrap();
        let store = PostgresStore::new(&url, secs(10));
        Self { _postgres: postgres, url, client, store, terms: AtomicI64::new(0) }
    }
}

#[async_trait]
impl Backend for OnPostgres {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn another(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::new(&self.url, secs(10)))
    }

    /// Wins the lease, which the one before gives up, and raises the fence.
    async fn term(&self) -> Term {
        let number = self.terms.fetch_add(1, Ordering::Relaxed);
        let timing = Timing::lease(secs(60)).build().unwrap();
        let scope = Scope::new("submission-manager-executor").unwrap();
        let holder = HolderId::new(format!("sm-{number}")).unwrap();
        let candidate = Candidate::new(scope.clone(), holder.clone());
        let table = LeaseTable::named("submission_manager_leases").unwrap();
        let give_up = "UPDATE submission_manager_leases SET expires_at = now()";
        self.client.execute(give_up, &[]).await.unwrap();
        let mut lock = PostgresLease::new(self.url.clone(), table, candidate, timing).unwrap();
        let granted = lock.acquire(Epoch::ZERO).await.unwrap();
        let Acquire::Granted(grant) = granted else { panic!("{granted:?}") };
        let term = Term::granted(scope, holder, grant.epoch);
        let fence = PostgresFence::new(self.url.clone(), timing);
        let raised = fence.raise(&term, &lock.place()).await.unwrap();
        assert_eq!(raised, Raised::Raised);
        term
    }

    async fn modified_and_now(&self, row: Row) -> (i64, i64) {
        let query = "SELECT (extract(epoch FROM last_modified_at) * 1000000)::bigint,
                            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                     FROM submission_intents WHERE row_number = $1";
        let row = self.client.query_one(query, &[&row]).await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn age(&self, row: Row, seconds: i64) {
        let update = "UPDATE submission_intents
                      SET created_at = created_at - $2 * interval '1 second' WHERE row_number = $1";
        self.client.execute(update, &[&row, &(seconds as f64)]).await.unwrap();
    }

    async fn delete(&self, row: Row) {
        let delete = "DELETE FROM submission_intents WHERE row_number = $1";
        self.client.execute(delete, &[&row]).await.unwrap();
    }

    async fn store_late(&self, id: &str) -> Box<dyn Commit> {
        let client = self._postgres.connect().await.unwrap();
        client.batch_execute("BEGIN").await.unwrap();
        let insert = "INSERT INTO submission_intents (intent_id, submission_target, payload, payload_hash,
                          gateway_type, gateway_url, policy, terminal_outcomes, created_at, updated_at,
                          last_modified_at, next_attempt_at)
                      VALUES ($1, 'otp', '', sha256(''), 'sms', 'http://gateway', 'one_shot', '[]',
                          clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp())";
        client.execute(insert, &[&id]).await.unwrap();
        Box::new(Open(client))
    }
}

struct Open(Client);

#[async_trait]
impl Commit for Open {
    async fn commit(self: Box<Self>) {
        self.0.batch_execute("COMMIT").await.unwrap();
    }
}

every_law!(OnPostgres);
