//! The fence looks at the lease table that the scope is led by, whatever its name.

use tenure::{
    fence::{Fence, FenceError, Raised},
    lock::{Lock, postgres_lease::LeaseTable},
};

use crate::server::{PAY, Server, attempt, fence_call, over, place, term, won};

#[tokio::test]
async fn a_lease_table_that_is_not_known_is_refused_by_name() {
    let server = Server::start().await;
    match server.fence().raise(&term("a", 1), &place("postgres-lease", "orders")).await {
        Err(FenceError::OtherLock { message }) => {
            assert!(message.starts_with("no lease table orders is known here"), "{message}");
            assert!(message.contains("tenure_create_lease_table"), "{message}");
        }
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn a_lease_table_of_ones_own_works_with_lock_and_fence() {
    works_with("my_leases").await;
}

#[tokio::test]
async fn a_lease_table_in_a_schema_of_ones_own_works_with_lock_and_fence() {
    works_with("app.leases").await;
}

async fn works_with(name: &str) {
    let server = Server::start().await;
    let session = server.session().await;
    let create = format!("CREATE SCHEMA app; SELECT tenure_create_lease_table('{name}')");
    session.batch_execute(&create).await.unwrap();
    let again = format!("SELECT tenure_create_lease_table('{name}')");
    session.batch_execute(&again).await.unwrap();

    let table = LeaseTable::named(name).unwrap();
    let mut lease = server.lease_in(&table, "a");
    let old = won(&mut lease, "a").await;
    assert_eq!(server.fence().raise(&old, &lease.place()).await.unwrap(), Raised::Raised);
    let write = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&old));
    assert_eq!(attempt(&session, &write).await, Ok(()));

    lease.release(old.epoch()).await.unwrap();
    assert_eq!(attempt(&session, &write).await, over(), "released");
    let mut lease = server.lease_in(&table, "b");
    let new = won(&mut lease, "b").await;
    assert_eq!(new.epoch(), old.epoch().next());
    assert_eq!(server.fence().raise(&new, &lease.place()).await.unwrap(), Raised::Raised);
    assert_eq!(attempt(&session, &fence_call(&new)).await, Ok(()));
}

#[tokio::test]
async fn a_lease_table_that_is_there_already_keeps_its_rows() {
    let server = Server::start().await;
    let session = server.session().await;
    let older = "CREATE TABLE submission_manager_leases (
             lease_name varchar(64) PRIMARY KEY, holder_id varchar(128) NOT NULL,
             lease_epoch bigint NOT NULL, acquired_at timestamptz NOT NULL,
             renewed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL);
         INSERT INTO submission_manager_leases VALUES ('billing', 'old', 41, now(), now(), now());
         SELECT tenure_create_lease_table('submission_manager_leases')";
    session.batch_execute(older).await.unwrap();

    let table = LeaseTable::named("submission_manager_leases").unwrap();
    let mut lease = server.lease_in(&table, "a");
    let term = won(&mut lease, "a").await;
    assert_eq!(term.epoch().get(), 42);
    assert_eq!(server.fence().raise(&term, &lease.place()).await.unwrap(), Raised::Raised);
    assert_eq!(attempt(&session, &fence_call(&term)).await, Ok(()));
}

#[tokio::test]
async fn a_name_cannot_carry_a_statement() {
    let server = Server::start().await;
    let session = server.session().await;
    for name in ["x; DROP TABLE orders", "x (a int); --", "a.b.c; TRUNCATE orders"] {
        let create = format!("SELECT tenure_create_lease_table('{name}')");
        attempt(&session, &create).await.unwrap_err();
        assert!(LeaseTable::named(name).is_err(), "{name}");
    }
    assert_eq!(server.order().await, "new");
}

/// A plpgsql record keeps the types that its fields had first; one session may write in many scopes.
#[tokio::test]
async fn one_session_writes_in_scopes_of_different_locks() {
    let server = Server::start().await;
    let session = server.session().await;
    let scopes = "SELECT tenure_create_lease_table('my_leases');
        INSERT INTO my_leases VALUES ('own', 'a', 1, now(), now(), 'infinity');
        INSERT INTO msp_leader_state (scope_key, epoch, holder_identity) VALUES (42, 1, 'a');
        SELECT tenure_raise_fence('own', 'a', 1, 'postgres-lease', 'my_leases', 1000),
               tenure_raise_fence('advisory', 'a', 1, 'postgres-advisory', '42', 1000),
               tenure_raise_fence('outside', 'a', 1, 'etcd', 'somewhere', 1000)";
    session.batch_execute(scopes).await.unwrap();
    for scope in ["own", "advisory", "outside", "advisory", "own"] {
        let call = format!("SELECT tenure_fence('{scope}', 'a', 1)");
        assert_eq!(attempt(&session, &call).await, Ok(()), "{scope}");
    }
}
