//! A database, a gateway, and instances.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use prometheus_client::registry::Registry as MetricsRegistry;
use sha2::{Digest, Sha256};
use tenure::{
    Candidate, Election, Epoch, HolderId, Role, Scope, Term, Timing,
    election::Builder,
    fence::{Fence, PostgresFence, Raised},
    lock::{
        Acquire, Lock,
        postgres_lease::{LeaseTable, PostgresLease},
    },
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_submissions::{
    instance::{Behaviour, Instance},
    intent::{AttemptView, IntentView, Status},
    registry::Registry,
    schedule::Row,
    schema,
    store::{Reserve, Store, Submission, Submitted, postgres::PostgresStore},
};
use tenure_testkit::{eventually, postgres::Postgres, secs};

use crate::gateway::Gateway;

pub const LEASE_NAME: &str = "submission-manager-executor";

pub struct Scene {
    pub postgres: Postgres,
    pub url: PostgresUrl,
    pub gateway: Gateway,
    started: AtomicUsize,
}

impl Scene {
    pub async fn new() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let mut client = postgres.connect().await.unwrap();
        let (engine, known) = (tenure::schema::COMPONENT, &tenure::schema::POSTGRES);
        migrate::postgres::migrate(&mut client, engine, known).await.unwrap();
        let (ours, known) = (schema::COMPONENT, &schema::POSTGRES);
        migrate::postgres::migrate(&mut client, ours, known).await.unwrap();
        let url = postgres.url().parse().unwrap();
        Self { postgres, url, gateway: Gateway::start().await, started: AtomicUsize::new(0) }
    }

    pub fn registry(&self) -> Registry {
        let gateway = &self.gateway.url;
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
        ];
        Registry::parse(&format!(r#"{{"targets": [{}]}}"#, targets.join(","))).unwrap()
    }

    pub fn store(&self) -> PostgresStore {
        PostgresStore::new(self.url.clone(), secs(10))
    }

    pub fn timing() -> Timing {
        Timing::lease(secs(3)).drain_grace(secs(2)).build().unwrap()
    }

    pub fn contender(&self) -> Builder {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let holder = HolderId::new(format!("sm-{number}")).unwrap();
        let candidate = Candidate::new(Scope::new(LEASE_NAME).unwrap(), holder);
        let table = LeaseTable::named("submission_manager_leases").unwrap();
        let timing = Self::timing();
        let lock = PostgresLease::new(self.url.clone(), table, candidate.clone(), timing).unwrap();
        Election::builder(candidate, timing, lock)
            .fence(PostgresFence::new(self.url.clone(), timing))
    }

    pub fn instance(&self) -> Instance {
        self.instance_that(Behaviour {
            refresh_interval: Duration::from_millis(200),
            retry_after: jiff::SignedDuration::from_millis(50),
            gateway_timeout: Duration::from_millis(500),
            record_within: Duration::from_millis(500),
            ..Behaviour::default()
        })
    }

    pub fn instance_that(&self, behaviour: Behaviour) -> Instance {
        let (builder, registry) = (self.contender(), self.registry());
        let store: Arc<dyn Store> = Arc::new(self.store());
        let counted = &mut MetricsRegistry::default();
        Instance::start(builder, registry, store, behaviour, counted).unwrap()
    }

    /// Somebody leads, takes an intent for an attempt, and is never heard of again.
    pub async fn dead_leader(&self, row: Row) -> Epoch {
        let candidate = Candidate::new(Scope::new(LEASE_NAME).unwrap(), HolderId::fresh());
        let table = LeaseTable::named("submission_manager_leases").unwrap();
        let timing = Self::timing();
        let (scope, holder) = (candidate.scope.clone(), candidate.holder.clone());
        let mut lock = PostgresLease::new(self.url.clone(), table, candidate, timing).unwrap();
        let lock = tokio::sync::Mutex::new(&mut lock);
        let epoch = eventually("the lease is free", secs(10), async || {
            match lock.lock().await.acquire(Epoch::ZERO).await.unwrap() {
                Acquire::Granted(grant) => Some(grant.epoch),
                Acquire::Held(_) => None,
            }
        })
        .await;
        let term = Term::granted(scope, holder, epoch);
        let place = lock.lock().await.place();
        let raised = PostgresFence::new(self.url.clone(), timing).raise(&term, &place).await;
        assert_eq!(raised.unwrap(), Raised::Raised);
        let reserved = self.store().reserve(&term, &[row]).await.unwrap().remove(0);
        assert!(matches!(reserved, Reserve::Ready(_)), "{reserved:?}");
        epoch
    }

    /// Waits until the intent is terminal, however that came about.
    pub async fn ends(&self, id: &str) -> IntentView {
        let store = self.store();
        eventually(&format!("{id} ends"), secs(30), async || {
            let found = store.find(&[id]).await.unwrap().pop()?.view;
            (found.status != Status::Pending).then_some(found)
        })
        .await
    }

    pub async fn attempts(&self, id: &str) -> Vec<AttemptView> {
        self.store().attempts(id).await.unwrap()
    }
}

/// Submits through an instance.
pub async fn submit(instance: &Instance, id: &str, target: &str) -> Submitted {
    let payload = format!("{{\"id\":\"{id}\"}}");
    let submission = Submission {
        intent_id: id.to_owned(),
        submission_target: target.to_owned(),
        payload_hash: Sha256::digest(&payload).into(),
        payload: payload.into(),
        contract: instance.registry.contract(target).unwrap(),
    };
    instance.intake.submit(submission).await.unwrap()
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
