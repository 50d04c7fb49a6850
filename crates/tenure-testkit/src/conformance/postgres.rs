//! The two locks of Postgres under the laws.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use tenure::{
    Epoch, Timing,
    lock::{
        Acquire, Lock, LockError,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::{DatabaseError, migrate, postgres::PostgresUrl};
use tokio_postgres::error::SqlState;

use super::backend::{Backend, Blocked, Blocker, named};
use crate::{
    eventually_true,
    postgres::{Postgres, Stop},
    proxy::{Direction, Proxy},
    secs,
};

const BLOCK_BY_LOCK: &str = "SELECT 1 FROM tenure_leases WHERE lease_name = $1 FOR UPDATE";
const BLOCK_BY_CHANGE: &str =
    "UPDATE tenure_leases SET acquired_at = acquired_at WHERE lease_name = $1";

/// A migrated server, and a proxy that can keep its answers back.
struct Server {
    postgres: Postgres,
    proxy: Proxy,
}

impl Server {
    async fn start() -> Result<Self> {
        let postgres = Postgres::start().await?;
        let mut client = postgres.connect().await?;
        migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await?;
        let proxy = Proxy::to(([127, 0, 0, 1], postgres.port()).into()).await?;
        Ok(Self { postgres, proxy })
    }

    fn url(&self) -> PostgresUrl {
        self.postgres.url().parse().expect("the server's own URL")
    }

    fn url_through_proxy(&self) -> PostgresUrl {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.proxy.port());
        url.parse().expect("the proxy's URL")
    }

    /// Asks through the proxy for what `blocker` holds, keeps the answer back once the server waits for
    /// it, and lets the server go on: the request is applied, and nobody hears of it.
    async fn lose_the_reply(&self, lock: &mut dyn Lock, blocker: Box<dyn Blocked>) {
        let client = self.postgres.connect().await.expect("a connection");
        let lose = async {
            eventually_true("the acquire waits in the server", secs(10), async || {
                let waiting = "SELECT 1 FROM pg_locks WHERE NOT granted";
                client.query(waiting, &[]).await.is_ok_and(|rows| !rows.is_empty())
            })
            .await;
            self.proxy.hold(Direction::ToClient);
            blocker.unblock().await;
        };
        let (answer, ()) = tokio::join!(lock.acquire(Epoch::ZERO), lose);
        assert!(answer.is_err(), "the answer was kept back, and yet came: {answer:?}");
        self.proxy.pass();
    }

    async fn listens(&self, count: i64) {
        let client = self.postgres.connect().await.expect("a connection");
        eventually_true("the waiter listens", secs(10), async || {
            let query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query LIKE '-- Hears%'";
            client.query_one(query, &[]).await.is_ok_and(|row| row.get::<_, i64>(0) >= count)
        })
        .await;
    }
}

/// The lease row.
pub struct PostgresLeaseBackend {
    server: Server,
}

impl PostgresLeaseBackend {
    pub async fn start() -> Result<Self> {
        Ok(Self { server: Server::start().await? })
    }

    fn lock(&self, url: PostgresUrl, scope: &str, holder: &str, timing: Timing) -> Box<dyn Lock> {
        let lock = PostgresLease::new(url, LeaseTable::default(), named(scope, holder), timing);
        Box::new(lock.expect("a lock"))
    }
}

struct OpenTransaction {
    client: tokio_postgres::Client,
}

#[async_trait]
impl Blocked for OpenTransaction {
    async fn unblock(self: Box<Self>) {
        self.client.batch_execute("COMMIT").await.expect("a commit");
    }
}

#[async_trait]
impl Backend for PostgresLeaseBackend {
    fn candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(self.server.url(), scope, holder, self.timing())
    }

    fn patient_candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(self.server.url(), scope, holder, self.patient_timing())
    }

    async fn candidate_whose_reply_is_lost(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        let mut first = self.candidate(scope, "first");
        if let Ok(Acquire::Granted(grant)) = first.acquire(Epoch::ZERO).await {
            first.release(grant.epoch).await.expect("a release");
        }
        let blocker = self.block(scope, Blocker::Locks).await;
        let url = self.server.url_through_proxy();
        let mut lock = self.lock(url, scope, holder, self.patient_timing());
        self.server.lose_the_reply(lock.as_mut(), blocker).await;
        lock
    }

    async fn block(&self, scope: &str, blocker: Blocker) -> Box<dyn Blocked> {
        let client = self.server.postgres.connect().await.expect("a connection");
        client.batch_execute("BEGIN").await.expect("a transaction");
        let statement = match blocker {
            Blocker::Locks => BLOCK_BY_LOCK,
            Blocker::Changes => BLOCK_BY_CHANGE,
        };
        client.execute(statement, &[&scope]).await.expect("the row");
        Box::new(OpenTransaction { client })
    }

    async fn restart_server(&self) {
        self.server.postgres.restart(Stop::Immediate).await.expect("a restart");
    }

    async fn listening(&self) {
        self.server.listens(1).await;
    }
}

/// The advisory lock.
pub struct PostgresAdvisoryBackend {
    server: Server,
}

impl PostgresAdvisoryBackend {
    pub async fn start() -> Result<Self> {
        Ok(Self { server: Server::start().await? })
    }

    fn lock(&self, url: PostgresUrl, scope: &str, holder: &str) -> Box<dyn Lock> {
        // Holders in these laws send no heartbeats while others wait.
        let settings =
            AdvisorySettings { session_silence: Some(secs(60)), ..AdvisorySettings::at(url) };
        Box::new(
            PostgresAdvisory::new(settings, named(scope, holder), self.timing()).expect("a lock"),
        )
    }
}

#[async_trait]
impl Backend for PostgresAdvisoryBackend {
    fn candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(self.server.url(), scope, holder)
    }

    fn timing(&self) -> Timing {
        let heartbeat = Duration::from_millis(1_600);
        let builder = Timing::heartbeat(heartbeat, heartbeat * 2);
        // Two hundred candidates on two cores take their time.
        builder.call_timeout(heartbeat * 9 / 10).build().expect("a heartbeat")
    }

    fn patient_candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.candidate(scope, holder)
    }

    /// Its session ends, and with it the lock.
    async fn fall_silent(&self, lock: Box<dyn Lock>) -> Box<dyn Lock> {
        let client = self.server.postgres.connect().await.expect("a connection");
        let query = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted";
        client.query(query, &[]).await.expect("an end of the session");
        lock
    }

    async fn candidate_whose_reply_is_lost(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        let blocker = self.block(scope, Blocker::Locks).await;
        let mut lock = self.lock(self.server.url_through_proxy(), scope, holder);
        let first = lock.acquire(Epoch::ZERO).await.expect("an answer");
        assert!(matches!(first, Acquire::Held(_)), "the first time it only looks: {first:?}");
        self.server.lose_the_reply(lock.as_mut(), blocker).await;
        lock
    }

    /// Somebody else has the lock.
    async fn block(&self, scope: &str, _: Blocker) -> Box<dyn Blocked> {
        let client = self.server.postgres.connect().await.expect("a connection");
        let key = named(scope, "blocker").scope.key();
        client.batch_execute("BEGIN").await.expect("a transaction");
        let lock = "SELECT pg_advisory_xact_lock($1)";
        client.execute(lock, &[&key]).await.expect("the lock");
        Box::new(OpenTransaction { client })
    }

    async fn restart_server(&self) {
        self.server.postgres.restart(Stop::Immediate).await.expect("a restart");
    }

    async fn listening(&self) {}

    fn waits(&self) -> bool {
        true
    }

    fn is_end_of_session(&self, error: &LockError) -> bool {
        let LockError::Database(DatabaseError::Postgres(error)) = error else { return false };
        error.is_closed() || error.code() == Some(&SqlState::ADMIN_SHUTDOWN)
    }

    fn has_no_meaning(&self, law: &str) -> Option<&'static str> {
        match law {
            "renew_refused_after_waiting_past_expiry_behind_a_locked_row"
            | "renew_refused_after_waiting_past_expiry_behind_a_changed_row" => {
                Some("the lock ends with its session and not at a moment of the clock")
            }
            "release_frees_no_epoch_but_the_one_that_it_names" => {
                Some("a release closes the session, and with it whatever it holds")
            }
            _ => None,
        }
    }
}
