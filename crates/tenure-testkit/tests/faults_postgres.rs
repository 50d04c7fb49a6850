//! Whole processes on a real Postgres, killed, frozen and cut off.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{path::Path, time::SystemTime};

use anyhow::Result;
use tenure::{BootInstant, Epoch, lock::postgres_advisory::WAIT, schema};
use tenure_database::migrate;
use tenure_testkit::{
    eventually, eventually_true,
    lateness::Lateness,
    millis,
    node::{
        CREATE_ACTS, LockChoice, Node, NodeSettings, Told, nothing_happens_for, somebody_leads,
        terms_never_open_together,
    },
    pgbouncer::Pgbouncer,
    postgres::{Postgres, Stop},
    proxy::{Direction, Proxy},
    secs,
};

const NODE: &str = env!("CARGO_BIN_EXE_election-node");

async fn migrated(postgres: &Postgres) -> Result<()> {
    let mut client = postgres.connect().await?;
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await?;
    client.batch_execute(CREATE_ACTS).await?;
    Ok(())
}

async fn server() -> Result<Postgres> {
    let postgres = Postgres::start().await?;
    migrated(&postgres).await?;
    Ok(postgres)
}

fn node(settings: &NodeSettings) -> Node {
    Node::start(Path::new(NODE), settings).unwrap()
}

fn nodes(postgres: &Postgres, lock: LockChoice, count: usize) -> Vec<Node> {
    nodes_with(&NodeSettings::new(&postgres.url(), lock, ""), count)
}

/// Nodes that act, each under a name of its own.
fn nodes_with(settings: &NodeSettings, count: usize) -> Vec<Node> {
    let named = |at| NodeSettings { acts: true, holder: format!("node-{at}"), ..settings.clone() };
    (0..count).map(|at| node(&named(at))).collect()
}

fn through(proxy: &Proxy) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port())
}

/// Accepted acts never go back to an older epoch, and an epoch has one holder.
async fn acts_are_in_order(postgres: &Postgres) -> usize {
    let client = postgres.connect().await.unwrap();
    let rows = client.query("SELECT epoch, holder FROM acts ORDER BY id", &[]).await.unwrap();
    let acts: Vec<(i64, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for pair in acts.windows(2) {
        assert!(pair[0].0 <= pair[1].0, "a stale act was accepted: {pair:?}");
        assert!(
            pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1,
            "two holders in a term: {pair:?}"
        );
    }
    acts.len()
}

async fn acts_of(postgres: &Postgres, epoch: Epoch) -> i64 {
    let client = postgres.connect().await.unwrap();
    let count = "SELECT count(*) FROM acts WHERE epoch = $1";
    client.query_one(count, &[&epoch.get()]).await.unwrap().get(0)
}

async fn two_processes_one_acts(lock: LockChoice) {
    let postgres = server().await.unwrap();
    let nodes = nodes(&postgres, lock, 2);
    let (_, epoch, _) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    eventually_true("the leader acts", secs(10), async || acts_of(&postgres, epoch).await > 100)
        .await;
    assert_eq!(nodes.iter().filter(|node| node.leads().is_some()).count(), 1);
    assert!(acts_are_in_order(&postgres).await > 100);
    assert!(terms_never_open_together(&nodes) >= 1);
}

/// Seed 002, integration: "Two MSP processes + one Postgres. Verify only one sends extrinsics."
#[tokio::test(flavor = "multi_thread")]
async fn two_msp_processes_and_one_postgres_only_one_sends_extrinsics() {
    two_processes_one_acts(LockChoice::PostgresAdvisory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_a_lease_only_one_acts() {
    two_processes_one_acts(LockChoice::PostgresLease).await;
}

/// Waits for a leader in a term after `after` that acts, and kills it: which term that was, and when it ended.
async fn kill_the_leader(
    postgres: &Postgres,
    nodes: &mut [Node],
    after: Epoch,
) -> (Epoch, BootInstant) {
    let (leader, epoch, _) = somebody_leads(nodes, after, secs(10)).await;
    eventually_true("the leader acts", secs(10), async || acts_of(postgres, epoch).await > 0).await;
    (epoch, nodes[leader].kill().unwrap())
}

/// Seed 002, integration: "Kill leader; follower takes over within thresholds." The threshold is shorter than one
/// wait for the lock, and than the silence after which the server ends a session: only the end of the killed
/// session brings the next leader in time.
#[tokio::test(flavor = "multi_thread")]
async fn kill_leader_follower_takes_over_within_thresholds() {
    let postgres = server().await.unwrap();
    let late_threshold = millis(4_000);
    assert!(late_threshold < WAIT);
    let settings = NodeSettings {
        lease_ms: 4_000,
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresAdvisory, "")
    };
    let mut nodes = nodes_with(&settings, 3);
    let mut epoch = Epoch::ZERO;
    for _ in 0..2 {
        let (led, killed) = kill_the_leader(&postgres, &mut nodes, epoch).await;
        let (_, _, opened) = somebody_leads(&nodes, led, secs(20)).await;
        let took = opened.since(killed);
        assert!(took < late_threshold, "the next gate opened after {took:?}");
        epoch = led;
    }
    acts_are_in_order(&postgres).await;
    assert!(terms_never_open_together(&nodes) >= 3);
}

/// By the lock's own row and the database's clock: not before the lease has expired, and then within its margin,
/// unless the machine itself was late.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leaders_lease_is_taken_over_when_it_expires() {
    let postgres = server().await.unwrap();
    let client = postgres.connect().await.unwrap();
    let moment = async |column: &str, epoch: Epoch| {
        let query = format!("SELECT {column} FROM tenure_leases WHERE lease_epoch = $1");
        client.query_one(&query, &[&epoch.get()]).await.unwrap().get::<_, SystemTime>(0)
    };
    let settings = NodeSettings {
        lease_ms: 5_000,
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresLease, "")
    };
    let mut nodes = nodes_with(&settings, 3);
    let mut epoch = Epoch::ZERO;
    for _ in 0..2 {
        let (led, _) = kill_the_leader(&postgres, &mut nodes, epoch).await;
        let (expired, lateness) = (moment("expires_at", led).await, Lateness::measure());
        let (_, next, _) = somebody_leads(&nodes, led, secs(30)).await;
        let late = lateness.total();
        let waited = moment("acquired_at", next).await.duration_since(expired);
        let waited = waited.expect("taken over before the lease had expired");
        let margin = secs(1);
        assert!(
            waited < margin + late,
            "{waited:?} after the expiry; the machine was {late:?} late"
        );
        epoch = led;
    }
    acts_are_in_order(&postgres).await;
    assert!(terms_never_open_together(&nodes) >= 3);
}

async fn freeze_past_the_lease(lock: LockChoice) {
    let postgres = server().await.unwrap();
    let nodes = nodes(&postgres, lock, 2);
    let (leader, first, _) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    eventually_true("the leader acts", secs(10), async || acts_of(&postgres, first).await > 0)
        .await;
    let frozen = nodes[leader].freeze().unwrap();
    let (other, second, _) = somebody_leads(&nodes, first, secs(20)).await;
    assert_ne!(leader, other);
    eventually_true("the next leader acts", secs(10), async || {
        acts_of(&postgres, second).await > 0
    })
    .await;
    nodes[leader].thaw().unwrap();
    let last_open = nodes[leader].has_led(first, secs(10)).await;
    assert!(last_open <= frozen, "a frozen leader woke up with an open gate");
    acts_are_in_order(&postgres).await;
    assert!(terms_never_open_together(&nodes) >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_frozen_past_its_lease_wakes_up_with_a_shut_gate() {
    freeze_past_the_lease(LockChoice::PostgresLease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_holder_of_an_advisory_lock_loses_it_and_wakes_up_with_a_shut_gate() {
    freeze_past_the_lease(LockChoice::PostgresAdvisory).await;
}

/// Seed 002, integration: "Introduce CPU pauses; watchdog disables gate on late heartbeat."
#[tokio::test(flavor = "multi_thread")]
async fn introduce_cpu_pauses_watchdog_disables_gate_on_late_heartbeat() {
    let postgres = server().await.unwrap();
    let settings = NodeSettings {
        session_silence_ms: Some(60_000),
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresAdvisory, "node-0")
    };
    let node = node(&settings);
    let (epoch, _) = node.leads_after(Epoch::ZERO, secs(10)).await;
    let frozen = node.freeze().unwrap();
    nothing_happens_for(settings.lease_ms + 500).await;
    node.thaw().unwrap();
    let last_open = node.has_led(epoch, secs(10)).await;
    assert!(last_open <= frozen, "the gate was open after the late threshold");
    let again = eventually("the gate opens again", secs(10), async || node.leads()).await;
    assert_eq!(again.0, epoch, "the same term goes on: the lock was never lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_lock_session_ends_the_term_and_the_next_one_leads() {
    let postgres = server().await.unwrap();
    let nodes = nodes(&postgres, LockChoice::PostgresAdvisory, 2);
    let (leader, first, _) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    let client = postgres.connect().await.unwrap();
    let terminate =
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    let ended = BootInstant::now();
    client.query(terminate, &[]).await.unwrap();
    let (_, second, _) = somebody_leads(&nodes, first, secs(10)).await;
    assert!(second > first);
    let last_open = nodes[leader].has_led(first, secs(10)).await;
    let late_threshold = millis(1_500);
    assert!(last_open < ended + late_threshold, "the gate outlived the late threshold");
    eventually_true("the next leader acts", secs(10), async || {
        acts_of(&postgres, second).await > 0
    })
    .await;
    acts_are_in_order(&postgres).await;
}

/// The lock went with its session: whoever leads then does so in a new term.
async fn restart_ends_the_term(stop: Stop) {
    let postgres = server().await.unwrap();
    let nodes = nodes(&postgres, LockChoice::PostgresAdvisory, 2);
    let (leader, first, _) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    eventually_true("the leader acts", secs(10), async || acts_of(&postgres, first).await > 0)
        .await;
    postgres.stop(stop).await.unwrap();
    let (gone, late_threshold) = (BootInstant::now(), millis(1_500));
    postgres.resume().await.unwrap();
    let (_, second, _) = somebody_leads(&nodes, first, secs(20)).await;
    eventually_true("the next leader acts", secs(10), async || {
        acts_of(&postgres, second).await > 100
    })
    .await;
    let last_open = nodes[leader].has_led(first, secs(10)).await;
    assert!(last_open < gone + late_threshold, "the gate outlived the late threshold");
    acts_are_in_order(&postgres).await;
}

/// Seed 002, integration: "Restart DB; ensure re-acquire works; no split-brain."
#[tokio::test(flavor = "multi_thread")]
async fn restart_db_ensure_reacquire_works_no_split_brain() {
    restart_ends_the_term(Stop::Fast).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_database_ends_in_one_leader_again() {
    restart_ends_the_term(Stop::Immediate).await;
}

/// The database is back long before the lease ends: the term goes on, and its gate was never shut. It is away for
/// more than two renew intervals, so that a renewal fails.
async fn restart_is_ridden_out(stop: Stop) {
    let postgres = server().await.unwrap();
    let settings = NodeSettings {
        lease_ms: 60_000,
        renew_ms: Some(600),
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresLease, "")
    };
    let nodes = nodes_with(&settings, 2);
    let (leader, epoch, since) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    postgres.stop(stop).await.unwrap();
    nothing_happens_for(1_500).await;
    postgres.resume().await.unwrap();
    let client = postgres.connect().await.unwrap();
    let resumed = "SELECT pg_postmaster_start_time()";
    let resumed: SystemTime = client.query_one(resumed, &[]).await.unwrap().get(0);
    let before = acts_of(&postgres, epoch).await;
    eventually_true("the leader renews and acts again", secs(20), async || {
        let renewed = "SELECT renewed_at FROM tenure_leases WHERE lease_epoch = $1";
        let renewed = client.query_one(renewed, &[&epoch.get()]).await.unwrap();
        renewed.get::<_, SystemTime>(0) > resumed && acts_of(&postgres, epoch).await > before + 100
    })
    .await;
    assert_eq!(nodes[leader].leads(), Some((epoch, since)), "the gate never shut");
    acts_are_in_order(&postgres).await;
    assert_eq!(terms_never_open_together(&nodes), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_survives_a_restart_of_the_database() {
    restart_is_ridden_out(Stop::Fast).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_survives_a_crash_of_the_database() {
    restart_is_ridden_out(Stop::Immediate).await;
}

/// One node reaches the database only through the proxy; the other directly.
async fn cut_off(lock: LockChoice, fault: impl Fn(&Proxy)) {
    let postgres = server().await.unwrap();
    let proxy = Proxy::to(postgres.addr()).await.unwrap();
    let behind = NodeSettings { acts: true, ..NodeSettings::new(&through(&proxy), lock, "behind") };
    let first = node(&behind);
    let (epoch, _) = first.leads_after(Epoch::ZERO, secs(10)).await;
    let direct = NodeSettings { acts: true, ..NodeSettings::new(&postgres.url(), lock, "direct") };
    let nodes = vec![first, node(&direct)];
    fault(&proxy);
    let (_, next) =
        (nodes[0].has_led(epoch, secs(20)).await, nodes[1].leads_after(epoch, secs(20)).await);
    eventually_true("the next leader acts", secs(10), async || {
        acts_of(&postgres, next.0).await > 0
    })
    .await;
    proxy.pass();
    acts_are_in_order(&postgres).await;
    assert!(terms_never_open_together(&nodes) >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_connection_is_cut_hands_over() {
    cut_off(LockChoice::PostgresLease, Proxy::cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_requests_do_not_arrive_hands_over() {
    cut_off(LockChoice::PostgresLease, |proxy| proxy.hold(Direction::ToServer)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_replies_are_held_back_hands_over() {
    cut_off(LockChoice::PostgresLease, |proxy| proxy.hold(Direction::ToClient)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_both_ways_hands_over() {
    cut_off(LockChoice::PostgresLease, |proxy| proxy.hold(Direction::Both)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_an_advisory_lock_that_is_cut_off_both_ways_hands_over() {
    cut_off(LockChoice::PostgresAdvisory, |proxy| proxy.hold(Direction::Both)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_an_advisory_lock_whose_replies_are_held_back_hands_over() {
    cut_off(LockChoice::PostgresAdvisory, |proxy| proxy.hold(Direction::ToClient)).await;
}

/// Riding out a stall beats a needless failover.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_that_ends_before_the_local_deadline_costs_no_term() {
    let postgres = server().await.unwrap();
    let proxy = Proxy::to(postgres.addr()).await.unwrap();
    let settings = NodeSettings {
        lease_ms: 6_000,
        renew_ms: Some(600),
        ..NodeSettings::new(&through(&proxy), LockChoice::PostgresLease, "node-0")
    };
    let node = node(&settings);
    let (epoch, _) = node.leads_after(Epoch::ZERO, secs(10)).await;
    let client = postgres.connect().await.unwrap();
    let renewed = async || {
        let renewals =
            "SELECT extract(epoch FROM clock_timestamp() - renewed_at)::float8 FROM tenure_leases";
        client.query_one(renewals, &[]).await.unwrap().get::<_, f64>(0)
    };
    proxy.hold(Direction::Both);
    eventually_true("renewals have failed for a while", secs(10), async || renewed().await > 2.0)
        .await;
    proxy.pass();
    eventually_true("renewals go on", secs(10), async || renewed().await < 0.5).await;
    assert_eq!(node.leads().map(|(epoch, _)| epoch), Some(epoch));
    assert_eq!(node.told().len(), 1, "the gate never shut");
}

/// Zero rows are an answer, and the answer is no: nothing is ridden out.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_finds_another_term_ends_the_term_at_once() {
    let postgres = server().await.unwrap();
    let settings = NodeSettings {
        lease_ms: 60_000,
        renew_ms: Some(300),
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresLease, "node-0")
    };
    let node = node(&settings);
    let (epoch, _) = node.leads_after(Epoch::ZERO, secs(10)).await;
    let client = postgres.connect().await.unwrap();
    let take =
        "UPDATE tenure_leases SET holder_id = 'somebody else', lease_epoch = lease_epoch + 1";
    let taken = BootInstant::now();
    client.execute(take, &[]).await.unwrap();
    let last_open = node.has_led(epoch, secs(10)).await;
    assert!(last_open < taken + secs(10), "long before the lease of a minute ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_advisory_lock_through_a_transaction_pooler_is_refused_by_name() {
    let postgres = server().await.unwrap();
    let pooler = Pgbouncer::transaction_mode(&postgres).await.unwrap();
    let settings = NodeSettings::new(&pooler.url(), LockChoice::PostgresAdvisory, "node-0");
    let mut node = node(&settings);
    let reason = node.cannot_go_on(secs(10)).await;
    assert!(reason.contains("transaction pooler") && reason.contains("--lock lease"), "{reason}");
    assert!(
        !node.exit(secs(5)).await.success(),
        "nobody else knows that it has stopped contending"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_works_through_a_transaction_pooler() {
    let postgres = server().await.unwrap();
    let pooler = Pgbouncer::transaction_mode(&postgres).await.unwrap();
    let settings = |holder| NodeSettings {
        acts: false,
        ..NodeSettings::new(&pooler.url(), LockChoice::PostgresLease, holder)
    };
    let mut nodes = vec![node(&settings("node-0")), node(&settings("node-1"))];
    let (leader, first, _) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    nodes[leader].kill().unwrap();
    somebody_leads(&nodes, first, secs(10)).await;
    assert!(terms_never_open_together(&nodes) >= 2);
}

/// Both ask all the time: as soon as it is a standby no more, they lead.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_server_never_makes_a_leader() {
    let postgres = server().await.unwrap();
    let standby = postgres.replica().await.unwrap();
    let contend = |lock, scope: &str| {
        let settings = NodeSettings::new(&standby.url(), lock, "node-0");
        node(&NodeSettings { scope: scope.to_owned(), ..settings })
    };
    let nodes = [
        contend(LockChoice::PostgresLease, "leased"),
        contend(LockChoice::PostgresAdvisory, "locked"),
    ];
    nothing_happens_for(1_500).await;
    let promoted = BootInstant::now();
    standby.promote().await.unwrap();
    for node in &nodes {
        let (_, since) = node.leads_after(Epoch::ZERO, secs(20)).await;
        assert!(since > promoted, "a standby made a leader");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_of_a_replica_ends_the_term() {
    let postgres = server().await.unwrap();
    let standby = postgres.replica().await.unwrap();
    let proxy = Proxy::to(postgres.addr()).await.unwrap();
    let settings = NodeSettings {
        lease_ms: 20_000,
        renew_ms: Some(300),
        ..NodeSettings::new(&through(&proxy), LockChoice::PostgresLease, "node-0")
    };
    let node = node(&settings);
    let (first, _) = node.leads_after(Epoch::ZERO, secs(10)).await;
    let client = standby.connect().await.unwrap();
    eventually_true("the term is replicated", secs(10), async || {
        let row =
            client.query_one("SELECT coalesce(max(lease_epoch), 0) FROM tenure_leases", &[]).await;
        row.unwrap().get::<_, i64>(0) == first.get()
    })
    .await;
    postgres.stop(Stop::Immediate).await.unwrap();
    standby.promote().await.unwrap();
    proxy.redirect(standby.addr());
    let (second, _) = node.leads_after(first, secs(60)).await;
    assert!(second > first);
    let client = standby.connect().await.unwrap();
    let reason = "SELECT reason FROM tenure_terms WHERE epoch = $1";
    let reason = client.query_one(reason, &[&first.get()]).await.unwrap();
    assert_eq!(reason.get::<_, Option<&str>>(0), Some("server_changed"));
}

/// The database's clock goes ahead by more than a lease while the leader's gate is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_databases_clock_does_not_open_two_gates() {
    let postgres = Postgres::with_settable_clock().await.unwrap();
    migrated(&postgres).await.unwrap();
    let settings = |holder: &str| NodeSettings {
        acts: true,
        lease_ms: 4_000,
        renew_ms: Some(1_500),
        ..NodeSettings::new(&postgres.url(), LockChoice::PostgresLease, holder)
    };
    let first = node(&settings("node-0"));
    let (epoch, _) = first.leads_after(Epoch::ZERO, secs(10)).await;
    let nodes = vec![first, node(&settings("node-1"))];
    let client = postgres.connect().await.unwrap();
    eventually_true("the follower has looked", secs(10), async || {
        let looked = "SELECT 1 FROM pg_stat_activity
                      WHERE query LIKE '-- The lease as it is%' AND state = 'idle'";
        !client.query(looked, &[]).await.unwrap().is_empty()
    })
    .await;
    postgres.step_clock(60).unwrap();
    let (_, next, _) = somebody_leads(&nodes, epoch, secs(20)).await;
    eventually_true("the next leader acts", secs(10), async || acts_of(&postgres, next).await > 0)
        .await;
    postgres.step_clock(-60).unwrap();
    acts_are_in_order(&postgres).await;
    assert!(terms_never_open_together(&nodes) >= 2);
    let refused = nodes.iter().flat_map(Node::told).any(|told| matches!(told, Told::Ended { .. }));
    assert!(!refused);
}
