//! What must be durable does not run without the settings that make it so: where `BEGIN` or they fail, nothing was
//! sent behind them that could commit by itself.

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term,
    fence::{Fence, PostgresFence},
    lock::{
        Lock,
        postgres_lease::{LeaseTable, PostgresLease},
    },
};
use tenure_database::postgres::PostgresUrl;
use tenure_testkit::wire::{Failure, Wire};

use crate::server::{Server, lease_rows};

async fn wire_to(server: &Server) -> (Wire, PostgresUrl) {
    let wire = Wire::to(server.postgres.addr()).await.unwrap();
    let url = wire.url_as("postgres", "postgres").parse().unwrap();
    (wire, url)
}

async fn count(server: &Server, table: &str, column: &str, scope: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table} WHERE {column} = $1");
    server.session().await.query_one(&sql, &[&scope]).await.unwrap().get(0)
}

/// Fails one message after the other, each in a scope of its own. Whoever is told of a failure must find that `has`
/// counts nothing in it.
async fn fails_whole(
    wire: &Wire,
    has: impl AsyncFn(&str) -> i64,
    call: impl AsyncFn(&str) -> bool,
) {
    let mut failed = 0;
    for at in 0.. {
        let scope = format!("scope-{at}");
        wire.arm(Failure::Fails, at);
        let is_done = call(&scope).await;
        let seen = wire.disarm();
        let Some(bite) = seen.bite else { break };
        assert!(is_done || bite.has_effect, "{bite:?}");
        wire.settled().await;
        assert_eq!(has(&scope).await, i64::from(is_done), "without {}", bite.message);
        failed += usize::from(!is_done);
    }
    assert!(failed > 4, "{failed} messages failed");
}

#[tokio::test]
async fn a_raise_that_fails_at_any_message_has_raised_nothing() {
    let server = Server::start().await;
    let (wire, url) = wire_to(&server).await;
    let has = async |scope: &str| count(&server, "tenure_fences", "scope", scope).await;
    fails_whole(&wire, has, async |scope| {
        let term = Term::granted(named(scope), HolderId::new("a").unwrap(), Epoch::new(1));
        PostgresFence::new(url.clone(), server.timing).raise(&term, &lease_rows()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_fails_at_any_message_is_granted_to_nobody() {
    let server = Server::start().await;
    let (wire, url) = wire_to(&server).await;
    let has = async |scope: &str| count(&server, "tenure_leases", "lease_name", scope).await;
    fails_whole(&wire, has, async |scope| {
        let candidate = Candidate::new(named(scope), HolderId::new("a").unwrap());
        let table = LeaseTable::default();
        let mut lock = PostgresLease::new(url.clone(), table, candidate, server.timing).unwrap();
        lock.acquire(Epoch::ZERO).await.is_ok()
    })
    .await;
}

fn named(scope: &str) -> Scope {
    Scope::new(scope).unwrap()
}
