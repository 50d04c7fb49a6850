//! What operators see: the stream of changes, metrics and logs.

use prometheus_client::{encoding::text::encode, registry::Registry};
use tenure::{Epoch, LeaderStateChanged, Metrics, Role, Timing, lock::sqlite_lease::LeaseFile};
use tenure_testkit::{eventually_true, log::Log, millis, secs};
use tokio_stream::StreamExt;

use crate::scene::{Scene, becomes};

#[tokio::test(flavor = "multi_thread")]
async fn every_opening_and_shutting_of_the_gate_is_in_the_stream() {
    let scene = Scene::new();
    let election = scene.candidate("one").start().unwrap();
    let mut changes = Box::pin(election.changes());
    becomes(&election, Role::Leader).await;
    election.stop().await.unwrap();
    let mut seen = Vec::new();
    while let Some(change) = changes.next().await {
        seen.push(change);
    }
    let epoch = Epoch::new(1);
    let change = |is_leader| LeaderStateChanged { is_leader, epoch };
    assert_eq!(seen, [change(true), change(false)]);
}

fn encoded(metrics: &Metrics) -> String {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_the_metrics_are_the_documented_ones() {
    let scene = Scene::new();
    let metrics = Metrics::default();
    let election = scene.candidate("one").metrics(&metrics).start().unwrap();
    becomes(&election, Role::Leader).await;
    let text = encoded(&metrics);
    let mut names: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.contains("_bucket"))
        .map(|line| line.split([' ', '{']).next().unwrap())
        .collect();
    names.sort_unstable();
    insta::assert_snapshot!(names.join("\n"), @r"
    acquire_attempts_total
    acquire_latency_ms_count
    acquire_latency_ms_sum
    extrinsic_blocked_not_leader_total
    heartbeat_age_ms
    heartbeat_update_ms_count
    heartbeat_update_ms_sum
    is_leader
    leader_acquired_total
    leader_epoch
    leadership_lost_total
    ");
    let labelled = text.lines().filter(|line| !line.starts_with('#'));
    assert!(labelled.clone().all(|line| line.contains(r#"scope="jobs""#)), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_count_what_happens() {
    let scene = Scene::new();
    let metrics = Metrics::default();
    let election = scene.candidate("one").metrics(&metrics).start().unwrap();
    let has = |line: &str| encoded(&metrics).lines().any(|told| told == line);
    becomes(&election, Role::Leader).await;
    assert!(has(r#"is_leader{scope="jobs"} 1"#) && has(r#"leader_epoch{scope="jobs"} 1"#));
    assert!(has(r#"leader_acquired_total{scope="jobs"} 1"#));
    let gate = election.gate();
    assert!(gate.ensure_epoch(Epoch::new(9)).is_err());
    assert!(has(r#"extrinsic_blocked_not_leader_total{scope="jobs"} 1"#));
    election.stop().await.unwrap();
    assert!(has(r#"is_leader{scope="jobs"} 0"#) && has(r#"leadership_lost_total{scope="jobs"} 1"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_a_heartbeat_grows_between_heartbeats() {
    let scene = Scene::new();
    let metrics = Metrics::default();
    let election = scene.candidate("one").metrics(&metrics).start().unwrap();
    becomes(&election, Role::Leader).await;
    let age = || {
        let text = encoded(&metrics);
        let line = text.lines().find(|line| line.starts_with("heartbeat_age_ms{")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()
    };
    eventually_true("the age grows", secs(5), async || age() > 50).await;
    eventually_true("a renewal resets it", secs(5), async || age() < 50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_events_carry_the_fields_of_both_vocabularies() {
    let log = Log::kept();
    let timing = Timing::lease(secs(60)).renew_interval(millis(400)).build().unwrap();
    let scene = Scene::with(timing);
    let one = scene.candidate("heard-of").start().unwrap();
    becomes(&one, Role::Leader).await;
    let event =
        |name: &str| log.events(name).into_iter().find(|fields| fields["holder_id"] == "heard-of");
    eventually_true("a renewal", secs(5), async || event("leader_renewed").is_some()).await;
    let leases = LeaseFile::beside(&scene.data()).open(secs(5)).unwrap();
    leases.execute_batch("BEGIN IMMEDIATE").unwrap();
    eventually_true("a failure", secs(5), async || event("leader_renew_failed").is_some()).await;
    leases.execute_batch("ROLLBACK").unwrap();
    one.stop().await.unwrap();

    for name in ["leader_acquired", "leader_renewed"] {
        let event = event(name).unwrap();
        let expires_at = event["expires_at"].as_str().expect(name);
        assert!(expires_at.parse::<jiff::Timestamp>().is_ok(), "{expires_at}");
    }
    let failed = event("leader_renew_failed").unwrap();
    assert!(failed["sql_error"].as_str().is_some_and(|error| !error.is_empty()));
    let lost = event("leader_lost").unwrap();
    assert_eq!(lost["reason"], "drained");
    for name in ["leader_acquired", "leader_renewed", "leader_renew_failed", "leader_lost"] {
        let fields = event(name).unwrap();
        assert_eq!(fields["lease_epoch"], 1, "{name}");
        assert_eq!(
            (&fields["holder_identity"], &fields["epoch"]),
            (&"heard-of".into(), &1.into()),
            "{name}"
        );
        assert!(fields["scope_key"].is_i64(), "{name}");
    }
}
