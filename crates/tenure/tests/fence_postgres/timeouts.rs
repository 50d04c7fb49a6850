//! A fenced transaction cannot be left open: its timeouts are tightened, for itself alone (lesson 8).

use tenure::{
    fence::{Fence, FenceError, PostgresFence, Raised, postgres},
    schema,
};
use tenure_testkit::{eventually_true, log::Log, secs};
use tokio_postgres::Client;

use crate::server::{PAY, Server, attempt, fence_call, lease_rows, over};

const SETTINGS: [&str; 2] = ["statement_timeout", "idle_in_transaction_session_timeout"];

async fn shown(session: &Client, setting: &str) -> String {
    session.query_one(&format!("SHOW {setting}"), &[]).await.expect("a setting").get(0)
}

#[tokio::test]
async fn timeouts_are_tightened_to_the_margin_until_the_transaction_ends() {
    let server = Server::start().await;
    let fence = fence_call(&server.lead("a").await);
    let session = server.session().await;
    for setting in SETTINGS {
        for (before, inside) in [
            ("0", "12s"),
            ("1min", "12s"),
            ("1h", "12s"),
            ("12s", "12s"),
            ("5s", "5s"),
            ("700ms", "700ms"),
        ] {
            session.batch_execute(&format!("SET {setting} = '{before}'")).await.unwrap();
            for end in ["COMMIT", "ROLLBACK"] {
                session.batch_execute(&format!("BEGIN; {fence}")).await.unwrap();
                assert_eq!(shown(&session, setting).await, inside, "{setting} = {before}");
                session.batch_execute(end).await.unwrap();
                assert_eq!(shown(&session, setting).await, before, "{setting} after {end}");
            }
        }
        session.batch_execute(&format!("RESET {setting}")).await.unwrap();
    }
}

#[tokio::test]
async fn timeouts_outside_a_transaction_stay_as_they_are() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute(&fence_call(&term)).await.unwrap();
    for setting in SETTINGS {
        assert_eq!(shown(&session, setting).await, "0", "{setting}");
    }
}

#[tokio::test]
async fn an_idle_fenced_transaction_is_ended_and_a_takeover_gets_through() {
    let server = Server::with_margin(secs(2)).await;
    let old = server.lead("a").await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &old).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();

    let new = server.win("b").await;
    let raised = server.fence().raise(&new, &lease_rows()).await.unwrap();
    assert_eq!(raised, Raised::Raised);
    fenced.commit().await.unwrap_err();
    eventually_true("the idle session is gone", secs(5), async || session.is_closed()).await;
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn a_long_statement_in_a_fenced_transaction_is_ended_and_a_takeover_gets_through() {
    let server = Server::with_margin(secs(2)).await;
    let old = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute(&format!("BEGIN; {}; {PAY}", fence_call(&old))).await.unwrap();
    let stuck = tokio::spawn(async move { attempt(&session, "SELECT pg_sleep(60); COMMIT").await });

    let new = server.win("b").await;
    assert_eq!(server.fence().raise(&new, &lease_rows()).await.unwrap(), Raised::Raised);
    assert_eq!(stuck.await.unwrap(), Err("57014".to_owned()));
    assert_eq!(server.order().await, "new");
}

/// A transaction that passed the fence, and is kept open by a short statement again and again.
async fn kept_busy(session: Client, fence: String) -> tokio::task::JoinHandle<()> {
    session.batch_execute(&format!("BEGIN; {fence}; {PAY}")).await.unwrap();
    tokio::spawn(
        async move { while session.batch_execute("SELECT pg_sleep(0.05)").await.is_ok() {} },
    )
}

#[tokio::test]
async fn a_fenced_transaction_that_is_kept_busy_is_ended_and_a_takeover_gets_through() {
    let server = Server::with_margin(secs(2)).await;
    let old = server.lead("a").await;
    let busy = kept_busy(server.session().await, fence_call(&old)).await;
    let new = server.win("b").await;
    assert_eq!(server.fence().raise(&new, &lease_rows()).await.unwrap(), Raised::Raised);
    busy.await.unwrap();
    assert_eq!(server.order().await, "new", "what it had written is gone with it");
}

/// What is told of this session: which it is, whose, and what to do about it.
fn told_of(log: &Log, pid: i32) -> Option<String> {
    let told = log.events("fence_held_back").into_iter().find(|fields| fields["pid"] == pid)?;
    let part = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    Some(format!("{} of {}: {}", part("application"), part("role"), part("help")))
}

#[tokio::test]
async fn whoever_may_not_be_ended_holds_a_raise_back_by_name_and_others_are_left_alone() {
    let log = Log::kept();
    let server = Server::with_margin(secs(1)).await;
    let old = server.lead("a").await;
    let admin = server.session().await;
    let grants = schema::grants_to("clerk");
    admin.batch_execute(&format!("CREATE ROLE clerk LOGIN; {grants}")).await.unwrap();
    let bystander = server.session().await;
    bystander.batch_execute("BEGIN; SELECT FROM tenure_fences").await.unwrap();
    // The superuser's transaction is not the clerk's to end.
    let session = server.session().await;
    session.batch_execute("SET application_name = 'payroll'").await.unwrap();
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let busy = kept_busy(session, fence_call(&old)).await;
    let new = server.win("b").await;
    let url = server.postgres.url_as("clerk", "postgres").parse().unwrap();
    let held_back = PostgresFence::new(url, server.timing).raise(&new, &lease_rows()).await;
    assert!(matches!(held_back, Err(FenceError::Database(_))), "{held_back:?}");
    assert!(!busy.is_finished());
    assert_eq!(
        told_of(&log, pid).as_deref(),
        Some(
            "payroll of postgres: this role may not end it: pg_terminate_backend, by its owner or a superuser"
        )
    );
    // A superuser's raise ends it, and nobody else.
    assert_eq!(server.fence().raise(&new, &lease_rows()).await.unwrap(), Raised::Raised);
    busy.await.unwrap();
    bystander.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn a_prepared_transaction_is_rolled_back_and_a_takeover_gets_through() {
    let server = Server::prepared(secs(1)).await;
    let old = server.lead("a").await;
    let session = server.session().await;
    let prepare = |gid: &str, fence: &str, write: &str| {
        format!("BEGIN; {fence}; {write}; PREPARE TRANSACTION '{gid}'")
    };
    session.batch_execute(&prepare("pay''me", &fence_call(&old), PAY)).await.unwrap();
    let insert = "INSERT INTO orders VALUES (2, 'new')";
    session.batch_execute(&prepare("other", "SELECT 1", insert)).await.unwrap();

    let new = server.win("b").await;
    assert_eq!(server.fence().raise(&new, &lease_rows()).await.unwrap(), Raised::Raised);
    let left = session.query("SELECT gid FROM pg_prepared_xacts", &[]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["other"]);
    assert_eq!(server.order().await, "new");
    assert_eq!(attempt(&session, &format!("BEGIN; {}; COMMIT", fence_call(&old))).await, over());
    session.batch_execute("ROLLBACK PREPARED 'other'").await.unwrap();
}
