//! Terms of one scope, each of which takes over from the one before.

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, PostgresFence, Raised},
    lock::{
        Acquire, Lock, LockPlace,
        postgres_lease::{LeaseTable, PostgresLease},
    },
};
use tenure_database::postgres::PostgresUrl;
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::{eventually::secs, postgres::Postgres};

/// Two nodes that win in turn, on sessions that stay open. A takeover is what a schedule has most of.
pub struct Terms {
    scope: Scope,
    owner: Client,
    end_lease: String,
    /// The next winner is the first.
    nodes: Mutex<Vec<(HolderId, PostgresLease)>>,
    fence: PostgresFence,
    place: LockPlace,
}

impl Terms {
    /// On a migrated server; leases that no test outlives.
    ///
    /// # Panics
    /// When that is no name of a table or of a scope, or nobody answers.
    pub async fn of(postgres: &Postgres, table: &str, scope: &str) -> Self {
        let url: PostgresUrl = postgres.url().parse().expect("the server's own URL");
        let timing = Timing::lease(secs(600)).build().expect("a lease of ten minutes");
        let scope = Scope::new(scope).expect("a scope");
        let lease = LeaseTable::named(table).expect("a table");
        let node = |name: &str| {
            let holder = HolderId::new(name).expect("a holder");
            let candidate = Candidate::new(scope.clone(), holder.clone());
            let lock = PostgresLease::new(url.clone(), lease.clone(), candidate, timing);
            (holder, lock.expect("a lock"))
        };
        let nodes = vec![node("node-1"), node("node-2")];
        let place = nodes[0].1.place();
        Self {
            owner: postgres.connect().await.expect("a session"),
            end_lease: format!(
                "UPDATE {table} SET expires_at = now() WHERE lease_name = '{scope}'"
            ),
            nodes: Mutex::new(nodes),
            fence: PostgresFence::new(url.clone(), timing),
            scope,
            place,
        }
    }

    /// A term that may write from now on; all before it may not.
    pub async fn next(&self) -> Term {
        let term = self.win().await;
        self.raise(&term).await;
        term
    }

    /// Ends the lease, and wins the next term; the fence is still where it was.
    ///
    /// # Panics
    /// When nobody answers, or somebody else has won.
    pub async fn win(&self) -> Term {
        self.owner.batch_execute(&self.end_lease).await.expect("a lease that has ended");
        let mut nodes = self.nodes.lock().await;
        nodes.rotate_left(1);
        let (holder, lock) = &mut nodes[1];
        match lock.acquire(Epoch::ZERO).await.expect("an answer") {
            Acquire::Granted(grant) => {
                Term::granted(self.scope.clone(), holder.clone(), grant.epoch)
            }
            Acquire::Held(held) => panic!("held by {held:?}"),
        }
    }

    /// Raises the fence to a term that was won.
    ///
    /// # Panics
    /// When nobody answers, or the fence is above it.
    pub async fn raise(&self, term: &Term) {
        let raised = self.fence.raise(term, &self.place).await.expect("an answer");
        assert_eq!(raised, Raised::Raised, "{term}");
    }
}
