//! `tenure status` on a server.

use insta::assert_snapshot;
use serde_json::Value;
use tenure::{
    Candidate, Election, HolderId, Role, Scope, Timing,
    fence::PostgresFence,
    lock::postgres_lease::{LeaseTable, PostgresLease},
};
use tenure_database::postgres::PostgresUrl;
use tenure_testkit::{eventually_true, pgbouncer::Pgbouncer, postgres::Postgres, secs};

use crate::{
    leaders::{Leader, migrated_server},
    process::{Tenure, without_times},
};

const EXPIRE: &str = "UPDATE tenure_leases SET expires_at = clock_timestamp() - interval '1 s'";

fn tenure(postgres: &Postgres) -> Tenure {
    Tenure::on(&postgres.url())
}

fn scope(postgres: &Postgres, name: &str) -> Value {
    scope_as(&postgres.url(), name)
}

fn scope_as(url: &str, name: &str) -> Value {
    let ran = Tenure::on(url).run(&format!("status --json --scope {name}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut status: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(status["scopes"].as_array().map(Vec::len), Some(1), "{status}");
    status["scopes"][0].take()
}

/// The word in the table's second column.
fn state(postgres: &Postgres, name: &str) -> String {
    let table = tenure(postgres).run(&format!("status --scope {name}")).done();
    let row = table.lines().nth(1).expect("a row");
    row.split_whitespace().nth(1).expect("a state").to_owned()
}

#[tokio::test]
async fn a_missing_schema_names_the_command_that_brings_it() {
    let postgres = Postgres::start().await.unwrap();
    for command in ["status", "status --json", "scope burn-epochs --scope jobs"] {
        let refused = tenure(&postgres).run(command).failed();
        assert!(refused.contains("run `tenure migrate`"), "{refused}");
        assert!(refused.contains("postgres://postgres@127.0.0.1:"), "{refused}");
    }
}

#[tokio::test]
async fn a_server_without_scopes_says_so_and_an_unknown_scope_is_an_error() {
    let postgres = migrated_server().await;
    assert!(tenure(&postgres).run("status").done().starts_with("no scopes yet"));
    assert_eq!(tenure(&postgres).run("status --json").done(), "{\n  \"scopes\": []\n}\n");
    let refused = tenure(&postgres).run("status --scope nowhere").failed();
    assert!(refused.contains("no scope 'nowhere' in postgres://"), "{refused}");
}

#[tokio::test]
async fn a_lease_is_held_then_expired_then_held_then_free() {
    let postgres = migrated_server().await;
    let client = postgres.connect().await.unwrap();
    let _silent = Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-a").await;
    let held = scope(&postgres, "jobs");
    assert_eq!((&held["held"], &held["holder"]), (&true.into(), &"node-a".into()));
    let left_ms = held["left_ms"].as_i64().unwrap();
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
    assert_eq!(state(&postgres, "jobs"), "held");

    client.batch_execute(EXPIRE).await.unwrap();
    assert_eq!(state(&postgres, "jobs"), "expired");
    let expired = scope(&postgres, "jobs");
    assert_eq!((&expired["held"], &expired["left_ms"]), (&false.into(), &0.into()));

    let next = Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-b").await;
    assert_eq!(scope(&postgres, "jobs")["holder"], "node-b");
    next.release().await;
    assert_eq!(state(&postgres, "jobs"), "free");
    assert_eq!(scope(&postgres, "jobs")["epoch"], 2);
}

#[tokio::test]
async fn an_advisory_lock_is_held_then_expired_then_held_then_free() {
    let postgres = migrated_server().await;
    let silent = Leader::by_advisory_lock(&postgres, "jobs", "node-a").await;
    let held = scope(&postgres, "jobs");
    assert_eq!((&held["held"], &held["lock"]), (&true.into(), &"postgres-advisory".into()));
    assert_eq!(held["left_ms"], Value::Null);
    assert!((0..60_000).contains(&held["heartbeat_age_ms"].as_i64().unwrap()), "{held}");
    assert_eq!(state(&postgres, "jobs"), "held");

    drop(silent);
    let gone = async || state(&postgres, "jobs") == "expired";
    eventually_true("its session is gone", secs(20), gone).await;
    Leader::by_advisory_lock(&postgres, "jobs", "node-b").await.release().await;
    let gone = async || state(&postgres, "jobs") == "free";
    eventually_true("its session is gone", secs(20), gone).await;
    let free = scope(&postgres, "jobs");
    assert_eq!((&free["holder"], &free["held"]), (&"node-b".into(), &false.into()));
}

#[tokio::test]
async fn the_shape_of_the_json_is_as_promised() {
    let postgres = migrated_server().await;
    let _one = Leader::by_lease(&postgres, "tenure_leases", "billing", "node-a").await;
    Leader::by_advisory_lock(&postgres, "jobs", "node-b").await.release().await;
    let _two = Leader::by_advisory_lock(&postgres, "jobs", "node-c").await;
    let json = tenure(&postgres).run("status --json").done();
    let mut status: Value = serde_json::from_str(&json).unwrap();
    let ended_at = status["scopes"][1]["terms"][1]["ended_at"].as_str().unwrap();
    assert!(ended_at.len() == 24 && ended_at.ends_with('Z'), "{ended_at} is not RFC 3339 in UTC");
    without_times(&mut status);
    assert_snapshot!(serde_json::to_string_pretty(&status).unwrap());
}

#[tokio::test]
async fn the_table_is_for_people() {
    let postgres = migrated_server().await;
    let history = "
        INSERT INTO tenure_leases VALUES
            ('billing', 'node-a', 7, now(), now(), now() + interval '1 day 8.25 s'),
            ('nightly-report', E'node-\\x1b[31m', 3, now(), now(), now() - interval '1 s');
        INSERT INTO tenure_fences (scope, epoch, holder, lock_kind, lock_place, margin_ms) VALUES
            ('billing', 7, 'node-a', 'postgres-lease', 'tenure_leases', 1000),
            ('elsewhere', 4, 'node-x', 'etcd', 'cluster-1', 1000);
        INSERT INTO tenure_terms VALUES
            ('billing', 6, 'node-b', 'postgres-lease', '2026-03-01 10:00:00+02', '2026-03-01 10:00:07.5+02', 'drained'),
            ('billing', 7, 'node-a', 'postgres-lease', '2026-03-01 10:00:08.125+02', NULL, NULL)";
    postgres.connect().await.unwrap().batch_execute(history).await.unwrap();
    let table = tenure(&postgres).run("status").done();
    let left = table.lines().nth(1).unwrap().split_whitespace().nth(5).unwrap();
    let seconds: f64 = left.strip_suffix('s').unwrap().parse().unwrap();
    assert!((86_000.0..86_408.3).contains(&seconds), "{left}");
    // As wide as what it stands for, so that the columns stay in line.
    assert_snapshot!(table.replace(left, &format!("{:1$}", "8.2s", left.len())));
}

#[tokio::test]
async fn as_many_terms_are_shown_as_were_asked_for() {
    let postgres = migrated_server().await;
    for _ in 0..7 {
        Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-a").await.release().await;
    }
    let epochs = |arguments: &str| {
        let json = tenure(&postgres).run(&format!("status --json {arguments}")).done();
        let status: Value = serde_json::from_str(&json).unwrap();
        let terms = status["scopes"][0]["terms"].as_array().unwrap();
        terms.iter().map(|term| term["epoch"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(epochs(""), [7, 6, 5, 4, 3]);
    assert_eq!(epochs("--terms 2"), [7, 6]);
    assert!(epochs("--terms 0").is_empty());
    let table = tenure(&postgres).run("status --terms 0").done();
    assert!(table.contains("free") && !table.contains("Last terms"), "{table}");
}

#[tokio::test]
async fn a_role_with_the_granted_rights_and_no_others_sees_the_status() {
    let postgres = Postgres::start().await.unwrap();
    let client = postgres.connect().await.unwrap();
    client.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    let granted = tenure(&postgres).run("migrate --grant-to app").done();
    assert!(granted.contains("granted to app"), "{granted}");
    let _one = Leader::by_lease(&postgres, "tenure_leases", "billing", "node-a").await;
    let _two = Leader::by_advisory_lock(&postgres, "jobs", "node-b").await;

    let url = postgres.url_as("app", "postgres");
    let billing = scope_as(&url, "billing");
    assert_eq!((&billing["holder"], &billing["held"]), (&"node-a".into(), &true.into()));
    assert_eq!(scope_as(&url, "jobs")["held"], true);
    assert_eq!(Tenure::on(&url).run("status").done().matches("held").count(), 2);
}

#[tokio::test]
async fn a_role_without_rights_is_told_how_to_get_them() {
    let postgres = migrated_server().await;
    postgres.connect().await.unwrap().batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    let refused = Tenure::on(&postgres.url_as("app", "postgres")).run("status").failed();
    assert!(refused.contains("tenure migrate --grant-to"), "{refused}");
    assert!(refused.contains("permission denied"), "{refused}");
}

#[tokio::test]
async fn a_lease_table_of_ones_own_is_read_where_the_role_may() {
    let postgres = migrated_server().await;
    let prepare = "CREATE ROLE app LOGIN; CREATE SCHEMA ops;
                   SELECT tenure_create_lease_table('ops.leases')";
    postgres.connect().await.unwrap().batch_execute(prepare).await.unwrap();
    tenure(&postgres).run("migrate --grant-to app").done();
    let _leader = Leader::by_lease(&postgres, "ops.leases", "jobs", "node-a").await;
    let seen = scope(&postgres, "jobs");
    assert_eq!((&seen["held"], &seen["lock_place"]), (&true.into(), &"ops.leases".into()));

    let ran = Tenure::on(&postgres.url_as("app", "postgres")).run("status");
    assert!(ran.code == 0 && ran.stderr.contains("ops.leases"), "{ran:?}");
    let row = ran.stdout.lines().nth(1).unwrap();
    assert!(row.contains("unknown") && row.contains("node-a"), "{row}");
    assert_eq!(scope_as(&postgres.url_as("app", "postgres"), "jobs")["held"], Value::Null);
}

#[tokio::test]
async fn everything_works_through_a_transaction_pooler() {
    let postgres = Postgres::start().await.unwrap();
    let pooler = Pgbouncer::transaction_mode(&postgres).await.unwrap();
    Tenure::on(&pooler.url()).run("migrate").done();
    let _leader = Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-a").await;
    for _ in 0..5 {
        assert!(Tenure::on(&pooler.url()).run("migrate").done().starts_with("nothing to do"));
        assert_eq!(scope_as(&pooler.url(), "jobs")["held"], true);
        Tenure::on(&pooler.url()).run("scope burn-epochs --scope jobs --by 1").done();
    }
}

#[tokio::test]
async fn a_standby_is_read_with_a_warning() {
    let postgres = migrated_server().await;
    let _one = Leader::by_lease(&postgres, "tenure_leases", "billing", "node-a").await;
    let _two = Leader::by_advisory_lock(&postgres, "jobs", "node-b").await;
    let standby = postgres.replica().await.unwrap();
    let there = async || standby_knows(&standby);
    eventually_true("the standby has both", secs(20), there).await;
    let ran = tenure(&standby).run("status");
    assert!(ran.stderr.contains("standby"), "{ran:?}");
    assert_eq!(scope(&standby, "billing")["held"], true);
    assert_eq!(scope(&standby, "jobs")["held"], Value::Null);
}

fn standby_knows(standby: &Postgres) -> bool {
    let table = tenure(standby).run("status").stdout;
    table.contains("billing") && table.contains("jobs")
}

#[tokio::test]
async fn an_election_that_was_stopped_leaves_its_reason() {
    let postgres = migrated_server().await;
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let timing = Timing::lease(secs(30)).build().unwrap();
    let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new("node-a").unwrap());
    let lock = PostgresLease::new(url.clone(), LeaseTable::default(), candidate.clone(), timing);
    let election = Election::builder(candidate, timing, lock.unwrap())
        .fence(PostgresFence::new(url, timing))
        .start()
        .unwrap();
    let mut leadership = election.leadership();
    leadership.wait_for(|now| now.role == Role::Leader).await.unwrap();
    assert_eq!(state(&postgres, "jobs"), "held");
    election.stop().await.unwrap();
    let freed = async || state(&postgres, "jobs") == "free";
    eventually_true("the end is in the history", secs(20), freed).await;
    assert_ne!(scope(&postgres, "jobs")["terms"][0]["reason"], Value::Null);
}
