//! Epochs never go back (lesson 13).

use tenure::fence::{Fence, FenceError, postgres};

use crate::server::{PAY, Server, attempt, fence_call, lease_rows, over, won};

#[tokio::test]
async fn burnt_epochs_shut_out_the_holder_and_the_next_win_goes_above_them() {
    let server = Server::start().await;
    let mut lease = server.lease("a");
    let old = won(&mut lease, "a").await;
    server.raise(&old).await;
    let session = server.session().await;
    let burn = "SELECT tenure_burn_epochs('billing', 1000)";
    let stands_at: i64 = session.query_one(burn, &[]).await.unwrap().get(0);
    assert_eq!(stands_at, 1001);

    assert_eq!(attempt(&session, &fence_call(&old)).await, over());
    let again = server.fence().raise(&old, &lease_rows()).await.unwrap();
    assert_ne!(again, tenure::fence::Raised::Raised);
    let new = server.lead("b").await;
    assert_eq!(new.epoch().get(), 1002);
    assert_eq!(attempt(&session, &fence_call(&new)).await, Ok(()));

    let query = "SELECT reason FROM tenure_terms WHERE scope = 'billing' AND epoch = 1";
    let reason: String = session.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(reason, "epochs_burnt");
}

#[tokio::test]
async fn burning_waits_for_the_fenced_transaction_that_is_open() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &old).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();

    let operator = server.session().await;
    let burn =
        tokio::spawn(
            async move { attempt(&operator, "SELECT tenure_burn_epochs('billing', 1)").await },
        );
    server.until_a_session_waits().await;
    fenced.commit().await.unwrap();
    assert_eq!(burn.await.unwrap(), Ok(()));
    assert_eq!(server.order().await, "paid");
    let refused = postgres::begin(&mut session, &old).await.map(drop).unwrap_err();
    assert!(matches!(refused, FenceError::Refused { .. }), "{refused:?}");
}

#[tokio::test]
async fn no_fewer_than_one_epoch_can_be_burnt() {
    let server = Server::start().await;
    server.lead("a").await;
    let session = server.session().await;
    for count in ["0", "-5", "NULL"] {
        let burn = format!("SELECT tenure_burn_epochs('billing', {count})");
        assert_eq!(attempt(&session, &burn).await, Err("TN003".to_owned()), "{burn}");
    }
    assert_eq!(server.fence_row().await, (1, "a".to_owned()));
}

#[tokio::test]
async fn a_win_goes_above_the_fence_even_if_the_lease_row_is_gone() {
    let server = Server::start().await;
    server.lead("a").await;
    server.lead("b").await;
    let session = server.session().await;
    session.batch_execute("DELETE FROM tenure_leases").await.unwrap();
    let new = won(&mut server.lease("c"), "c").await;
    assert_eq!(new.epoch().get(), 3);
    server.raise(&new).await;
    assert_eq!(attempt(&session, &fence_call(&new)).await, Ok(()));
}

#[tokio::test]
async fn a_deleted_lease_row_stops_its_holder_from_writing() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute("DELETE FROM tenure_leases").await.unwrap();
    assert_eq!(attempt(&session, &fence_call(&term)).await, over());
}
