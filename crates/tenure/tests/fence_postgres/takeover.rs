//! A fenced transaction and a takeover are in one order or the other (lessons 6 and 7).

use tenure::{
    Epoch,
    fence::{Fence, FenceError, Raised, postgres},
    lock::{Lock, Renew},
};
use tenure_testkit::{eventually_true, secs};
use tokio_postgres::Client;

use crate::server::{
    PAY, SCOPE, Server, attempt, fence_call, lease_rows, over, place, term, waiting,
};

#[tokio::test]
async fn a_takeover_waits_for_the_fenced_transaction_that_is_open() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &old).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();

    let new = server.win("b").await;
    let raise = tokio::spawn({
        let (fence, new) = (server.fence(), new.clone());
        async move { fence.raise(&new, &lease_rows()).await }
    });
    server.until_a_session_waits().await;
    assert!(!raise.is_finished());
    assert_eq!(server.fence_row().await, (1, "a".to_owned()));

    fenced.commit().await.unwrap();
    assert_eq!(raise.await.unwrap().unwrap(), Raised::Raised);
    assert_eq!(server.order().await, "paid", "what the new leader reads is what the old one wrote");
    assert_eq!(server.fence_row().await, (2, "b".to_owned()));
}

#[tokio::test]
async fn a_takeover_waits_for_every_fenced_transaction_that_is_open() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let (mut one, mut two) = (server.session().await, server.session().await);
    let first = postgres::begin(&mut one, &old).await.unwrap();
    let second = postgres::begin(&mut two, &old).await.unwrap();

    let new = server.win("b").await;
    let raise = tokio::spawn({
        let fence = server.fence();
        async move { fence.raise(&new, &lease_rows()).await }
    });
    server.until_a_session_waits().await;
    first.commit().await.unwrap();
    server.until_a_session_waits().await;
    assert_eq!(server.fence_row().await.0, 1);

    drop(second);
    assert_eq!(raise.await.unwrap().unwrap(), Raised::Raised);
}

#[tokio::test]
async fn a_stale_write_is_refused_once_the_fence_was_raised() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    server.lead("b").await;

    let mut session = server.session().await;
    match postgres::begin(&mut session, &old).await.map(drop) {
        Err(FenceError::Refused { epoch, fence, message }) => {
            assert_eq!((epoch, fence), (Epoch::new(1), Epoch::new(2)));
            assert!(message.contains("term 1 of a in 'billing' is over"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let by_hand = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&old));
    assert_eq!(attempt(&session, &by_hand).await, over());
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn the_fence_row_alone_refuses_a_term_that_the_lock_still_names() {
    for raised in [term("b", 2), term("a", 2)] {
        let server = Server::start().await;
        let old = server.lead("a").await;
        server.raise(&raised).await;

        let session = server.session().await;
        assert_eq!(attempt(&session, &fence_call(&old)).await, over(), "the fence names {raised}");
    }
}

#[tokio::test]
async fn the_fence_row_alone_refuses_another_holder_of_the_same_epoch() {
    let server = Server::start().await;
    server.raise(&term("b", 1)).await;
    server.win("a").await;
    let session = server.session().await;
    session.batch_execute("UPDATE tenure_leases SET lease_epoch = 1").await.unwrap();

    assert_eq!(attempt(&session, &fence_call(&term("a", 1))).await, over());
}

#[tokio::test]
async fn between_a_win_and_its_raise_neither_term_can_write() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let new = server.win("b").await;

    let session = server.session().await;
    assert_eq!(attempt(&session, &fence_call(&new)).await, over());
    assert_eq!(attempt(&session, &fence_call(&old)).await, over());
    server.raise(&new).await;
    assert_eq!(attempt(&session, &fence_call(&new)).await, Ok(()));
}

#[tokio::test]
async fn a_term_whose_lease_has_expired_cannot_write_though_nobody_took_over() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    server.expire().await;

    let session = server.session().await;
    assert_eq!(attempt(&session, &fence_call(&old)).await, over());
}

#[tokio::test]
async fn a_released_term_cannot_write() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    server.lease("a").release(old.epoch()).await.unwrap();

    let session = server.session().await;
    assert_eq!(attempt(&session, &fence_call(&old)).await, over());
}

#[tokio::test]
async fn a_fence_call_that_meets_a_raise_waits_and_is_refused() {
    let server = Server::start().await;
    let (old, etcd) = (term("a", 1), place("etcd", "cluster"));
    assert_eq!(server.fence().raise(&old, &etcd).await.unwrap(), Raised::Raised);
    let raising = server.session().await;
    let raise = format!("SELECT tenure_raise_fence('{SCOPE}', 'b', 2, 'etcd', 'cluster', 1000)");
    raising.batch_execute(&format!("BEGIN; {raise}")).await.unwrap();

    let session = server.session().await;
    let stale = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&old));
    let fenced = tokio::spawn(async move { attempt(&session, &stale).await });
    server.until_a_session_waits().await;
    raising.batch_execute("COMMIT").await.unwrap();

    assert_eq!(fenced.await.unwrap(), over());
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn a_transaction_that_began_before_the_takeover_is_refused_after_it() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute("BEGIN; SELECT count(*) FROM orders").await.unwrap();
    server.lead("b").await;

    assert_eq!(attempt(&session, &fence_call(&old)).await, over());
}

#[tokio::test]
async fn a_transaction_that_began_before_the_expiry_is_refused_after_it() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute("BEGIN; SELECT count(*) FROM orders").await.unwrap();
    let expire = "UPDATE tenure_leases SET expires_at = clock_timestamp()";
    server.session().await.batch_execute(expire).await.unwrap();

    assert_eq!(attempt(&session, &fence_call(&old)).await, over());
}

#[tokio::test]
async fn a_snapshot_from_before_the_takeover_never_passes() {
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        for lock in [lease_rows(), place("etcd", "cluster")] {
            let server = Server::start().await;
            let old = server.win("a").await;
            let raised = server.fence().raise(&old, &lock).await.unwrap();
            assert_eq!(raised, Raised::Raised);
            let session = server.session().await;
            let begin = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM orders");
            session.batch_execute(&begin).await.unwrap();
            let new = server.win("b").await;
            assert_eq!(server.fence().raise(&new, &lock).await.unwrap(), Raised::Raised);

            let write = format!("{}; {PAY}; COMMIT", fence_call(&old));
            let refusal = attempt(&session, &write).await.expect_err("a stale write got by");
            assert!(["TN001", "40001"].contains(&refusal.as_str()), "{isolation}: {refusal}");
            assert_eq!(server.order().await, "new");
        }
    }
}

#[tokio::test]
async fn a_current_term_passes_at_every_isolation_level() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let session = server.session().await;
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let write =
            format!("BEGIN ISOLATION LEVEL {isolation}; {}; {PAY}; COMMIT", fence_call(&term));
        assert_eq!(attempt(&session, &write).await, Ok(()), "{isolation}");
    }
    assert_eq!(server.order().await, "paid");
}

#[tokio::test]
async fn renewals_do_not_wait_for_a_fenced_transaction_that_is_open() {
    let server = Server::start().await;
    let mut lease = server.lease("a");
    let term = crate::server::won(&mut lease, "a").await;
    server.raise(&term).await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &term).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();

    let watcher = server.session().await;
    let renewals = async {
        for _ in 0..10 {
            let renewed = lease.renew(term.epoch()).await.unwrap();
            assert!(matches!(renewed, Renew::Renewed { .. }), "{renewed:?}");
        }
    };
    tokio::select! {
        () = renewals => {}
        () = eventually_true("a wait", secs(30), async || waiting(&watcher).await > 0) => {
            panic!("a renewal waits for the fenced transaction");
        }
    }
    fenced.commit().await.unwrap();
}

#[tokio::test]
async fn a_fenced_transaction_that_is_dropped_is_rolled_back_and_frees_the_takeover() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &old).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();
    drop(fenced);

    server.lead("b").await;
    assert_eq!(server.order().await, "new");
    assert_no_transaction(&session).await;
}

#[tokio::test]
async fn a_refused_begin_leaves_the_session_outside_of_a_transaction() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let new = server.lead("b").await;
    let mut session = server.session().await;
    assert!(postgres::begin(&mut session, &old).await.is_err());
    assert_no_transaction(&session).await;

    let fenced = postgres::begin(&mut session, &new).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();
    fenced.commit().await.unwrap();
    assert_eq!(server.order().await, "paid");
}

#[tokio::test]
async fn a_begin_that_is_given_up_while_it_waits_leaves_no_transaction_behind() {
    let server = Server::start().await;
    let (current, etcd) = (term("a", 1), place("etcd", "cluster"));
    assert_eq!(server.fence().raise(&current, &etcd).await.unwrap(), Raised::Raised);
    let raising = server.session().await;
    let raise = format!("SELECT tenure_raise_fence('{SCOPE}', 'b', 2, 'etcd', 'cluster', 1000)");
    raising.batch_execute(&format!("BEGIN; {raise}")).await.unwrap();

    let mut session = server.session().await;
    tokio::select! {
        begun = postgres::begin(&mut session, &current) => panic!("it did not wait: {begun:?}"),
        () = server.until_a_session_waits() => {}
    }
    raising.batch_execute("ROLLBACK").await.unwrap();
    assert_no_transaction(&session).await;
    let raised = server.fence().raise(&term("c", 3), &etcd).await.unwrap();
    assert_eq!(raised, Raised::Raised, "nothing holds the fence");
}

/// What Postgres says to a savepoint when no transaction is open, not even a failed one.
async fn assert_no_transaction(session: &Client) {
    assert_eq!(attempt(session, "SAVEPOINT here").await, Err("25P01".to_owned()));
}

/// The server answers a `COMMIT` after a failed statement with a rollback, and calls it a success.
#[tokio::test]
async fn a_commit_after_a_statement_that_failed_is_an_error() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &term).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();
    fenced.batch_execute("SELECT 1 / 0").await.unwrap_err();
    let error = fenced.commit().await.unwrap_err();
    assert!(matches!(error, FenceError::Database(_)), "{error:?}");
    assert_eq!(server.order().await, "new");

    let fenced = postgres::begin(&mut session, &term).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();
    fenced.commit().await.unwrap();
    assert_eq!(server.order().await, "paid", "the session is as good as before");
}
