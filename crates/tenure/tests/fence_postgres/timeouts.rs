//! A fenced transaction cannot be left open: its timeouts are tightened, for itself alone (lesson 8).

use tenure::fence::{Fence, Raised, postgres};
use tenure_testkit::{eventually_true, secs};
use tokio_postgres::Client;

use crate::server::{PAY, Server, attempt, fence_call, lease_rows};

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
