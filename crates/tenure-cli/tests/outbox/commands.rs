//! What a person types, and is told.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::scene::{Scene, line};

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn installing_again_is_harmless_and_the_doctor_is_content() {
    let scene = Scene::new().await;
    assert!(scene.run(&["install"]).status.success());
    let doctor = scene.run(&["doctor"]);
    assert!(doctor.status.success() && printed(&doctor).contains("as it should be"), "{doctor:?}");
    scene.admin.batch_execute("DROP INDEX ix_pending_claimed_by").await.unwrap();
    let doctor = scene.run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(
        printed(&doctor).contains("missing: index CREATE INDEX ix_pending_claimed_by"),
        "{doctor:?}"
    );
    let findings: Value = serde_json::from_slice(&scene.run(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(findings[0]["finding"], "missing");
    assert!(scene.run(&["install"]).status.success());
    assert!(scene.run(&["doctor"]).status.success());
}

#[tokio::test]
async fn what_is_printed_installs_the_same() {
    let scene = Scene::new().await;
    let print =
        Command::new(env!("CARGO_BIN_EXE_tenure")).args(["outbox", "install", "--print"]).output();
    let script = printed(&print.unwrap());
    scene.admin.batch_execute("CREATE DATABASE other").await.unwrap();
    let other = scene.postgres.url_as("postgres", "other");
    let (client, connection) =
        tokio_postgres::connect(&other, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&script).await.unwrap();
    let doctor = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["--db", &other, "outbox", "doctor"])
        .output()
        .unwrap();
    assert!(doctor.status.success(), "{doctor:?}");
}

#[tokio::test]
async fn one_instruction_is_enqueued_once() {
    let scene = Scene::new().await;
    let one = [
        "enqueue",
        "--instruction-id",
        "i-1",
        "--participant-id",
        "bank-a",
        "--idempotency-key",
        "k-1",
        "--rail-type",
        "card",
        "--payload",
        r#"{"amount": 100}"#,
    ];
    let first = scene.run(&one);
    assert!(printed(&first).contains("as number 1 of its participant"), "{first:?}");
    let second = scene.run(&one);
    assert!(second.status.success() && printed(&second).contains("enqueued before"), "{second:?}");
    assert_eq!(scene.count("payment_outbox_pending").await, 1);
}

/// An amount that was changed does not pass in silence.
#[tokio::test]
async fn an_instruction_that_comes_again_with_another_amount_is_refused_by_field() {
    let scene = Scene::new().await;
    let line = |amount: u32| {
        let line = json!({
            "instruction_id": "i", "participant_id": "p", "idempotency_key": "k", "rail_type": "card",
            "payload": {"amount": amount},
        });
        format!("{line}\n")
    };
    std::fs::write(scene.folder.path().join("in.jsonl"), line(100)).unwrap();
    assert!(scene.run(&["enqueue", "--file", "in.jsonl"]).status.success());
    std::fs::write(scene.folder.path().join("in.jsonl"), line(100) + &line(101)).unwrap();
    let refused = scene.run(&["enqueue", "--file", "in.jsonl"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(told.contains("line 2 was enqueued before with another payload"), "{told}");
    assert_eq!(scene.count("payment_outbox_pending").await, 1);
}

#[tokio::test]
async fn a_file_is_enqueued_and_may_be_sent_again() {
    let scene = Scene::new().await;
    scene.enqueue("bank-a", 1..=2500);
    assert_eq!(scene.count("payment_outbox_pending").await, 2500);
    let again = scene.run(&["enqueue", "--file", "in.jsonl"]);
    assert_eq!(printed(&again), "enqueued 0, and 2500 were enqueued before\n");
    let stats: Value = serde_json::from_slice(&scene.run(&["stats", "--json"]).stdout).unwrap();
    assert_eq!((&stats["pending_count"], &stats["dispatched_count"]), (&2500.into(), &0.into()));
    assert!(printed(&scene.run(&["stats"])).starts_with("pending         2500 pending"));
}

#[tokio::test]
async fn a_line_that_is_wrong_is_named_and_what_comes_before_is_kept() {
    let scene = Scene::new().await;
    for (wrong, why) in [
        ("{\"instruction_id\": 7}", "line 3"),
        (
            r#"{"instruction_id":"x","participant_id":"","idempotency_key":"k","rail_type":"r","payload":{}}"#,
            "line 3",
        ),
        (
            r#"{"instruction_id":"x","participant_id":"p","idempotency_key":"k","rail_type":"r","payload":[]}"#,
            "line 3",
        ),
        (r#"{"instruction_id":"x","amount":3}"#, "amount"),
        (
            r#"{"instruction_id":"x","participant_id":"p","idempotency_key":"k","rail_type":"r","payload":{"a":"\u0000"}}"#,
            "line 3",
        ),
    ] {
        scene.admin.batch_execute("TRUNCATE payment_outbox_pending").await.unwrap();
        let lines = [line("bank-a", 1), String::new(), wrong.to_owned()].join("\n");
        let mut enqueue = scene.command(&["enqueue", "--file", "-"]);
        let pipes = enqueue.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = pipes.spawn().unwrap();
        process.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(told(&output).contains(why), "{}", told(&output));
        assert_eq!(scene.count("payment_outbox_pending").await, 1, "{wrong}");
    }
}

#[tokio::test]
async fn what_cannot_work_is_refused_by_name() {
    let scene = Scene::new().await;
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = scene.run(arguments);
        assert!(!output.status.success());
        assert!(
            words.iter().all(|word| told(&output).contains(word)),
            "{words:?}: {}",
            told(&output)
        );
    };
    refused(&["enqueue"], &["--instruction-id"]);
    refused(&["enqueue", "--file", "none.jsonl"], &["none.jsonl", "--file"]);
    refused(&["work"], &["--rails"]);
    refused(&["work", "--rails", "none.toml"], &["--rails", "none.toml"]);
    fs::write(scene.folder.path().join("bad.toml"), "[rails.card]\ntype = 'http'\nurl = 'x'")
        .unwrap();
    refused(&["work", "--rails", "bad.toml"], &["rails.card.url"]);
    scene.rails("type = 'noop'");
    refused(&["work", "--rails", "rails.toml", "--lease", "0"], &["--lease", "whole seconds"]);
    refused(&["work", "--rails", "rails.toml", "--poll-interval", "0s"], &["--poll-interval"]);
    refused(&["work", "--rails", "rails.toml", "--worker-id", " "], &["--worker-id"]);
    let on_a_file = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["--db", "sqlite:x.db", "outbox", "stats"])
        .output()
        .unwrap();
    assert!(told(&on_a_file).contains("--db postgres://"), "{}", told(&on_a_file));
}

#[tokio::test]
async fn a_worker_without_an_outbox_says_what_to_do() {
    let scene = Scene::new().await;
    scene.admin.batch_execute("CREATE DATABASE empty").await.unwrap();
    scene.rails("type = 'noop'");
    let worked = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["--db", &scene.postgres.url_as("postgres", "empty"), "outbox", "work", "--rails"])
        .arg(scene.folder.path().join("rails.toml"))
        .output()
        .unwrap();
    assert!(told(&worked).contains("tenure outbox install"), "{}", told(&worked));
}

#[tokio::test]
async fn repair_takes_back_what_has_expired() {
    let scene = Scene::new().await;
    scene.enqueue("bank-a", 1..=3);
    scene.admin.query("SELECT * FROM claim_outbox_batch(3, 'dead', 30)", &[]).await.unwrap();
    let expire = "UPDATE payment_outbox_pending SET lease_expires_at = now() - interval '1 second'";
    scene.admin.batch_execute(expire).await.unwrap();
    let repaired = scene.run(&["repair", "--batch", "2"]);
    assert_eq!(printed(&repaired), "took back 3 expired leases\n");
    assert_eq!(scene.attempts_of("i-1").await, ["ZOMBIE_REQUEUE"]);
}
