//! A database, a gateway, and instances.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use prometheus_client::registry::Registry as MetricsRegistry;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tenure::{
    Candidate, DatabaseUrl, Epoch, HolderId, Role, Scope, Term, Timing,
    election::Builder,
    fence::{Fence, PostgresFence, Raised, SqlServerFence, SqliteFence},
    lock::{
        Acquire, Lock,
        postgres_lease::{LeaseTable, PostgresLease},
        sqlite_lease::{LeaseFile, SqliteLease},
        sqlserver_lease::{self, SqlServerLease},
    },
};
use tenure_database::{migrate, sqlite};
use tenure_submissions::{
    database::{self, LEASES},
    instance::{Behaviour, Instance},
    intent::{AttemptView, IntentView, Status},
    policy::{Next, Outcome},
    registry::Registry,
    schedule::Row,
    schema,
    store::{Finished, OneShot, Reserve, Store, Submission, Submitted},
};
use tenure_testkit::{eventually, postgres::Postgres, secs, sqlserver};

use crate::gateway::Gateway;

pub const LEASE_NAME: &str = "submission-manager-executor";

/// A test for each of these, on every database.
macro_rules! on_every_database {
    ($($test:ident),* $(,)?) => {
        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test(crate::scene::Scene::on_postgres().await).await;
                }
            )*
        }
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test(crate::scene::Scene::on_sqlite().await).await;
                }
            )*
        }
        mod on_sqlserver {
            $(
                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs TENURE_TEST_SQLSERVER"]
                async fn $test() {
                    super::$test(crate::scene::Scene::on_sqlserver().await).await;
                }
            )*
        }
    };
}

pub enum Database {
    Postgres(Box<Postgres>),
    // Held for its Drop, which removes it.
    Sqlite(#[expect(dead_code)] TempDir),
    SqlServer(Box<sqlserver::Database>),
}

pub struct Scene {
    pub db: DatabaseUrl,
    pub gateway: Gateway,
    started: AtomicUsize,
    /// Of the test itself, which looks on.
    looking: OnceLock<Arc<dyn Store>>,
    pub database: Database,
}

impl Scene {
    pub async fn on_postgres() -> Self {
        Self::on_server(Postgres::start().await.unwrap()).await
    }

    pub async fn on_server(postgres: Postgres) -> Self {
        let mut client = postgres.connect().await.unwrap();
        let (engine, known) = (tenure::schema::COMPONENT, &tenure::schema::POSTGRES);
        migrate::postgres::migrate(&mut client, engine, known).await.unwrap();
        let (ours, known) = (schema::COMPONENT, &schema::POSTGRES);
        migrate::postgres::migrate(&mut client, ours, known).await.unwrap();
        let db = postgres.url().parse().unwrap();
        Self::on(Database::Postgres(Box::new(postgres)), db).await
    }

    pub async fn on_sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("tenure.db");
        let mut file = sqlite::open(&data, secs(10)).unwrap();
        let (engine, known) = (tenure::schema::COMPONENT, &tenure::schema::SQLITE);
        migrate::sqlite::migrate(&mut file, engine, known).unwrap();
        let (ours, known) = (schema::COMPONENT, &schema::SQLITE);
        migrate::sqlite::migrate(&mut file, ours, known).unwrap();
        Self::on(Database::Sqlite(folder), DatabaseUrl::Sqlite(data)).await
    }

    pub async fn on_sqlserver() -> Self {
        let components: [(_, &[_]); 2] = [
            (tenure::schema::COMPONENT, &tenure::schema::SQLSERVER),
            (schema::COMPONENT, &schema::SQLSERVER),
        ];
        let database = sqlserver::Database::with(&components).await.unwrap();
        let db = DatabaseUrl::SqlServer(Box::new(database.url().clone()));
        Self::on(Database::SqlServer(Box::new(database)), db).await
    }

    async fn on(database: Database, db: DatabaseUrl) -> Self {
        let (gateway, started) = (Gateway::start().await, AtomicUsize::new(0));
        Self { database, db, gateway, started, looking: OnceLock::new() }
    }

    pub fn registry(&self) -> Registry {
        Self::registry_of(&self.gateway)
    }

    pub fn registry_of(gateway: &Gateway) -> Registry {
        let gateway = &gateway.url;
        let target = |name: &str, policy: &str| {
            format!(
                r#"{{"submissionTarget": "{name}", "gatewayType": "sms", "gatewayUrl": "{gateway}",
                     "terminalOutcomes": ["invalid_recipient"], {policy}}}"#
            )
        };
        let targets = [
            target("three", r#""policy": "max_attempts", "maxAttempts": 3"#),
            target("once", r#""policy": "one_shot""#),
            target("minute", r#""policy": "deadline", "maxAcceptanceSeconds": 60"#),
            target(
                "told",
                &format!(r#""policy": "one_shot", "webhook": {{"url": "{gateway}/told"}}"#),
            ),
        ];
        let targets = targets.join(",");
        let registry = format!(r#"{{"allowUnsignedWebhooks": true, "targets": [{targets}]}}"#);
        Registry::parse(&registry).unwrap()
    }

    pub fn store(&self) -> Arc<dyn Store> {
        database::store(&self.db, secs(10)).unwrap()
    }

    fn looking(&self) -> &dyn Store {
        &**self.looking.get_or_init(|| self.store())
    }

    pub fn timing() -> Timing {
        Timing::lease(secs(3)).drain_grace(secs(2)).build().unwrap()
    }

    pub fn contender(&self) -> Builder {
        self.contender_for(LEASE_NAME, Self::timing())
    }

    pub fn contender_for(&self, scope: &str, timing: Timing) -> Builder {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let holder = HolderId::new(format!("sm-{number}")).unwrap();
        let candidate = Candidate::new(Scope::new(scope).unwrap(), holder);
        database::contender(&self.db, candidate, timing).unwrap()
    }

    pub fn behaviour() -> Behaviour {
        Behaviour {
            refresh_interval: Duration::from_millis(200),
            retry_after: jiff::SignedDuration::from_millis(50),
            gateway_timeout: Duration::from_millis(500),
            record_within: Duration::from_millis(500),
            ..Behaviour::default()
        }
    }

    pub fn instance(&self) -> Instance {
        self.instance_that(Self::behaviour())
    }

    pub fn instance_that(&self, behaviour: Behaviour) -> Instance {
        self.instance_on(self.store(), behaviour)
    }

    pub fn instance_on(&self, store: Arc<dyn Store>, behaviour: Behaviour) -> Instance {
        self.instance_of(self.registry(), store, behaviour)
    }

    pub fn instance_of(
        &self,
        registry: Registry,
        store: Arc<dyn Store>,
        behaviour: Behaviour,
    ) -> Instance {
        let builder = self.contender();
        let counted = &mut MetricsRegistry::default();
        Instance::start(builder, registry, store, behaviour, counted).unwrap()
    }

    fn lock_and_fence(
        &self,
        candidate: Candidate,
        timing: Timing,
    ) -> (Box<dyn Lock>, Box<dyn Fence>) {
        match &self.db {
            DatabaseUrl::Postgres(url) => {
                let (table, url) = (LeaseTable::named(LEASES).unwrap(), (**url).clone());
                let lock = PostgresLease::new(url.clone(), table, candidate, timing).unwrap();
                (Box::new(lock), Box::new(PostgresFence::new(url, timing)))
            }
            DatabaseUrl::Sqlite(data) => {
                let lock = SqliteLease::new(data, candidate, timing).unwrap();
                (Box::new(lock), Box::new(SqliteFence::new(data, timing).unwrap()))
            }
            DatabaseUrl::SqlServer(url) => {
                let (table, url) =
                    (sqlserver_lease::LeaseTable::named(LEASES).unwrap(), (**url).clone());
                let lock = SqlServerLease::new(url.clone(), table, candidate, timing).unwrap();
                (Box::new(lock), Box::new(SqlServerFence::new(url, timing)))
            }
        }
    }

    /// The lease, whoever has it, has run out.
    pub async fn expire(&self) {
        let expire = |table: &str, now: &str| {
            format!("UPDATE {table} SET expires_at = {now} WHERE lease_name = '{LEASE_NAME}'")
        };
        match (&self.database, &self.db) {
            (Database::Postgres(postgres), _) => {
                let client = postgres.connect().await.unwrap();
                client.execute(&expire(LEASES, "clock_timestamp()"), &[]).await.unwrap();
            }
            (Database::SqlServer(database), _) => {
                let expire = expire(&format!("dbo.{LEASES}"), "SYSUTCDATETIME()");
                database.session().await.unwrap().run(&expire).await.unwrap();
            }
            (_, DatabaseUrl::Sqlite(data)) => {
                let leases = LeaseFile::beside(data).open(secs(10)).unwrap();
                leases.execute(&expire("tenure_leases", "boottime_ms()"), []).unwrap();
            }
            _ => unreachable!(),
        }
    }

    /// Somebody takes the lease away, raises the fence, and is never heard of again.
    pub async fn usurp(&self, lease: Duration) -> Term {
        let candidate = Candidate::new(Scope::new(LEASE_NAME).unwrap(), HolderId::fresh());
        let timing = Timing::lease(lease).build().unwrap();
        let (scope, holder) = (candidate.scope.clone(), candidate.holder.clone());
        let (mut lock, fence) = self.lock_and_fence(candidate, timing);
        let place = lock.place();
        let lock = tokio::sync::Mutex::new(&mut lock);
        let epoch = eventually("the lease is free", secs(10), async || {
            self.expire().await;
            match lock.lock().await.acquire(Epoch::ZERO).await.unwrap() {
                Acquire::Granted(grant) => Some(grant.epoch),
                Acquire::Held(_) => None,
            }
        })
        .await;
        let term = Term::granted(scope, holder, epoch);
        assert_eq!(fence.raise(&term, &place).await.unwrap(), Raised::Raised);
        term
    }

    /// Stores an intent, without any instance.
    pub async fn stored(&self, id: &str, target: &str) -> Row {
        let submission = submission(&self.registry(), id, target);
        match self.looking().submit(&[submission]).await.unwrap().remove(0) {
            Submitted::New(stored) => stored.row,
            other => panic!("{other:?}"),
        }
    }

    /// An intent that this term has ended, and whose webhook nobody has sent.
    pub async fn untold(&self, term: &Term, id: &str) {
        let row = self.stored(id, "told").await;
        let reserved = self.looking().reserve(term, &[row], OneShot::Repeat).await.unwrap();
        let [Reserve::Ready(reservation)] = &reserved[..] else { panic!("{reserved:?}") };
        let finished = Finished {
            row,
            number: reservation.number,
            started_at: reservation.started_at,
            finished_at: reservation.started_at,
            outcome: Outcome::Accepted { reason: None },
            next: Next::Accepted,
            key_number: reservation.key_number(),
            held_key: None,
        };
        assert_eq!(self.looking().record(term, &[finished]).await.unwrap().len(), 1);
    }

    /// Somebody leads, takes an intent for an attempt, and is never heard of again.
    pub async fn dead_leader(&self, row: Row) -> Epoch {
        let term = self.usurp(secs(3)).await;
        let reserved =
            self.store().reserve(&term, &[row], OneShot::Repeat).await.unwrap().remove(0);
        assert!(matches!(reserved, Reserve::Ready(_)), "{reserved:?}");
        term.epoch()
    }

    /// Waits until the intent is terminal, however that came about.
    pub async fn ends(&self, id: &str) -> IntentView {
        let store = self.looking();
        eventually(&format!("{id} ends"), secs(30), async || {
            let found = store.find(&[id]).await.unwrap().pop()?.view;
            (found.status != Status::Pending).then_some(found)
        })
        .await
    }

    pub async fn attempts(&self, id: &str) -> Vec<AttemptView> {
        self.looking().attempts(id).await.unwrap()
    }
}

/// Submits many at once, numbered from 0 on.
pub async fn submit_many(instance: &Instance, count: usize, target: &str) {
    let one = async |number: usize| submit(instance, &number.to_string(), target).await;
    join_all((0..count).map(one)).await;
}

/// Submits through an instance.
pub async fn submit(instance: &Instance, id: &str, target: &str) -> Submitted {
    instance.intake.submit(submission(&instance.registry, id, target)).await.unwrap()
}

fn submission(registry: &Registry, id: &str, target: &str) -> Submission {
    let payload = format!("{{\"id\":\"{id}\"}}");
    Submission {
        intent_id: id.to_owned(),
        submission_target: target.to_owned(),
        payload_hash: Sha256::digest(&payload).into(),
        payload: payload.into(),
        contract: registry.contract(target).unwrap(),
    }
}

/// Waits until one of them leads; which, and in which term.
pub async fn leads(instances: &[&Instance]) -> (usize, Epoch) {
    eventually("one of them leads", secs(20), async || {
        instances.iter().enumerate().find_map(|(at, instance)| {
            let leadership = instance.election().leadership().borrow().clone();
            let term = leadership.term.filter(|_| leadership.role == Role::Leader)?;
            Some((at, term.epoch()))
        })
    })
    .await
}
