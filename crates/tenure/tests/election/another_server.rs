//! A lock on a server that may know less than was granted, or whose clock was set.
//!
//! A failover may have lost the last renewals, or a whole term: whoever wins under another identity sits a whole
//! lease out, and nobody can shorten that. A clock that was set makes nobody act too early, and nobody wait for ever.

use std::time::Duration;

use tenure::{
    Candidate, Election, Epoch, HolderId, Role, Scope, Takeover, Timing,
    elector::{Renewal, Shown},
    lock::{
        Acquire, Grant, Holding, Lock, Renew,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_testkit::{
    eventually, eventually_true,
    log::Log,
    millis,
    postgres::{Postgres, Stop},
    proxy::Proxy,
    secs,
};
use tokio::sync::Mutex;

use crate::scene::becomes;

const LEASE: Duration = secs(20);
const RAISED: &str =
    "SELECT tenure_raise_fence('jobs', 'two', 2, 'postgres-lease', 'tenure_leases', 2000)";

async fn server() -> Postgres {
    let postgres = Postgres::with_settable_clock().await.unwrap();
    let mut client = postgres.connect().await.unwrap();
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await.unwrap();
    postgres
}

fn candidate(holder: &str) -> Candidate {
    Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap())
}

fn lease(postgres: &Postgres, holder: &str) -> PostgresLease {
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let timing = Timing::lease(LEASE).build().unwrap();
    PostgresLease::new(url, LeaseTable::default(), candidate(holder), timing).unwrap()
}

fn advisory(postgres: &Postgres, holder: &str, takeover: Takeover) -> PostgresAdvisory {
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let timing = Timing::heartbeat(secs(3), secs(6)).takeover(takeover).build().unwrap();
    PostgresAdvisory::new(AdvisorySettings::at(url), candidate(holder), timing).unwrap()
}

async fn granted(lock: &mut dyn Lock) -> Grant {
    match lock.acquire(Epoch::ZERO).await.unwrap() {
        Acquire::Granted(grant) => grant,
        Acquire::Held(held) => panic!("held: {held:?}"),
    }
}

fn held(answer: Acquire) -> Holding {
    match answer {
        Acquire::Held(held) => held,
        Acquire::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

/// Changes what the locks have stored.
async fn write(postgres: &Postgres, sql: &str) {
    postgres.connect().await.unwrap().batch_execute(sql).await.unwrap();
}

/// As a standby has it that was promoted: what is stored was written by another server.
async fn fail_over(postgres: &Postgres) {
    write(
        postgres,
        "UPDATE tenure_leases SET server = '7:00000001'; UPDATE msp_leader_state SET server = '7:00000001'",
    )
    .await;
}

/// Most of a lease, less what the calls took.
fn is_most_of(wait: Duration, whole: Duration) -> bool {
    wait > whole / 2 && wait <= whole
}

/// Its holder may act until the next renewal tells it.
#[tokio::test]
async fn a_lease_whose_row_was_deleted_is_sat_out_where_terms_are_known() {
    let postgres = server().await;
    let first = granted(&mut lease(&postgres, "one")).await;
    write(&postgres, "DELETE FROM tenure_leases").await;
    let mut two = lease(&postgres, "two");
    let second = match two.acquire(first.epoch).await.unwrap() {
        Acquire::Granted(grant) => grant,
        Acquire::Held(held) => panic!("held: {held:?}"),
    };
    assert!(is_most_of(second.settle, LEASE), "known to the candidate: {:?}", second.settle);

    let raised = format!("DELETE FROM tenure_leases; {RAISED}");
    write(&postgres, &raised).await;
    let third = granted(&mut lease(&postgres, "three")).await;
    assert!(is_most_of(third.settle, LEASE), "known to the fence: {:?}", third.settle);
    assert!(third.epoch > second.epoch);
}

#[tokio::test]
async fn a_lease_of_another_server_is_sat_out_even_where_it_was_released() {
    let postgres = server().await;
    let first = granted(&mut lease(&postgres, "one")).await;
    assert_eq!(first.settle, Duration::ZERO, "nobody was before");
    lease(&postgres, "one").release(first.epoch).await.unwrap();
    fail_over(&postgres).await;

    let mut two = lease(&postgres, "two");
    let second = granted(&mut two).await;
    assert!(is_most_of(second.settle, LEASE), "{:?}", second.settle);
    // Whoever comes after a winner that gave up early has the rest of it to sit out.
    two.release(second.epoch).await.unwrap();
    let third = granted(&mut lease(&postgres, "three")).await;
    assert!(is_most_of(third.settle, LEASE), "{:?}", third.settle);
    write(&postgres, "UPDATE tenure_leases SET unknown_until = clock_timestamp()").await;
    lease(&postgres, "three").release(third.epoch).await.unwrap();
    assert_eq!(granted(&mut lease(&postgres, "four")).await.settle, Duration::ZERO, "it is over");
}

#[tokio::test]
async fn a_renewal_does_not_make_a_lease_the_new_servers_own() {
    let postgres = server().await;
    let mut one = lease(&postgres, "one");
    let first = granted(&mut one).await;
    fail_over(&postgres).await;
    assert!(matches!(one.renew(first.epoch).await.unwrap(), Renew::Renewed { .. }));
    one.release(first.epoch).await.unwrap();
    let second = granted(&mut lease(&postgres, "two")).await;
    assert!(is_most_of(second.settle, LEASE), "{:?}", second.settle);
}

#[tokio::test]
async fn a_term_of_another_server_is_sat_out_where_a_session_decides() {
    let whole = secs(6) + millis(1_200);
    for takeover in [Takeover::Wait, Takeover::Immediate] {
        let postgres = server().await;
        let mut one = advisory(&postgres, "one", takeover);
        let first = granted(&mut one).await;
        assert_eq!(first.settle, Duration::ZERO);
        one.release(first.epoch).await.unwrap();
        fail_over(&postgres).await;

        let mut two = advisory(&postgres, "two", takeover);
        let second = granted(&mut two).await;
        assert!(is_most_of(second.settle, whole), "{takeover:?}: {:?}", second.settle);
        two.release(second.epoch).await.unwrap();
        let third = granted(&mut advisory(&postgres, "three", takeover)).await;
        assert!(is_most_of(third.settle, whole), "{takeover:?}: {:?}", third.settle);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_the_place_of_another_is_told_in_the_log() {
    let (log, primary) = (Log::kept(), server().await);
    let standby = primary.replica().await.unwrap();
    let proxy = Proxy::to(primary.addr()).await.unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port()).parse().unwrap();
    let timing = Timing::lease(secs(60)).renew_interval(millis(300)).build().unwrap();
    let who = candidate("told-of-servers");
    let lock = PostgresLease::new(url, LeaseTable::default(), who.clone(), timing).unwrap();
    let election = Election::builder(who, timing, lock).start().unwrap();
    becomes(&election, Role::Leader).await;
    let told = || {
        let all = log.events("leader_server_changed").into_iter();
        all.filter(|fields| fields["holder_id"] == "told-of-servers").collect::<Vec<_>>()
    };
    assert!(told().is_empty());
    primary.stop(Stop::Immediate).await.unwrap();
    standby.promote().await.unwrap();
    proxy.redirect(standby.addr());
    eventually_true("it is told", secs(20), async || !told().is_empty()).await;
    let server = told()[0]["server"].as_str().unwrap().to_owned();
    assert!(server.ends_with(":00000002"), "{server}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_with_another_lease_than_ours_is_told_once_in_the_log() {
    let (log, postgres) = (Log::kept(), server().await);
    let leads = granted(&mut lease(&postgres, "one")).await;
    for (holder, lease) in [("shorter", secs(5)), ("same", LEASE)] {
        let timing = Timing::lease(lease).acquire_interval(millis(100)).build().unwrap();
        let (url, who) = (postgres.url().parse().unwrap(), candidate(holder));
        let lock = PostgresLease::new(url, LeaseTable::default(), who.clone(), timing).unwrap();
        let election = Election::builder(who, timing, lock).start().unwrap();
        let looks = async || election.leadership().borrow().leader.is_some();
        eventually_true("it has looked", secs(10), looks).await;
    }
    let told = log.events("leader_lease_differs");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["holder_id"], &told[0]["epoch"]),
        (&"shorter".into(), &leads.epoch.get().into())
    );
    assert_eq!((&told[0]["theirs_ms"], &told[0]["ours_ms"]), (&20_000.into(), &5_000.into()));
}

/// It may lack a term that was granted before: nobody here knows.
#[tokio::test]
async fn the_first_term_on_a_server_that_was_promoted_is_sat_out_too() {
    let primary = server().await;
    let promoted = primary.replica().await.unwrap();
    promoted.promote().await.unwrap();
    let leased = granted(&mut lease(&promoted, "one")).await.settle;
    assert!(is_most_of(leased, LEASE), "{leased:?}");
    let locked = granted(&mut advisory(&promoted, "one", Takeover::Immediate)).await.settle;
    assert!(is_most_of(locked, secs(6) + millis(1_200)), "{locked:?}");
}

/// The stored expiry and the renewal, as the row has them.
async fn stored(postgres: &Postgres) -> (String, String) {
    let client = postgres.connect().await.unwrap();
    let sql = "SELECT expires_at::text, renewed_at::text FROM tenure_leases";
    let row = client.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_renewal_by_a_clock_that_was_set_back_proves_and_extends_nothing() {
    let postgres = server().await;
    let mut one = lease(&postgres, "one");
    let epoch = granted(&mut one).await.epoch;
    let before = stored(&postgres).await;
    postgres.step_clock(-10).unwrap();
    let renewed = one.renew(epoch).await.unwrap();
    assert!(matches!(renewed, Renew::Renewed { extends: false, .. }), "{renewed:?}");
    assert_eq!(stored(&postgres).await, before, "an expiry never moves back while its term lives");

    postgres.step_clock(10).unwrap();
    let renewed = one.renew(epoch).await.unwrap();
    assert!(matches!(renewed, Renew::Renewed { extends: true, .. }), "{renewed:?}");
    assert_ne!(stored(&postgres).await, before);
}

#[tokio::test]
async fn a_heartbeat_by_a_clock_that_was_set_back_proves_and_extends_nothing() {
    let postgres = server().await;
    let mut one = advisory(&postgres, "one", Takeover::Wait);
    let epoch = granted(&mut one).await.epoch;
    let beat = async || {
        let client = postgres.connect().await.unwrap();
        let sql = "SELECT last_heartbeat::text FROM msp_leader_state";
        client.query_one(sql, &[]).await.unwrap().get::<_, String>(0)
    };
    let before = beat().await;
    postgres.step_clock(-10).unwrap();
    let renewed = one.renew(epoch).await.unwrap();
    assert!(matches!(renewed, Renew::Renewed { extends: false, .. }), "{renewed:?}");
    assert_eq!(beat().await, before);
    postgres.step_clock(10).unwrap();
    let renewed = one.renew(epoch).await.unwrap();
    assert!(matches!(renewed, Renew::Renewed { extends: true, .. }), "{renewed:?}");
}

#[tokio::test]
async fn a_lease_that_is_overdue_is_taken_however_far_its_expiry_lies() {
    let postgres = server().await;
    let mut one = lease(&postgres, "one");
    let first = granted(&mut one).await;
    postgres.step_clock(-3_600).unwrap();
    let mut two = lease(&postgres, "two");
    let seen = held(two.acquire(Epoch::ZERO).await.unwrap());
    assert!(seen.left.unwrap() > secs(3_600), "{seen:?}");
    let Shown { renewal, lasts } = seen.shown.unwrap();
    assert_eq!((renewal.epoch, lasts), (first.epoch, LEASE), "as long as it was granted for");

    for other in [
        Renewal { mark: renewal.mark + 1, ..renewal },
        Renewal { epoch: renewal.epoch.next(), ..renewal },
    ] {
        held(two.acquire_overdue(Epoch::ZERO, other).await.unwrap());
    }
    let taken = two.acquire_overdue(Epoch::ZERO, renewal).await.unwrap();
    assert!(matches!(taken, Acquire::Granted(grant) if grant.epoch > first.epoch));
    assert_eq!(one.renew(first.epoch).await.unwrap(), Renew::Lost);
}

#[tokio::test]
async fn a_lease_that_was_renewed_meanwhile_is_not_overdue() {
    let postgres = server().await;
    let mut one = lease(&postgres, "one");
    let epoch = granted(&mut one).await.epoch;
    let mut two = lease(&postgres, "two");
    let seen = held(two.acquire(Epoch::ZERO).await.unwrap()).shown.unwrap().renewal;
    assert!(matches!(one.renew(epoch).await.unwrap(), Renew::Renewed { extends: true, .. }));
    held(two.acquire_overdue(Epoch::ZERO, seen).await.unwrap());
}

/// It looks overdue when it is asked for, and its row says otherwise by the time that it is locked.
#[tokio::test]
async fn a_lease_that_is_renewed_while_it_is_taken_as_overdue_stays() {
    let postgres = server().await;
    let mut one = lease(&postgres, "one");
    let epoch = granted(&mut one).await.epoch;
    let mut two = lease(&postgres, "two");
    let seen = held(two.acquire(Epoch::ZERO).await.unwrap()).shown.unwrap().renewal;
    let renewing = postgres.connect().await.unwrap();
    let renew = "BEGIN; UPDATE tenure_leases SET renewed_at = clock_timestamp()";
    renewing.batch_execute(renew).await.unwrap();
    let client = postgres.connect().await.unwrap();
    let renewed = async {
        eventually_true("the taker waits", secs(10), async || {
            let waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            !client.query(waiting, &[]).await.unwrap().is_empty()
        })
        .await;
        renewing.batch_execute("COMMIT").await.unwrap();
    };
    let (answer, ()) = tokio::join!(two.acquire_overdue(Epoch::ZERO, seen), renewed);
    assert_eq!(held(answer.unwrap()).epoch, epoch);
}

#[tokio::test]
async fn no_clock_makes_a_winner_sit_out_more_than_a_late_threshold_and_a_margin() {
    let postgres = server().await;
    let first = granted(&mut advisory(&postgres, "one", Takeover::Wait)).await.epoch;
    // Its session is gone with it, and nothing was given back.
    postgres.step_clock(-3_600).unwrap();
    let two = advisory(&postgres, "two", Takeover::Wait);
    // The server needs a moment to notice that the first one's session is gone.
    let two = Mutex::new(two);
    let second = eventually("the second wins", secs(10), async || {
        match two.lock().await.acquire(Epoch::ZERO).await.unwrap() {
            Acquire::Granted(grant) => Some(grant),
            Acquire::Held(_) => None,
        }
    })
    .await;
    assert!(second.epoch > first);
    assert!(is_most_of(second.settle, secs(6) + millis(1_200)), "{:?}", second.settle);
}
