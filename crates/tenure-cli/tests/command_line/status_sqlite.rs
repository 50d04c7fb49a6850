//! `tenure status` on a file.

use insta::assert_snapshot;
use serde_json::Value;
use tenure_database::sqlite;
use tenure_testkit::secs;

use crate::{
    leaders::{Leader, migrated_file},
    process::{Tenure, without_times},
};

#[test]
fn a_missing_file_or_schema_names_the_command_that_brings_it_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("app.db");
    let refused = Tenure::on_file(&data).run("status").failed();
    assert!(refused.contains("run `tenure migrate`"), "{refused}");
    assert!(!data.exists());

    std::fs::write(&data, "").unwrap();
    let refused = Tenure::on_file(&data).run("status").failed();
    assert!(refused.contains("run `tenure migrate`"), "{refused}");
}

#[test]
fn a_file_without_scopes_says_so_and_an_unknown_scope_is_an_error() {
    let (_folder, data) = migrated_file();
    assert!(Tenure::on_file(&data).run("status").done().starts_with("no scopes yet"));
    let refused = Tenure::on_file(&data).run("status --scope nowhere").failed();
    assert!(refused.contains("no scope 'nowhere' in sqlite:"), "{refused}");
}

#[tokio::test]
async fn a_lease_in_a_file_is_held_then_expired_then_held_then_free() {
    let (_folder, data) = migrated_file();
    let state = || {
        let table = Tenure::on_file(&data).run("status --scope jobs").done();
        let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
        row[1..4].join(" ")
    };
    let silent = Leader::by_file(&data, "jobs", "node-a").await;
    let _other = Leader::by_file(&data, "other", "node-a").await;
    assert_eq!(state(), "held node-a 1");

    let leases = data.with_file_name("app.db-lease");
    let leases = sqlite::open(&leases, secs(5)).unwrap();
    leases
        .execute("UPDATE tenure_leases SET expires_at = 0 WHERE lease_name = 'jobs'", [])
        .unwrap();
    assert_eq!(state(), "expired node-a 1");

    let next = Leader::by_file(&data, "jobs", "node-b").await;
    assert_eq!(state(), "held node-b 2");
    next.release().await;
    assert_eq!(state(), "free node-b 2");
    drop(silent);
}

#[tokio::test]
async fn the_shape_of_the_json_is_the_same_on_a_file() {
    let (folder, data) = migrated_file();
    Leader::by_file(&data, "jobs", "node-a").await.release().await;
    let leader = Leader::by_file(&data, "jobs", "node-b").await;
    let json = Tenure::on_file(&data).run("status --json").done();
    let mut status: Value = serde_json::from_str(&json).unwrap();
    let left_ms = status["scopes"][0]["left_ms"].as_i64().unwrap();
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
    without_times(&mut status);
    let shape = serde_json::to_string_pretty(&status).unwrap();
    assert_snapshot!(shape.replace(folder.path().to_str().unwrap(), "<folder>"));
    assert_eq!(leader.term.epoch().get(), 2);
}
