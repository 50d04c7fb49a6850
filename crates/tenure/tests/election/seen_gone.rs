//! A successor on the same host that can see whether whoever acted before it is gone.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use tenure::{
    Candidate, Epoch, HolderId, Scope, Takeover, Timing,
    lock::{
        Acquire, Grant, Lock, Processes,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
    },
    schema,
};
use tenure_database::migrate;
use tenure_testkit::{postgres::Postgres, secs};

struct Scene {
    postgres: Postgres,
    client: tokio_postgres::Client,
}

/// Somebody who acts, until it is killed.
struct Actor(Child);

impl Actor {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scene {
    async fn new() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let mut client = postgres.connect().await.unwrap();
        let migrated =
            migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES);
        migrated.await.unwrap();
        Self { postgres, client }
    }

    /// Wins a term in which this one acts, or in which nobody is named; and leaves without a word.
    async fn wins(&self, holder: &str, acts: Option<&Actor>) -> Grant {
        let timing = Timing::heartbeat(secs(10), secs(20)).takeover(Takeover::Wait);
        let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap());
        let processes = Processes::this().unwrap();
        if let Some(actor) = acts {
            processes.add(actor.pid()).unwrap();
            processes.remove(i32::try_from(std::process::id()).unwrap());
        }
        let settings = AdvisorySettings {
            processes: Some(processes),
            ..AdvisorySettings::at(self.postgres.url().parse().unwrap())
        };
        let mut lock = PostgresAdvisory::new(settings, candidate, timing.build().unwrap()).unwrap();
        match lock.acquire(Epoch::ZERO).await.unwrap() {
            Acquire::Granted(grant) => grant,
            Acquire::Held(held) => panic!("{held:?}"),
        }
    }
}

#[tokio::test]
async fn whoever_is_seen_gone_is_not_sat_out_and_whoever_lives_is() {
    let (scene, one) = (Scene::new().await, Actor::start());
    assert_eq!(scene.wins("one", Some(&one)).await.settle, Duration::ZERO);
    let lives = scene.wins("two", Some(&one)).await.settle;
    assert!(lives > secs(15), "the first still acts: {lives:?}");

    let (scene, one) = (Scene::new().await, Actor::start());
    assert_eq!(scene.wins("one", Some(&one)).await.settle, Duration::ZERO);
    drop(one);
    assert_eq!(scene.wins("two", None).await.settle, Duration::ZERO, "it was seen gone");
}

#[tokio::test]
async fn a_dead_predecessor_does_not_hide_a_living_one_before_it() {
    let (scene, one, two) = (Scene::new().await, Actor::start(), Actor::start());
    scene.wins("one", Some(&one)).await;
    scene.wins("two", Some(&two)).await;
    drop(two);
    let settle = scene.wins("three", None).await.settle;
    assert!(settle > secs(15), "the first may still act: {settle:?}");
}

/// A failover may have lost a later term, of which nobody here knows who acts in it.
#[tokio::test]
async fn a_term_of_another_server_is_sat_out_though_its_processes_are_gone() {
    let (scene, one) = (Scene::new().await, Actor::start());
    scene.wins("one", Some(&one)).await;
    drop(one);
    let fail_over = "UPDATE msp_leader_state SET server = '7:00000001'";
    scene.client.execute(fail_over, &[]).await.unwrap();
    let settle = scene.wins("two", None).await.settle;
    assert!(settle > secs(15), "a term that was lost may still be acted in: {settle:?}");
}

#[tokio::test]
async fn names_left_by_an_earlier_term_say_nothing_about_a_later_one() {
    let (scene, one) = (Scene::new().await, Actor::start());
    scene.wins("one", Some(&one)).await;
    drop(one);
    // As a client that knows nothing of processes takes over.
    let older = "UPDATE msp_leader_state SET epoch = epoch + 1, holder_identity = 'older', last_heartbeat = now()";
    scene.client.execute(older, &[]).await.unwrap();
    let settle = scene.wins("two", None).await.settle;
    assert!(settle > secs(15), "the older client may still act: {settle:?}");
}
