//! The history of terms: who led, and why it ended.

use tenure::fence::Fence;

use crate::server::{Server, term};

impl Server {
    /// Every term as `epoch holder lock reason`, in order; `-` for one that goes on.
    async fn history(&self) -> Vec<String> {
        let query = "SELECT format('%s %s %s %s', epoch, holder, lock_kind, coalesce(reason, '-'))
             FROM tenure_terms
             WHERE scope = 'billing' AND (ended_at IS NULL) = (reason IS NULL) AND ended_at >= began_at IS NOT FALSE
             ORDER BY epoch";
        let rows = self.session().await.query(query, &[]).await.expect("the history");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn a_raise_opens_a_term_and_the_next_one_ends_it() {
    let server = Server::start().await;
    server.raise(&term("a", 1)).await;
    assert_eq!(server.history().await, ["1 a postgres-lease -"]);
    server.raise(&term("a", 1)).await;
    assert_eq!(server.history().await, ["1 a postgres-lease -"], "a repeat writes nothing");
    server.raise(&term("b", 5)).await;
    assert_eq!(server.history().await, ["1 a postgres-lease taken_over", "5 b postgres-lease -"]);
}

#[tokio::test]
async fn a_refused_raise_leaves_no_trace() {
    let server = Server::start().await;
    server.raise(&term("b", 5)).await;
    for late in [term("a", 4), term("a", 5)] {
        let _refused = server.fence().raise(&late, &crate::server::lease_rows()).await.unwrap();
    }
    assert_eq!(server.history().await, ["5 b postgres-lease -"]);
}

#[tokio::test]
async fn the_first_reason_for_an_end_stays() {
    let server = Server::start().await;
    let (fence, first) = (server.fence(), term("a", 1));
    server.raise(&first).await;
    fence.end_term(&first, "drained").await.unwrap();
    fence.end_term(&first, "released").await.unwrap();
    server.raise(&term("b", 2)).await;
    assert_eq!(server.history().await, ["1 a postgres-lease drained", "2 b postgres-lease -"]);

    fence.end_term(&first, "too late").await.unwrap();
    assert_eq!(server.history().await[0], "1 a postgres-lease drained");
}

#[tokio::test]
async fn only_the_holder_of_a_term_ends_it() {
    let server = Server::start().await;
    server.raise(&term("a", 1)).await;
    for other in [term("b", 1), term("a", 2)] {
        server.fence().end_term(&other, "mistaken").await.unwrap();
    }
    assert_eq!(server.history().await, ["1 a postgres-lease -"]);
}
