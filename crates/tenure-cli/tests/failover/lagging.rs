//! A replica that lags is promoted while the old leader's program still lives.
//!
//! The old leader has renewed on the primary what the replica never heard of, and it cannot reach the replica:
//! it lives to its own deadline, rightly. Whoever reaches the replica finds there a lease that has run out.

use std::fs;

use tenure_database::BootInstant;
use tenure_testkit::{
    eventually, eventually_true, millis,
    postgres::{Postgres, Stop},
    proxy::{Direction, Proxy},
    secs,
};

use crate::{
    copies::{Copy, Scene},
    records::Records,
};

const RECORDER: &str = "exec /usr/bin/python3 -S -E recorder.py";

/// What a follower asks, which is all that it asks while another leads.
const HAS_LOOKED: &str = "SELECT FROM pg_stat_activity
    WHERE query LIKE '-- The lease as it is%' OR (wait_event_type = 'Lock' AND wait_event = 'advisory')";

/// Whether what was replicated of the old leader's term is over, by the replica's clock.
const LEASE_IS_OVER: &str =
    "SELECT coalesce(bool_and(expires_at < clock_timestamp()), false) FROM tenure_leases";
const ADVISORY_IS_OVER: &str = "SELECT coalesce(bool_and(last_heartbeat
        + (late_threshold_ms + margin_ms) * interval '1 ms' < clock_timestamp()), false)
    FROM msp_leader_state WHERE holder_identity <> ''";

/// Whether the old leader has renewed a moment ago, by the primary's clock.
const LEASE_IS_FRESH: &str = "SELECT coalesce(bool_and(renewed_at > clock_timestamp() - interval '300 ms'), false) FROM tenure_leases";
const ADVISORY_IS_FRESH: &str = "SELECT coalesce(bool_and(last_heartbeat
        > clock_timestamp() - interval '300 ms'), false)
    FROM msp_leader_state WHERE holder_identity <> ''";

/// When the other copy starts.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    /// It has followed on the old primary.
    Follows,
    /// It has never seen the old primary.
    IsNew,
}

/// A lock, and what shows on a server how old its term is.
struct Lock {
    options: &'static str,
    is_over: &'static str,
    is_fresh: &'static str,
}

const LEASE: Lock =
    Lock { options: "--lease 5s", is_over: LEASE_IS_OVER, is_fresh: LEASE_IS_FRESH };
const ADVISORY: Lock = Lock {
    options: "--lease 5s --lock advisory",
    is_over: ADVISORY_IS_OVER,
    is_fresh: ADVISORY_IS_FRESH,
};

async fn until(postgres: &Postgres, what: &str, query: &str) {
    let session = postgres.connect().await.unwrap();
    eventually_true(what, secs(30), async || {
        let asked = session.query_one(query, &[]).await;
        asked.is_ok_and(|row| row.get(0))
    })
    .await;
}

async fn until_looked(postgres: &Postgres) {
    let session = postgres.connect().await.unwrap();
    eventually_true("the other has looked", secs(30), async || {
        !session.query(HAS_LOOKED, &[]).await.unwrap().is_empty()
    })
    .await;
}

fn start(scene: &mut Scene, name: &str, hosts: [u16; 2], lock: &Lock) -> Copy {
    let [one, two] = hosts;
    scene.db = format!(
        "postgres://postgres@127.0.0.1:{one},127.0.0.1:{two}/postgres?target_session_attrs=read-write"
    );
    scene.copy(name, &format!("{} --term-grace 200ms", lock.options), RECORDER)
}

async fn the_promoted_replica_never_gives_a_second_program(lock: Lock, other: Other) {
    let primary = Postgres::start().await.unwrap();
    let mut scene = Scene::on("");
    fs::write(scene.path("recorder.py"), include_str!("../run/recorder.py")).unwrap();
    let records = Records(scene.folder.path().to_owned());
    let replica = primary.replica().await.unwrap();
    let [way, no_way] =
        [Proxy::to(primary.addr()).await.unwrap(), Proxy::to(replica.addr()).await.unwrap()];
    no_way.cut();

    let old = start(&mut scene, "old", [way.port(), no_way.port()], &lock);
    let acts = async |name: &str, since: BootInstant| {
        eventually(&format!("{name} acts"), secs(40), async || {
            records.acting_since(since).filter(|acting| acting == name)
        })
        .await
    };
    acts("old", BootInstant::now()).await;
    let both = [primary.port(), replica.port()];
    let mut new = None;
    if other == Other::Follows {
        new = Some(start(&mut scene, "new", both, &lock));
        until_looked(&primary).await;
    }
    replica.stop_streaming().await.unwrap();
    until(&replica, "what was replicated is over", lock.is_over).await;
    until(&primary, "the old leader has renewed", lock.is_fresh).await;

    // A machine that loses its power says goodbye to nobody.
    way.hold(Direction::Both);
    primary.stop(Stop::Immediate).await.unwrap();
    replica.promote().await.unwrap();
    let new = new.unwrap_or_else(|| start(&mut scene, "new", both, &lock));
    acts("new", BootInstant::now()).await;
    eventually_true("the old program has ended", secs(20), async || {
        let now = BootInstant::now();
        records.terms().values().all(|lived| lived.copy == "new" || lived.last + millis(500) < now)
    })
    .await;
    drop((old, new));
    records.assert_in_turn();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_the_old_server_waits_for_the_leader_that_a_lagging_replica_forgot() {
    the_promoted_replica_never_gives_a_second_program(LEASE, Other::Follows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_waits_for_the_leader_that_a_lagging_replica_forgot() {
    the_promoted_replica_never_gives_a_second_program(LEASE, Other::IsNew).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_the_advisory_lock_waits_for_the_leader_that_a_lagging_replica_forgot() {
    the_promoted_replica_never_gives_a_second_program(ADVISORY, Other::Follows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_to_the_advisory_lock_waits_for_the_leader_that_a_lagging_replica_forgot() {
    the_promoted_replica_never_gives_a_second_program(ADVISORY, Other::IsNew).await;
}
