//! The suite on Postgres. The store connects as a role that has the rights which it says it needs, and no others.

mod plans;
mod rights;
mod schema;
mod waiting;

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, PostgresFence, Raised},
    lock::{
        Acquire, Lock,
        postgres_lease::{LeaseTable, PostgresLease},
    },
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_jobs::store::{
    Patience, Store,
    postgres::{Limits, PostgresStore},
};
use tenure_testkit::{postgres::Postgres, secs};
use tokio_postgres::Client;

use crate::scene::{Backend, PATIENCE};

/// Who runs a controller.
const ROLE: &str = "app";

struct OnPostgres {
    postgres: Postgres,
    /// The owner's.
    client: Client,
    store: PostgresStore,
    terms: AtomicI64,
}

impl OnPostgres {
    async fn start() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let mut client = postgres.connect().await.unwrap();
        migrate(&mut client).await;
        client.batch_execute(&format!("CREATE ROLE {ROLE} LOGIN")).await.unwrap();
        for grants in [tenure::schema::grants_to(ROLE), tenure_jobs::schema::grants_to(ROLE)] {
            client.batch_execute(&grants).await.unwrap();
        }
        let store = store(&postgres, PATIENCE);
        Self { postgres, client, store, terms: AtomicI64::new(0) }
    }

    /// Moves a moment of a job to so many milliseconds from now.
    async fn set_moment(&self, column: &str, job_id: &str, millis: i64) {
        let update = format!(
            "UPDATE tenure_jobs SET {column} = clock_timestamp() + $2::bigint * interval '1 millisecond'
             WHERE job_id = $1"
        );
        assert_eq!(self.client.execute(&update, &[&job_id, &millis]).await.unwrap(), 1);
    }

    /// A number that the database tells.
    async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }
}

/// Applies what is missing of both schemas, and says how much that was.
pub async fn migrate(client: &mut Client) -> usize {
    use tenure::schema as engine;
    use tenure_jobs::schema as jobs;

    let first = migrate::postgres::migrate(client, engine::COMPONENT, &engine::POSTGRES).await;
    let second = migrate::postgres::migrate(client, jobs::COMPONENT, &jobs::POSTGRES).await;
    first.unwrap().len() + second.unwrap().len()
}

fn store(postgres: &Postgres, patience: Patience) -> PostgresStore {
    let url: PostgresUrl = postgres.url_as(ROLE, "postgres").parse().unwrap();
    PostgresStore::new(&url, Limits { read: secs(20), write: secs(20) }, patience)
}

#[async_trait]
impl Backend for OnPostgres {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn another(&self, patience: Patience) -> Box<dyn Store> {
        Box::new(store(&self.postgres, patience))
    }

    /// Wins the lease, which the one before gives up, and raises the fence.
    async fn term_of(&self, scope: &str) -> Term {
        let number = self.terms.fetch_add(1, Ordering::Relaxed);
        let timing = Timing::lease(secs(60)).build().unwrap();
        let holder = HolderId::new(format!("node-{number}")).unwrap();
        let give_up = "UPDATE tenure_leases SET expires_at = now() WHERE lease_name = $1";
        self.client.execute(give_up, &[&scope]).await.unwrap();
        let scope = Scope::new(scope).unwrap();
        let candidate = Candidate::new(scope.clone(), holder.clone());
        let url: PostgresUrl = self.postgres.url().parse().unwrap();
        let table = LeaseTable::default();
        let mut lock = PostgresLease::new(url.clone(), table, candidate, timing).unwrap();
        let granted = lock.acquire(Epoch::ZERO).await.unwrap();
        let Acquire::Granted(grant) = granted else { panic!("{granted:?}") };
        let term = Term::granted(scope, holder, grant.epoch);
        let fence = PostgresFence::new(url, timing);
        let raised = fence.raise(&term, &lock.place()).await.unwrap();
        assert_eq!(raised, Raised::Raised);
        term
    }

    async fn rows(&self, table: &str) -> Vec<Value> {
        let key = match table {
            "tenure_job_agents" => "namespace, name",
            "tenure_job_changes" => "id",
            "tenure_job_events" => "event_number",
            "tenure_job_leaders" => "leader_epoch",
            "tenure_job_leases" => "lease_id",
            _ => "row_number",
        };
        let query = format!("SELECT to_jsonb(t) FROM {table} AS t ORDER BY {key}");
        let rows = self.client.query(&query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn now(&self) -> Timestamp {
        let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        Timestamp::from_microsecond(self.number(query).await).unwrap()
    }

    async fn set_left(&self, job_id: &str, millis: i64) {
        let update = "UPDATE tenure_jobs
                      SET lease_expires_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
                      WHERE job_id = $1 AND state = 'leased'";
        assert_eq!(self.client.execute(update, &[&job_id, &millis]).await.unwrap(), 1);
    }

    async fn set_leased(&self, job_id: &str, millis: i64) {
        self.set_moment("leased_at", job_id, -millis).await;
    }

    async fn set_pause(&self, job_id: &str, millis: i64) {
        self.set_moment("not_before", job_id, millis).await;
    }

    async fn set_deadline(&self, job_id: &str, millis: i64) {
        self.set_moment("deadline_at", job_id, millis).await;
    }

    async fn set_silence(&self, name: &str, millis: i64) {
        let update = "UPDATE tenure_job_agents
                      SET last_seen_at = clock_timestamp() - $2::bigint * interval '1 millisecond'
                      WHERE name = $1";
        assert_eq!(self.client.execute(update, &[&name, &millis]).await.unwrap(), 1);
    }
}

every_law!(OnPostgres);
