//! The advisory lock under its older names, on a real Postgres.

use tenure::{
    Candidate, Election, Epoch, HolderId, Metrics, Role, Scope, Timing,
    fence::PostgresFence,
    lock::{
        Acquire, Lock, Renew,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_testkit::{eventually, eventually_true, millis, postgres::Postgres, secs};
use tokio_postgres::Client;

use crate::scene::becomes;

async fn server(settings: &[(&str, &str)]) -> Postgres {
    let postgres = Postgres::with(settings).await.unwrap();
    let mut client = postgres.connect().await.unwrap();
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await.unwrap();
    postgres
}

fn heartbeat() -> Timing {
    Timing::heartbeat(millis(700), millis(1_400)).build().unwrap()
}

fn candidate(holder: &str) -> Candidate {
    Candidate::new(Scope::of_provider("testnet", "alice").unwrap(), HolderId::new(holder).unwrap())
}

fn advisory(url: &str, holder: &str, timing: Timing) -> Election {
    let url: PostgresUrl = url.parse().unwrap();
    let lock = PostgresAdvisory::new(AdvisorySettings::at(url.clone()), candidate(holder), timing);
    Election::builder(candidate(holder), timing, lock.unwrap())
        .fence(PostgresFence::new(url, timing))
        .start()
        .unwrap()
}

/// Seed 002, unit: "Lock acquisition logic."
#[tokio::test(flavor = "multi_thread")]
async fn lock_acquisition_logic() {
    let postgres = server(&[]).await;
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let settings = AdvisorySettings::at(url);
    let mut lock = PostgresAdvisory::new(settings, candidate("one"), heartbeat()).unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    assert_eq!(grant.epoch, Epoch::new(1));
    assert!(matches!(lock.renew(grant.epoch).await.unwrap(), Renew::Renewed { .. }));
    let client = postgres.connect().await.unwrap();
    let row = client
        .query_one("SELECT holder_identity, epoch, scope FROM msp_leader_state WHERE id = 1", &[])
        .await
        .unwrap();
    assert_eq!((row.get("holder_identity"), row.get("epoch")), ("one", 1_i64));
    assert_eq!(row.get::<_, &str>("scope"), "storagehub:testnet:alice:msp-leader");
    let key: i64 =
        client.query_one("SELECT scope_key FROM msp_leader_state", &[]).await.unwrap().get(0);
    assert_eq!(key, candidate("one").scope.key());
}

/// A heartbeat proves the lock itself, and on the session that holds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_of_a_session_without_the_lock_proves_nothing() {
    let postgres = server(&[]).await;
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let mut lock =
        PostgresAdvisory::new(AdvisorySettings::at(url), candidate("one"), heartbeat()).unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    let other = postgres.connect().await.unwrap();
    let statement = include_str!("../../sql/postgres/advisory/heartbeat.sql");
    let key = candidate("one").scope.key();
    let proof = async || other.query(statement, &[&key, &"one", &grant.epoch.get()]).await.unwrap();
    assert!(proof().await.is_empty(), "the right holder and epoch, without the lock");
    drop(lock);
    eventually_true("the lock is free", secs(10), async || {
        let got = other.query_one("SELECT pg_try_advisory_lock($1)", &[&key]).await.unwrap();
        got.get::<_, bool>(0)
    })
    .await;
    assert_eq!(proof().await.len(), 1, "the same statement, with the lock");
}

/// Where acquire waits, the local deadline counts from the statement that proves the term.
#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_lock_that_was_waited_for_counts_from_after_the_wait() {
    let postgres = server(&[]).await;
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let lock = |holder: &str| {
        let settings = AdvisorySettings::at(url.clone());
        PostgresAdvisory::new(settings, candidate(holder), heartbeat()).unwrap()
    };
    let (mut one, mut two) = (lock("one"), lock("two"));
    let Acquire::Granted(first) = one.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    // A new session does not wait: so a node that starts beside a leader knows of it at once.
    let Acquire::Held(seen) = two.acquire(Epoch::ZERO).await.unwrap() else { panic!("granted") };
    assert_eq!((seen.holder.as_str(), seen.epoch), ("one", first.epoch));
    let client = postgres.connect().await.unwrap();
    let release = async {
        eventually_true("the second waits", secs(10), async || {
            let waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            !client.query(waiting, &[]).await.unwrap().is_empty()
        })
        .await;
        let before = tenure::BootInstant::now();
        one.release(first.epoch).await.unwrap();
        before
    };
    let (answer, before_release) = tokio::join!(two.acquire(Epoch::ZERO), release);
    let Acquire::Granted(second) = answer.unwrap() else { panic!("held") };
    assert!(second.sent_at > before_release, "the wait must not count");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_of_an_epoch_that_has_passed_is_a_loss() {
    let postgres = server(&[]).await;
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let mut lock =
        PostgresAdvisory::new(AdvisorySettings::at(url), candidate("one"), heartbeat()).unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    let client = postgres.connect().await.unwrap();
    client.execute("UPDATE msp_leader_state SET epoch = epoch + 1", &[]).await.unwrap();
    assert_eq!(lock.renew(grant.epoch).await.unwrap(), Renew::Lost);
}

/// What the server does when the lock comes at the moment in which a wait for it times out: the wait fails with
/// 55P03, and the session has the lock all the same. Measured in one of six waits that end within a millisecond
/// of the unlock; here in every wait for as long as the table holds a row.
const UNLUCKY_WAITS: &str = "
    CREATE TABLE unlucky_waits (since timestamptz NOT NULL DEFAULT now());
    CREATE FUNCTION public.pg_advisory_lock(key bigint) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_advisory_lock(key);
        IF EXISTS (SELECT FROM public.unlucky_waits) THEN
            RAISE lock_not_available;
        END IF;
    END $$;
    ALTER ROLE postgres SET search_path = public, pg_catalog";

/// The session that has the lock, if one has.
async fn session_with_the_lock(client: &Client) -> Option<i32> {
    let holding = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted";
    client.query_opt(holding, &[]).await.unwrap().map(|row| row.get(0))
}

/// `waiter` waits for the lock until `holder` gives it back, and its wait fails; the session that it left the
/// lock with.
async fn waits_in_vain(
    client: &Client,
    waiter: &mut PostgresAdvisory,
    holder: &mut PostgresAdvisory,
    epoch: Epoch,
) -> i32 {
    let looked = waiter.acquire(Epoch::ZERO).await.unwrap();
    assert!(matches!(looked, Acquire::Held(_)), "{looked:?}");
    client.execute("INSERT INTO unlucky_waits DEFAULT VALUES", &[]).await.unwrap();
    let release = async {
        eventually_true("somebody waits", secs(10), async || {
            let waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            !client.query(waiting, &[]).await.unwrap().is_empty()
        })
        .await;
        holder.release(epoch).await.unwrap();
    };
    let (waited, ()) = tokio::join!(waiter.acquire(Epoch::ZERO), release);
    assert!(matches!(waited, Ok(Acquire::Held(_))), "a failed wait is no grant: {waited:?}");
    client.execute("DELETE FROM unlucky_waits", &[]).await.unwrap();
    session_with_the_lock(client).await.expect("the failed wait has left the lock")
}

/// Whoever asks again does so on the session that waited, and has the lock at once; whoever stops waiting closes
/// that session.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_left_by_a_failed_wait_is_found_again_and_freed_by_whoever_stops_waiting() {
    let postgres = server(&[]).await;
    let client = postgres.connect().await.unwrap();
    client.batch_execute(UNLUCKY_WAITS).await.unwrap();
    let timing = Timing::heartbeat(secs(20), secs(40)).call_timeout(secs(10)).build().unwrap();
    let lock = |holder: &str| {
        let settings = AdvisorySettings::at(postgres.url().parse().unwrap());
        PostgresAdvisory::new(settings, candidate(holder), timing).unwrap()
    };
    let (mut one, mut two) = (lock("one"), lock("two"));
    let Acquire::Granted(first) = one.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };

    let left_with = waits_in_vain(&client, &mut two, &mut one, first.epoch).await;
    let Acquire::Granted(second) = two.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    assert_eq!(second.epoch, first.epoch.next());
    assert_eq!(
        session_with_the_lock(&client).await,
        Some(left_with),
        "found again, not taken anew"
    );
    // It was taken twice, and once is enough to give it back.
    drop(second.hold);
    two.release(second.epoch).await.unwrap();
    let Acquire::Granted(third) = one.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };

    waits_in_vain(&client, &mut two, &mut one, third.epoch).await;
    let _seen = two.observe().await.unwrap();
    eventually_true("the lock is free", secs(10), async || {
        session_with_the_lock(&client).await.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_waiter_leaves_no_session_that_could_hold_the_lock() {
    let postgres = server(&[]).await;
    let one = advisory(&postgres.url(), "one", heartbeat());
    becomes(&one, Role::Leader).await;
    let two = advisory(&postgres.url(), "two", heartbeat());
    let client = postgres.connect().await.unwrap();
    let waiter: i32 = eventually("the second waits", secs(10), async || {
        let waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        client.query_opt(waiting, &[]).await.unwrap().map(|row| row.get(0))
    })
    .await;
    two.drain();
    eventually_true("the session that waited is gone", secs(3), async || {
        let alive = "SELECT FROM pg_stat_activity WHERE pid = $1";
        client.query(alive, &[&waiter]).await.unwrap().is_empty()
    })
    .await;
}
#[tokio::test(flavor = "multi_thread")]
async fn a_session_timeout_that_would_free_the_lock_under_an_open_gate_is_refused_by_name() {
    let url: PostgresUrl = "postgres://nobody@127.0.0.1:1/none".parse().unwrap();
    let settings =
        AdvisorySettings { session_silence: Some(millis(1_500)), ..AdvisorySettings::at(url) };
    let refused = PostgresAdvisory::new(settings, candidate("one"), heartbeat()).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("idle_session_timeout 1.5s must be above the late threshold 1.4s"),
        "{refused}"
    );
}

/// With `--takeover wait` a winner sits out the gate of a predecessor that did not release.
#[tokio::test(flavor = "multi_thread")]
async fn a_winner_that_waits_sits_out_a_predecessor_that_did_not_release() {
    let postgres = server(&[]).await;
    let waits = Timing::heartbeat(millis(700), millis(1_400))
        .takeover(tenure::Takeover::Wait)
        .build()
        .unwrap();
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let lock = |holder: &str| {
        PostgresAdvisory::new(AdvisorySettings::at(url.clone()), candidate(holder), waits).unwrap()
    };
    let (mut one, mut two) = (lock("one"), lock("two"));
    let Acquire::Granted(first) = one.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    assert_eq!(first.settle, millis(0), "nobody was there before");
    drop((one, first));
    let two = tokio::sync::Mutex::new(&mut two);
    let second = eventually("the second wins", secs(10), async || {
        match two.lock().await.acquire(Epoch::ZERO).await.unwrap() {
            Acquire::Granted(grant) => Some(grant),
            Acquire::Held(_) => None,
        }
    })
    .await;
    assert!(second.settle > millis(1_000), "{:?}", second.settle);
    two.lock().await.release(second.epoch).await.unwrap();
    let mut three = lock("three");
    let Acquire::Granted(third) = three.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    assert!(
        third.settle > millis(500),
        "a release must not shorten the wait for the term before it"
    );
}

/// Whoever has the connection keeps the lock, also when the process that won it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_not_freed_while_somebody_holds_its_connection() {
    let postgres = server(&[]).await;
    let probe = postgres.connect().await.unwrap();
    let settings = AdvisorySettings::at(postgres.url().parse().unwrap());
    let mut lock = PostgresAdvisory::new(settings, candidate("one"), heartbeat()).unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    let hold = grant.hold.expect("this lock lives on a connection");
    drop(lock);
    let is_held = async || {
        let held = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted";
        !probe.query(held, &[]).await.unwrap().is_empty()
    };
    // A round trip of another session: whatever the end of the first would have freed is free by now.
    postgres.connect().await.unwrap().batch_execute("SELECT pg_sleep(0.2)").await.unwrap();
    assert!(is_held().await);
    drop(hold);
    eventually_true("the lock is free", secs(10), async || !is_held().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_only_the_documented_rights_runs_elections_on_both_locks() {
    let postgres = server(&[]).await;
    let client = postgres.connect().await.unwrap();
    client.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    client.batch_execute(&schema::grants_to("app")).await.unwrap();
    let url = postgres.url_as("app", "postgres");
    let one = advisory(&url, "one", heartbeat());
    becomes(&one, Role::Leader).await;
    one.stop().await.unwrap();

    let timing = Timing::lease(millis(1_500)).build().unwrap();
    let place: PostgresUrl = url.parse().unwrap();
    let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::fresh());
    let lock = PostgresLease::new(place.clone(), LeaseTable::default(), candidate.clone(), timing);
    let metrics = Metrics::default();
    let two = Election::builder(candidate, timing, lock.unwrap())
        .fence(PostgresFence::new(place, timing))
        .metrics(&metrics)
        .start()
        .unwrap();
    let epoch = becomes(&two, Role::Leader).await.unwrap();
    let ends: i64 = {
        two.stop().await.unwrap();
        let ended =
            "SELECT count(*) FROM tenure_terms WHERE scope = 'jobs' AND ended_at IS NOT NULL";
        client.query_one(ended, &[]).await.unwrap().get(0)
    };
    assert_eq!((epoch, ends), (Epoch::new(1), 1));
}

/// Lesson 13: an epoch that was handed out survives a crash, whatever the role has set.
#[tokio::test(flavor = "multi_thread")]
async fn a_win_is_durable_even_where_the_server_commits_asynchronously() {
    let postgres = server(&[("synchronous_commit", "off")]).await;
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let client = postgres.connect().await.unwrap();
    client
        .batch_execute(
            "CREATE TABLE seen (place name, setting text);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 INSERT INTO seen VALUES (TG_RELNAME, current_setting('synchronous_commit'));
                 RETURN NULL;
             END $$;
             CREATE TRIGGER note AFTER INSERT OR UPDATE ON tenure_leases
             FOR EACH ROW EXECUTE FUNCTION note();
             CREATE TRIGGER note AFTER UPDATE ON msp_leader_state
             FOR EACH ROW EXECUTE FUNCTION note();",
        )
        .await
        .unwrap();
    let timing = Timing::lease(secs(60)).build().unwrap();
    let (table, who) = (LeaseTable::default(), candidate("one"));
    let mut lease = PostgresLease::new(url.clone(), table, who.clone(), timing).unwrap();
    assert!(matches!(lease.acquire(Epoch::ZERO).await.unwrap(), Acquire::Granted(_)));
    let mut advisory = PostgresAdvisory::new(AdvisorySettings::at(url), who, heartbeat()).unwrap();
    assert!(matches!(advisory.acquire(Epoch::ZERO).await.unwrap(), Acquire::Granted(_)));
    let seen = "SELECT place::text, setting FROM seen ORDER BY place";
    let seen = client.query(seen, &[]).await.unwrap();
    let seen: Vec<(&str, &str)> = seen.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(seen, [("msp_leader_state", "on"), ("tenure_leases", "on")]);
}
