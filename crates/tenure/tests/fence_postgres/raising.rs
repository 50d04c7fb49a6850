//! A raise only ever goes up, and only for the lock that fences the scope.

use tenure::{
    Epoch, Term,
    fence::{Fence, FenceError, Raised, postgres},
};
use tenure_testkit::{eventually_true, secs};
use tokio_postgres::Client;

use crate::server::{SCOPE, Server, attempt, fence_call, lease_rows, over, place, term};

fn refused_at(epoch: i64) -> Raised {
    Raised::Refused { fence: Epoch::new(epoch) }
}

async fn fence_rows(session: &Client) -> String {
    let query = "SELECT coalesce(string_agg(f::text, ';'), 'none') FROM tenure_fences AS f";
    session.query_one(query, &[]).await.expect("an answer").get(0)
}

#[tokio::test]
async fn a_raise_below_the_fence_is_refused_and_says_where_it_stands() {
    let server = Server::start().await;
    server.raise(&term("b", 7)).await;
    let (fence, session) = (server.fence(), server.session().await);
    let before = fence_rows(&session).await;
    for late in [term("a", 1), term("a", 6), term("b", 6)] {
        assert_eq!(fence.raise(&late, &lease_rows()).await.unwrap(), refused_at(7), "{late}");
    }
    assert_eq!(fence_rows(&session).await, before);
}

/// What a follower does beforehand, so that its first raise is quick.
#[tokio::test]
async fn a_rehearsal_leaves_no_fence_no_slot_and_no_term() {
    let server = Server::start().await;
    let session = server.session().await;
    let left = async || {
        let tables = ["tenure_fences", "tenure_fence_slots", "tenure_terms"];
        let counts = tables.map(|table| format!("(SELECT count(*) FROM {table})"));
        let row = session.query_one(&format!("SELECT {}", counts.join(" + ")), &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    session.batch_execute("ALTER ROLE postgres SET track_functions = 'all'").await.unwrap();
    let fence = server.fence();
    fence.rehearse().await;
    // The session that rehearsed says so when it ends.
    drop(fence);
    eventually_true("it has raised", secs(10), async || {
        let calls = "SELECT FROM pg_stat_user_functions WHERE funcname = 'tenure_raise_fence'";
        session.query_opt(calls, &[]).await.unwrap().is_some()
    })
    .await;
    assert_eq!(left().await, 0);
}

#[tokio::test]
async fn a_raise_at_the_same_epoch_by_another_holder_is_refused() {
    let server = Server::start().await;
    server.raise(&term("a", 3)).await;
    let answer = server.fence().raise(&term("b", 3), &lease_rows()).await.unwrap();
    assert_eq!(answer, refused_at(3));
    assert_eq!(server.fence_row().await, (3, "a".to_owned()));
}

#[tokio::test]
async fn a_raise_whose_reply_was_lost_can_be_repeated() {
    let server = Server::start().await;
    let session = server.session().await;
    server.raise(&term("a", 3)).await;
    let before = fence_rows(&session).await;
    server.raise(&term("a", 3)).await;
    assert_eq!(fence_rows(&session).await, before, "the repeat changes nothing");
}

#[tokio::test]
async fn an_abandoned_raise_that_is_applied_late_changes_nothing() {
    let server = Server::start().await;
    server.lead("z").await;
    let (old, new) = (server.win("a").await, server.win("b").await);
    let (raising, late) = (server.session().await, server.session().await);
    let raise = |term: &Term| {
        let (holder, epoch) = (term.holder(), term.epoch());
        format!(
            "SELECT raised FROM tenure_raise_fence(
                 '{SCOPE}', '{holder}', {epoch}, 'postgres-lease', 'tenure_leases', 1000)"
        )
    };
    raising.batch_execute(&format!("BEGIN; {}", raise(&new))).await.unwrap();
    let abandoned = raise(&old);
    let abandoned = tokio::spawn(async move { late.query_one(&abandoned, &[]).await });
    server.until_a_session_waits().await;
    raising.batch_execute("COMMIT").await.unwrap();
    assert!(!abandoned.await.unwrap().unwrap().get::<_, bool>(0), "it was not raised");

    assert_eq!(server.fence_row().await, (3, "b".to_owned()));
    assert_eq!(attempt(&raising, &fence_call(&new)).await, Ok(()));
    assert_eq!(attempt(&raising, &fence_call(&old)).await, over());
}

#[tokio::test]
async fn of_two_raises_that_wait_for_the_same_transaction_only_the_higher_succeeds() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let mut session = server.session().await;
    let fenced = postgres::begin(&mut session, &old).await.unwrap();
    let raise = |term: Term| {
        let fence = server.fence();
        tokio::spawn(async move { fence.raise(&term, &lease_rows()).await })
    };
    let higher = raise(term("c", 3));
    server.until_sessions_wait(1).await;
    let lower = raise(term("b", 2));
    server.until_sessions_wait(2).await;

    fenced.commit().await.unwrap();
    assert_eq!(higher.await.unwrap().unwrap(), Raised::Raised);
    assert_eq!(lower.await.unwrap().unwrap(), refused_at(3));
    assert_eq!(server.fence_row().await, (3, "c".to_owned()));
}

#[tokio::test]
async fn of_two_first_raises_at_once_the_higher_stays() {
    for order in [[1, 2], [2, 1]] {
        let server = Server::start().await;
        let first = server.session().await;
        let raise = |epoch: i64| {
            format!("SELECT tenure_raise_fence('{SCOPE}', 'n{epoch}', {epoch}, 'etcd', 'c', 1000)")
        };
        first.batch_execute(&format!("BEGIN; {}", raise(order[0]))).await.unwrap();
        let (second, raise) = (server.session().await, raise(order[1]));
        let second = tokio::spawn(async move { second.batch_execute(&raise).await });
        server.until_a_session_waits().await;
        first.batch_execute("COMMIT").await.unwrap();
        second.await.unwrap().unwrap();
        assert_eq!(server.fence_row().await, (2, "n2".to_owned()));
    }
}

#[tokio::test]
async fn another_lock_is_refused_by_name_until_the_operator_switches() {
    let server = Server::start().await;
    let session = server.session().await;
    session.batch_execute("SELECT tenure_create_lease_table('my_leases')").await.unwrap();
    server.raise(&term("a", 1)).await;
    let fence = server.fence();
    for other in [place("etcd", "cluster"), place("postgres-lease", "my_leases")] {
        match fence.raise(&term("b", 2), &other).await {
            Err(FenceError::OtherLock { message }) => {
                let named = "is fenced by the lock postgres-lease tenure_leases, not by ";
                assert!(message.contains(named) && message.contains(&other.name), "{message}");
            }
            answer => panic!("{answer:?}"),
        }
    }
    assert_eq!(server.fence_row().await, (1, "a".to_owned()));

    session.batch_execute("SELECT tenure_switch_lock('billing')").await.unwrap();
    let etcd = place("etcd", "cluster");
    assert_eq!(fence.raise(&term("b", 1), &etcd).await.unwrap(), refused_at(1), "still only up");
    assert_eq!(fence.raise(&term("b", 2), &etcd).await.unwrap(), Raised::Raised);
    assert!(matches!(
        fence.raise(&term("c", 3), &lease_rows()).await,
        Err(FenceError::OtherLock { .. })
    ));
}

#[tokio::test]
async fn the_lock_of_a_scope_that_nobody_has_led_cannot_be_switched() {
    let server = Server::start().await;
    let session = server.session().await;
    let unknown = Err("TN003".to_owned());
    assert_eq!(attempt(&session, "SELECT tenure_switch_lock('nothing')").await, unknown);
    assert_eq!(attempt(&session, "SELECT tenure_burn_epochs('nothing', 1)").await, unknown);
}

#[tokio::test]
async fn a_raise_with_a_null_is_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    let given = ["'billing'", "'a'", "1", "'etcd'", "'cluster'", "1000"];
    for missing in 0..given.len() {
        let mut arguments = given;
        arguments[missing] = "NULL";
        let call = format!("SELECT tenure_raise_fence({})", arguments.join(", "));
        assert_eq!(attempt(&session, &call).await, over(), "{call}");
    }
    assert_eq!(fence_rows(&session).await, "none");
}

#[tokio::test]
async fn nobody_an_epoch_below_one_and_an_endless_margin_are_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    for arguments in [
        "'', 1, 'etcd', 'c', 1000",
        "'a', 0, 'etcd', 'c', 1000",
        "'', 0, 'etcd', 'c', 1000",
        "'a', -1, 'etcd', 'c', 1000",
        "'a', 1, 'etcd', 'c', 0",
    ] {
        let call = format!("SELECT tenure_raise_fence('billing', {arguments})");
        assert_eq!(attempt(&session, &call).await, over(), "{call}");
    }
    assert_eq!(fence_rows(&session).await, "none");
}

#[tokio::test]
async fn two_scopes_do_not_touch_each_other() {
    let server = Server::start().await;
    let current = server.lead("a").await;
    let session = server.session().await;
    let other = "SELECT tenure_raise_fence('shipping', 'b', 9, 'etcd', 'cluster', 1000)";
    session.batch_execute(other).await.unwrap();
    assert_eq!(attempt(&session, &fence_call(&current)).await, Ok(()));
    assert_eq!(server.fence_row().await, (1, "a".to_owned()));
}
