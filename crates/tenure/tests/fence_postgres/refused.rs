//! What the fence function itself refuses, loudly (lesson 9).

use tenure::fence::{Fence, Raised};
use tenure_testkit::{eventually, secs};

use crate::server::{PAY, Server, attempt, fence_call, over, place, term};

/// Postgres itself: a fence that cannot be locked cannot be passed.
const READ_ONLY: &str = "25006";

#[tokio::test]
async fn a_null_is_refused() {
    let server = Server::start().await;
    server.lead("a").await;
    let session = server.session().await;
    for arguments in ["NULL, 'a', 1", "'billing', NULL, 1", "'billing', 'a', NULL"] {
        let call = format!("SELECT tenure_fence({arguments})");
        assert_eq!(attempt(&session, &call).await, over(), "{call}");
    }
}

#[tokio::test]
async fn a_scope_that_nobody_has_ever_led_is_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    assert_eq!(attempt(&session, &fence_call(&term("a", 1))).await, over());
}

#[tokio::test]
async fn another_holder_and_any_other_epoch_are_refused() {
    let server = Server::start().await;
    server.lead("a").await;
    refuses_all_but_the_first_term_of_a(&server).await;
}

#[tokio::test]
async fn another_holder_and_any_other_epoch_are_refused_by_the_fence_row_alone() {
    let server = Server::start().await;
    let raised = server.fence().raise(&term("a", 1), &place("etcd", "cluster")).await;
    assert_eq!(raised.unwrap(), Raised::Raised);
    refuses_all_but_the_first_term_of_a(&server).await;
}

async fn refuses_all_but_the_first_term_of_a(server: &Server) {
    let session = server.session().await;
    for other in [term("b", 1), term("a", 0), term("a", 2), term("a", i64::MAX)] {
        assert_eq!(attempt(&session, &fence_call(&other)).await, over(), "{other}");
    }
    assert_eq!(attempt(&session, &fence_call(&term("a", 1))).await, Ok(()));
}

#[tokio::test]
async fn an_empty_holder_is_refused_where_no_lock_contradicts_it() {
    let server = Server::start().await;
    server.lead("a").await;
    let session = server.session().await;
    session.batch_execute("SELECT tenure_switch_lock('billing')").await.unwrap();
    session.batch_execute("SELECT tenure_burn_epochs('billing', 10)").await.unwrap();
    assert_eq!(server.fence_row().await, (11, String::new()));

    let nobody = "SELECT tenure_fence('billing', '', 11)";
    assert_eq!(attempt(&session, nobody).await, over());
}

#[tokio::test]
async fn a_standby_cannot_pass() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let standby = server.postgres.replica().await.unwrap();
    let session =
        eventually("the standby answers", secs(10), async || standby.connect().await.ok()).await;

    let read_only = "SELECT FROM tenure_fences WHERE pg_is_in_recovery()";
    assert_eq!(session.query(read_only, &[]).await.unwrap().len(), 1);
    assert_eq!(attempt(&session, &fence_call(&term)).await, Err(READ_ONLY.to_owned()));
}

#[tokio::test]
async fn a_read_only_transaction_cannot_pass() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let session = server.session().await;
    let read_only = Err(READ_ONLY.to_owned());

    let fence = fence_call(&term);
    assert_eq!(attempt(&session, &format!("BEGIN READ ONLY; {fence}; COMMIT")).await, read_only);
    session.batch_execute("SET default_transaction_read_only = on").await.unwrap();
    assert_eq!(attempt(&session, &fence).await, read_only);
}

#[tokio::test]
async fn a_refusal_names_the_term_and_where_the_fence_stands() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    server.lead("b").await;
    let session = server.session().await;

    let refused = session.batch_execute(&fence_call(&old)).await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    let expected = "term 1 of a in 'billing' is over: the lock names term 2 of b";
    assert_eq!((refused.message(), refused.detail()), (expected, Some("2")));
    assert!(refused.hint().unwrap().contains("do not retry this write"));
}

#[tokio::test]
async fn a_refused_transaction_writes_nothing_even_if_the_client_goes_on() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    server.lead("b").await;
    let session = server.session().await;

    session.batch_execute("BEGIN").await.unwrap();
    session.batch_execute(&fence_call(&old)).await.unwrap_err();
    session.batch_execute(PAY).await.unwrap_err();
    session.batch_execute("COMMIT").await.unwrap();
    assert_eq!(server.order().await, "new");
}
