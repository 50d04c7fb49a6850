//! The commands on SQL Server, where `TENURE_TEST_SQLSERVER` names one.

use serde_json::Value;
use tenure::{
    Epoch, Term, Timing,
    fence::{Fence, FenceError, Raised, SqlServerFence},
    lock::LockPlace,
};
use tenure_database::sqlserver::batches;
use tenure_testkit::{
    secs,
    sqlserver::{Database, not_shown},
};

use crate::{
    leaders::Leader,
    process::{Ran, Tenure},
};

const EXPIRE: &str =
    "UPDATE dbo.tenure_leases SET expires_at = DATEADD(SECOND, -1, SYSUTCDATETIME())";

fn tenure(database: &Database) -> Tenure {
    Tenure::on(database.secret_url())
}

async fn migrated() -> Database {
    let database = Database::create().await.expect("a database");
    tenure(&database).run("migrate").done();
    database
}

async fn leader(database: &Database, holder: &str) -> Leader {
    Leader::on_sqlserver(database.url(), "tenure_leases", "jobs", holder).await
}

async fn run(database: &Database, sql: &str) {
    let mut session = database.session().await.expect("a session");
    session.run(sql).await.expect("an answer");
}

fn scope(database: &Database) -> Value {
    let json = tenure(database).run("status --json --scope jobs").done();
    let mut status: Value = serde_json::from_str(&json).expect("JSON");
    status["scopes"][0].take()
}

/// The word in the table's second column.
fn state(database: &Database) -> String {
    let table = tenure(database).run("status --scope jobs").done();
    let row = table.lines().nth(1).expect("a row");
    row.split_whitespace().nth(1).expect("a state").to_owned()
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_missing_schema_names_the_command_that_brings_it() {
    let database = Database::create().await.unwrap();
    for command in ["status", "scope burn-epochs --scope jobs", "drain --scope jobs"] {
        let refused = tenure(&database).run(command).failed();
        assert!(refused.contains("run `tenure migrate`"), "{refused}");
        assert!(refused.contains(&database.url().to_string()), "{refused}");
    }
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_certificate_that_nobody_trusts_is_refused_and_the_password_shown_to_nobody() {
    let database = migrated().await;
    let asked = database.secret_url();
    let strict = asked.replace("trust_certificate=true", "trust_certificate=false");
    if asked == strict {
        let law = "a_certificate_that_nobody_trusts_is_refused_and_the_password_shown_to_nobody";
        return not_shown(law, "its certificate is trusted");
    }
    let refused = Tenure::on(&strict).run("status").failed();
    assert!(refused.contains("TLS: ") && refused.contains("ca=FILE"), "{refused}");
    let wrong = asked.replacen('@', "-no-such-password@", 1);
    for refused in [refused, Tenure::on(&wrong).run("status").failed()] {
        assert!(refused.contains(&database.url().to_string()), "{refused}");
        let secret = asked.rsplit_once('@').and_then(|(before, _)| before.rsplit_once(':'));
        assert!(!refused.contains(secret.expect("a password").1), "{refused}");
    }
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn of_processes_that_migrate_at_once_one_applies_and_again_is_harmless() {
    let database = Database::create().await.unwrap();
    let both: Vec<_> = (0..2).map(|_| tenure(&database).spawn("migrate")).collect();
    let told: Vec<_> = both.into_iter().map(|child| Ran::of(child).done()).collect();
    let applied = told.iter().filter(|told| told.starts_with("applied migration 1 of engine"));
    assert_eq!(applied.count(), 1, "{told:?}");
    let again = tenure(&database).run("migrate").done();
    assert!(again.starts_with(&format!("nothing to do: {}", database.url())), "{again}");
    let told = tenure(&database).run("migrate --with submissions").done();
    assert!(told.contains("applied migration 1 of submissions"), "{told}");
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn the_printed_script_does_what_migrate_does_and_can_be_run_again() {
    let database = Database::create().await.unwrap();
    let script = tenure(&database).run("migrate --with submissions --print").done();
    for _ in 0..2 {
        let mut session = database.session().await.unwrap();
        for batch in batches(&script) {
            session.run(&batch).await.unwrap_or_else(|error| panic!("{batch}: {error}"));
        }
    }
    let again = tenure(&database).run("migrate --with submissions").done();
    assert!(again.starts_with("nothing to do"), "{again}");
}

/// The server's own tools go on after an error.
#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_printed_script_that_fails_halfway_changes_nothing() {
    let database = Database::create().await.unwrap();
    if !database.knows_noexec().await.unwrap() {
        let law = "a_printed_script_that_fails_halfway_changes_nothing";
        return not_shown(law, "it carries out what NOEXEC forbids");
    }
    let script = tenure(&database).run("migrate --print").done();
    let mut session = database.session().await.unwrap();
    let mut failed = 0;
    for batch in batches(&script) {
        let fails = batch.contains("CREATE TABLE dbo.tenure_drains");
        let sent = if fails { "SELECT 1 / 0" } else { &batch };
        failed += usize::from(session.run(sent).await.is_err());
    }
    assert!(failed >= 1, "nothing went wrong");
    let made = "SELECT name FROM sys.tables WHERE name LIKE 'tenure%'";
    let made = session.query_text(made, &[]).await.unwrap();
    assert!(made.is_empty(), "{made:?}");
    tenure(&database).run("migrate").done();
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_lease_is_held_then_expired_then_held_then_free() {
    let database = migrated().await;
    assert!(tenure(&database).run("status").done().starts_with("no scopes yet"));
    let _silent = leader(&database, "node-a").await;
    let held = scope(&database);
    assert_eq!((&held["held"], &held["holder"]), (&true.into(), &"node-a".into()));
    assert_eq!(held["lock"], "sqlserver-lease");
    let left_ms = held["left_ms"].as_i64().unwrap();
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");

    run(&database, EXPIRE).await;
    assert_eq!(state(&database), "expired");
    let next = leader(&database, "node-b").await;
    assert_eq!(scope(&database)["holder"], "node-b");
    next.release().await;
    assert_eq!(state(&database), "free");
    let free = scope(&database);
    assert_eq!((&free["epoch"], &free["terms"][0]["reason"]), (&2.into(), &"drained".into()));
    let ended_at = free["terms"][0]["ended_at"].as_str().unwrap();
    assert!(ended_at.len() == 24 && ended_at.ends_with('Z'), "{ended_at} is not RFC 3339 in UTC");
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_lease_table_of_ones_own_is_read_too() {
    let database = migrated().await;
    run(&database, "EXEC dbo.tenure_create_lease_table @name = N'own_leases'").await;
    let _leader = Leader::on_sqlserver(database.url(), "own_leases", "jobs", "node-a").await;
    let seen = scope(&database);
    assert_eq!((&seen["held"], &seen["lock_place"]), (&true.into(), &"own_leases".into()));
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn burnt_epochs_end_the_term_and_the_next_one_is_above_them() {
    let database = migrated().await;
    leader(&database, "node-a").await;
    let told = tenure(&database).run("scope burn-epochs --scope jobs").done();
    assert!(told.contains("1000 epochs burnt; the fence stands at 1001"), "{told}");
    let burnt = scope(&database);
    assert_eq!((&burnt["epoch"], &burnt["fence_epoch"]), (&1.into(), &1001.into()), "{burnt}");
    assert_eq!(burnt["terms"][0]["reason"], "epochs_burnt");

    run(&database, EXPIRE).await;
    let next = leader(&database, "node-b").await;
    assert_eq!(next.term.epoch(), Epoch::new(1002));
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn after_a_switch_another_lock_may_fence_the_scope() {
    let database = migrated().await;
    let leader = leader(&database, "node-a").await;
    let term = leader.term.clone();
    leader.release().await;
    let next = Term::granted(term.scope().clone(), term.holder().clone(), term.epoch().next());
    let timing = Timing::lease(secs(30)).build().unwrap();
    let fence = SqlServerFence::new(database.url().clone(), timing);
    let other = LockPlace { kind: "etcd", name: "cluster-1".to_owned() };
    let refused = fence.raise(&next, &other).await;
    assert!(matches!(refused, Err(FenceError::OtherLock { .. })), "{refused:?}");

    let told = tenure(&database).run("scope switch-lock --scope jobs").done();
    assert!(told.contains("until now it was sqlserver-lease tenure_leases"), "{told}");
    let again = tenure(&database).run("scope switch-lock --scope jobs").done();
    assert!(again.contains("nothing to do"), "{again}");
    assert_eq!(fence.raise(&next, &other).await.unwrap(), Raised::Raised);
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_login_is_told_how_to_get_rights_and_has_no_others() {
    let database = migrated().await;
    let _leader = leader(&database, "node-a").await;
    let login = database.login().await.unwrap();
    let app = || Tenure::on(login.secret_url());
    let refused = app().run("status").failed();
    assert!(refused.contains("tenure migrate --grant-to"), "{refused}");
    let granted = tenure(&database).run(&format!("migrate --grant-to {}", login.name)).done();
    assert!(granted.contains(&format!("granted to {}", login.name)), "{granted}");

    assert!(app().run("status").done().contains("held"));
    for write in ["UPDATE dbo.tenure_fences SET epoch = 9", "DELETE FROM dbo.tenure_terms"] {
        assert!(login.session().await.unwrap().run(write).await.is_err(), "{write}");
    }
    let refused = app().run("scope burn-epochs --scope jobs").failed();
    assert!(!refused.contains("Token error"), "the driver's words: {refused}");
    assert_eq!(scope(&database)["fence_epoch"], 1);
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_role_with_the_granted_rights_elects_and_passes_the_fence() {
    let database = migrated().await;
    let login = database.login().await.unwrap();
    if !database.lends_rights(&login).await.unwrap() {
        let law = "a_role_with_the_granted_rights_elects_and_passes_the_fence";
        return not_shown(law, "its procedures write with their caller's rights");
    }
    tenure(&database).run(&format!("migrate --grant-to {}", login.name)).done();
    let leader = Leader::on_sqlserver(login.url(), "tenure_leases", "jobs", "node-a").await;
    let pass = "BEGIN TRANSACTION;
                EXEC dbo.tenure_fence @scope = N'jobs', @holder = N'node-a', @epoch = 1;
                COMMIT TRANSACTION;";
    login.session().await.unwrap().run(pass).await.unwrap();
    leader.release().await;
    assert_eq!(state(&database), "free");
    let refused = Tenure::on(login.secret_url()).run("scope burn-epochs --scope jobs").failed();
    assert!(refused.contains("only the schema's owner"), "{refused}");
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_leader_is_asked_to_drain_and_the_order_is_taken_back() {
    let database = migrated().await;
    let unknown = tenure(&database).run("drain --scope jobs").failed();
    assert!(unknown.contains("nobody has ever led the scope 'jobs'"), "{unknown}");
    let leader = leader(&database, "node-a").await;
    let timing = Timing::lease(secs(30)).build().unwrap();
    let fence = SqlServerFence::new(database.url().clone(), timing);
    let asked = tenure(&database).run("drain --scope jobs --wait 0s").done();
    assert!(asked.contains("asked node-a to hand over term 1"), "{asked}");
    let scope = leader.term.scope().clone();
    assert_eq!(fence.drained_up_to(&scope).await.unwrap(), leader.term.epoch());

    let undone = tenure(&database).run("drain --scope jobs --undo").done();
    assert!(undone.contains("contends again"), "{undone}");
    assert_eq!(fence.drained_up_to(&scope).await.unwrap(), Epoch::ZERO);
    let again = tenure(&database).run("drain --scope jobs --undo").done();
    assert!(again.contains("nobody was drained"), "{again}");
    leader.release().await;
    let nobody = tenure(&database).run("drain --scope jobs").done();
    assert!(nobody.contains("nobody leads; node-a was the last, in term 1"), "{nobody}");
}
