//! The trigger `tenure_require_fence` catches whoever forgot the fence (lesson 9).

use tenure::Term;
use tokio_postgres::Client;

use crate::server::{PAY, SCOPE, Server, attempt, fence_call, over};

const REQUIRE_FENCE: &str = include_str!("../../sql/postgres/schema/2/require_fence.sql");

/// A current term, and a session on a server whose orders are guarded as the documentation says.
async fn guarded() -> (Server, Term, Client) {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute(&documented_trigger()).await.expect("the documented trigger");
    (server, term, session)
}

/// The first statement in the header of the function's own file.
fn documented_trigger() -> String {
    documented(0)
}

/// The second: for tables with partitions.
fn documented_trigger_for_partitions() -> String {
    documented(1)
}

fn documented(which: usize) -> String {
    let lines = REQUIRE_FENCE.lines().filter_map(|line| line.strip_prefix("--   "));
    let lines: Vec<_> = lines.collect();
    let statement = lines.chunks(2).nth(which).expect("another example");
    assert!(statement[0].starts_with("CREATE TRIGGER") && statement[1].contains(SCOPE));
    statement.join(" ")
}

#[tokio::test]
async fn a_transaction_that_calls_the_fence_first_may_write() {
    let (server, term, session) = guarded().await;
    let fence = fence_call(&term);
    assert_eq!(attempt(&session, &format!("BEGIN; {fence}; {PAY}; COMMIT")).await, Ok(()));
    assert_eq!(server.order().await, "paid");

    let rest =
        "INSERT INTO orders VALUES (2, 'new'); DELETE FROM orders WHERE id = 2; TRUNCATE orders";
    assert_eq!(attempt(&session, &format!("BEGIN; {fence}; {rest}; COMMIT")).await, Ok(()));
}

#[tokio::test]
async fn a_statement_that_is_joined_to_the_fence_may_write() {
    let (server, _, session) = guarded().await;
    let joined = "WITH f AS MATERIALIZED (SELECT tenure_fence('billing', 'a', 1))
         UPDATE orders SET state = 'paid' FROM f WHERE id = 1";
    assert_eq!(attempt(&session, joined).await, Ok(()));
    assert_eq!(server.order().await, "paid");

    let stale = joined.replace("'a', 1", "'a', 0").replace("paid", "lost");
    assert_eq!(attempt(&session, &stale).await, over());
    assert_eq!(server.order().await, "paid");
}

#[tokio::test]
async fn a_write_without_the_fence_is_refused() {
    let (server, _, session) = guarded().await;
    for write in [
        PAY,
        "UPDATE orders SET state = 'paid' WHERE id = 404",
        "INSERT INTO orders VALUES (2, 'new')",
        "INSERT INTO orders VALUES (1, 'new') ON CONFLICT DO NOTHING",
        "INSERT INTO orders VALUES (1, 'new') ON CONFLICT (id) DO UPDATE SET state = 'paid'",
        "MERGE INTO orders USING (VALUES (1)) AS v (n) ON id = n WHEN MATCHED THEN DELETE",
        "DELETE FROM orders",
        "TRUNCATE orders",
        "COPY orders FROM PROGRAM 'echo 2,new' (FORMAT csv)",
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone",
    ] {
        assert_eq!(attempt(&session, write).await, over(), "{write}");
    }
    let query = "SELECT string_agg(id || state, ',') FROM orders";
    let left: String = session.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!((left.as_str(), server.order().await.as_str()), ("1new", "new"));
}

#[tokio::test]
async fn an_unreferenced_cte_is_never_run_and_the_write_is_refused() {
    let (server, _, session) = guarded().await;
    let unreferenced = "WITH f AS (SELECT tenure_fence('billing', 'a', 1))
         UPDATE orders SET state = 'paid' WHERE id = 1";
    assert_eq!(attempt(&session, unreferenced).await, over());
    let materialized = unreferenced.replace("f AS (", "f AS MATERIALIZED (");
    assert_eq!(attempt(&session, &materialized).await, over());
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn a_fence_that_was_committed_before_the_write_is_refused() {
    let (server, term, session) = guarded().await;
    session.batch_execute(&fence_call(&term)).await.unwrap();
    assert_eq!(attempt(&session, PAY).await, over());

    let chained = format!("BEGIN; {}; COMMIT AND CHAIN; {PAY}; COMMIT", fence_call(&term));
    assert_eq!(attempt(&session, &chained).await, over());
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn a_write_before_the_fence_is_refused() {
    let (server, term, session) = guarded().await;
    let late = format!("BEGIN; {PAY}; {}; COMMIT", fence_call(&term));
    assert_eq!(attempt(&session, &late).await, over());
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn a_fence_of_another_scope_is_refused() {
    let (server, _, session) = guarded().await;
    let raise = "SELECT tenure_raise_fence('shipping', 'a', 1, 'etcd', 'cluster', 1000)";
    session.batch_execute(raise).await.unwrap();
    let other = "SELECT tenure_fence('shipping', 'a', 1)";
    assert_eq!(attempt(&session, &format!("BEGIN; {other}; {PAY}; COMMIT")).await, over());
    assert_eq!(server.order().await, "new");
}

#[tokio::test]
async fn a_transaction_may_pass_the_fences_of_two_scopes() {
    let (server, term, session) = guarded().await;
    let raise = "SELECT tenure_raise_fence('shipping', 'a', 1, 'etcd', 'cluster', 1000)";
    session.batch_execute(raise).await.unwrap();
    let other = "SELECT tenure_fence('shipping', 'a', 1)";
    let both = format!("BEGIN; {}; {other}; {PAY}; COMMIT", fence_call(&term));
    assert_eq!(attempt(&session, &both).await, Ok(()));
    assert_eq!(server.order().await, "paid");
}

#[tokio::test]
async fn a_fence_that_was_rolled_back_to_a_savepoint_is_refused() {
    let (server, term, session) = guarded().await;
    let fence = fence_call(&term);
    let undone = format!("BEGIN; SAVEPOINT s; {fence}; ROLLBACK TO SAVEPOINT s; {PAY}; COMMIT");
    assert_eq!(attempt(&session, &undone).await, over());
    assert_eq!(server.order().await, "new");

    let kept = format!("BEGIN; SAVEPOINT s; {fence}; RELEASE SAVEPOINT s; {PAY}; COMMIT");
    assert_eq!(attempt(&session, &kept).await, Ok(()));
    assert_eq!(server.order().await, "paid");
}

#[tokio::test]
async fn the_note_of_another_transaction_means_nothing() {
    let (server, term, session) = guarded().await;
    session.batch_execute(&format!("BEGIN; {}", fence_call(&term))).await.unwrap();
    let query = "SELECT current_setting('tenure.fenced')";
    let note: String = session.query_one(query, &[]).await.unwrap().get(0);
    session.batch_execute("COMMIT").await.unwrap();
    assert!(note.ends_with(" billing"), "{note}");

    session.batch_execute(&format!("SET tenure.fenced = '{note}'")).await.unwrap();
    assert_eq!(attempt(&session, PAY).await, over());
    let local = format!("BEGIN; SET LOCAL tenure.fenced = '{note}'; {PAY}; COMMIT");
    assert_eq!(attempt(&session, &local).await, over());
    assert_eq!(server.order().await, "new");

    let fenced = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&term));
    assert_eq!(
        attempt(&session, &fenced).await,
        Ok(()),
        "what was set by hand does no harm either"
    );
}

#[tokio::test]
async fn a_trigger_before_each_row_is_refused_and_swallows_no_write() {
    let (server, term, session) = guarded().await;
    let rows =
        documented_trigger().replace("EACH STATEMENT", "EACH ROW").replace(" OR TRUNCATE", "");
    let before = rows.replace("AFTER", "BEFORE").replace("TRIGGER fenced", "TRIGGER each_row");
    session.batch_execute(&before).await.unwrap();

    let fenced = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&term));
    assert_eq!(attempt(&session, &fenced).await, Err("TN003".to_owned()));
    assert_eq!(server.order().await, "new");
}

const PARTITIONED: &str = "DROP TABLE orders;
     CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL) PARTITION BY RANGE (id);
     CREATE TABLE orders_low PARTITION OF orders FOR VALUES FROM (0) TO (100);
     INSERT INTO orders VALUES (1, 'new')";

async fn partitioned(trigger: &str) -> (Server, Term, Client) {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let session = server.session().await;
    session.batch_execute(&format!("{PARTITIONED}; {trigger}")).await.unwrap();
    (server, term, session)
}

#[tokio::test]
async fn a_trigger_that_does_not_see_the_partitions_is_refused() {
    let (_server, term, session) = partitioned(&documented_trigger()).await;
    let misplaced = Err("TN003".to_owned());
    assert_eq!(attempt(&session, PAY).await, misplaced);
    let fenced = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&term));
    assert_eq!(attempt(&session, &fenced).await, misplaced, "also for whoever passed the fence");
}

#[tokio::test]
async fn partitions_old_and_new_are_guarded_by_their_parents_trigger() {
    let (_server, term, session) = partitioned(&documented_trigger_for_partitions()).await;
    let high = "CREATE TABLE orders_high PARTITION OF orders FOR VALUES FROM (100) TO (200)";
    session.batch_execute(high).await.unwrap();
    for write in [
        PAY,
        "INSERT INTO orders VALUES (2, 'new')",
        "INSERT INTO orders_low VALUES (2, 'new')",
        "INSERT INTO orders_high VALUES (101, 'new')",
        "UPDATE orders_low SET state = 'paid' WHERE id = 1",
        "UPDATE orders SET id = 150 WHERE id = 1",
        "DELETE FROM orders_low WHERE id = 1",
    ] {
        assert_eq!(attempt(&session, write).await, over(), "{write}");
        let fenced = format!("BEGIN; {}; {write}; ROLLBACK", fence_call(&term));
        assert_eq!(attempt(&session, &fenced).await, Ok(()), "{write}");
    }
}
