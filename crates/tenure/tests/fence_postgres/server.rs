//! A migrated server with a table of orders, and terms to write them in.

use std::time::Duration;

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, PostgresFence, Raised},
    lock::{
        Acquire, Lock, LockPlace,
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio_postgres::Client;

/// The scope of the examples in the SQL files, as `orders` is their table.
pub const SCOPE: &str = "billing";

/// The row that every test writes; a refused write leaves it `new`.
const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL);
     INSERT INTO orders VALUES (1, 'new')";

pub const PAY: &str = "UPDATE orders SET state = 'paid' WHERE id = 1";

pub struct Server {
    pub postgres: Postgres,
    pub timing: Timing,
}

impl Server {
    /// Leases that no test outlives: what expires is made to.
    pub async fn start() -> Self {
        Self::with_margin(secs(12)).await
    }

    pub async fn with_margin(margin: Duration) -> Self {
        Self::on(Postgres::start().await.expect("a server"), margin).await
    }

    /// One that takes transactions prepared for two-phase commit.
    pub async fn prepared(margin: Duration) -> Self {
        let settings = [("max_prepared_transactions", "4")];
        Self::on(Postgres::with(&settings).await.expect("a server"), margin).await
    }

    async fn on(postgres: Postgres, margin: Duration) -> Self {
        let mut session = postgres.connect().await.expect("a session");
        migrate::postgres::migrate(&mut session, schema::COMPONENT, &schema::POSTGRES)
            .await
            .expect("the schema");
        session.batch_execute(ORDERS).await.expect("the orders");
        let timing = Timing::lease(secs(60)).margin(margin).call_timeout(secs(15));
        Self { postgres, timing: timing.build().expect("a lease of a minute") }
    }

    pub async fn session(&self) -> Client {
        self.postgres.connect().await.expect("a session")
    }

    pub fn url(&self) -> PostgresUrl {
        self.postgres.url().parse().expect("the server's own URL")
    }

    pub fn lease(&self, holder: &str) -> PostgresLease {
        self.lease_in(&LeaseTable::default(), holder)
    }

    pub fn lease_in(&self, table: &LeaseTable, holder: &str) -> PostgresLease {
        let candidate = candidate(SCOPE, holder);
        PostgresLease::new(self.url(), table.clone(), candidate, self.timing).expect("a lock")
    }

    pub fn fence(&self) -> PostgresFence {
        PostgresFence::new(self.url(), self.timing)
    }

    /// Makes whatever lease there is expire, as if its holder had fallen silent.
    pub async fn expire(&self) {
        let expire = "UPDATE tenure_leases SET expires_at = clock_timestamp() - interval '1 s'";
        self.session().await.batch_execute(expire).await.expect("an expired lease");
    }

    /// Wins the scope's next term, and does not raise the fence yet.
    pub async fn win(&self, holder: &str) -> Term {
        self.expire().await;
        won(&mut self.lease(holder), holder).await
    }

    /// Wins the scope's next term, and raises the fence to it.
    pub async fn lead(&self, holder: &str) -> Term {
        let term = self.win(holder).await;
        self.raise(&term).await;
        term
    }

    pub async fn raise(&self, term: &Term) {
        let raised = self.fence().raise(term, &lease_rows()).await.expect("an answer");
        assert_eq!(raised, Raised::Raised);
    }

    /// Returns once a session waits for another one's lock.
    pub async fn until_a_session_waits(&self) {
        self.until_sessions_wait(1).await;
    }

    pub async fn until_sessions_wait(&self, count: usize) {
        let session = self.session().await;
        eventually_true("sessions wait for a lock", secs(10), async || {
            waiting(&session).await == count
        })
        .await;
    }

    /// What the one order says.
    pub async fn order(&self) -> String {
        let query = "SELECT state FROM orders WHERE id = 1";
        self.session().await.query_one(query, &[]).await.expect("the order").get(0)
    }

    /// Where the fence stands: epoch and holder.
    pub async fn fence_row(&self) -> (i64, String) {
        let query = "SELECT epoch, holder FROM tenure_fences WHERE scope = $1";
        let row = self.session().await.query_one(query, &[&SCOPE]).await.expect("a fence");
        (row.get(0), row.get(1))
    }
}

/// How many sessions wait for another one's lock.
pub async fn waiting(session: &Client) -> usize {
    let query = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    session.query(query, &[]).await.expect("an answer").len()
}

pub fn candidate(scope: &str, holder: &str) -> Candidate {
    let scope = Scope::new(scope).expect("a scope");
    Candidate::new(scope, HolderId::new(holder).expect("a holder"))
}

/// A term that nobody has won, for raises that must be refused and for locks outside.
pub fn term(holder: &str, epoch: i64) -> Term {
    let Candidate { scope, holder, .. } = candidate(SCOPE, holder);
    Term::granted(scope, holder, Epoch::new(epoch))
}

pub async fn won(lock: &mut dyn Lock, holder: &str) -> Term {
    match lock.acquire(Epoch::ZERO).await.expect("an answer") {
        Acquire::Granted(grant) => term(holder, grant.epoch.get()),
        Acquire::Held(held) => panic!("held by {held:?}"),
    }
}

pub fn lease_rows() -> LockPlace {
    place("postgres-lease", "tenure_leases")
}

pub fn place(kind: &'static str, name: &str) -> LockPlace {
    LockPlace { kind, name: name.to_owned() }
}

/// The call that any client makes.
pub fn fence_call(term: &Term) -> String {
    format!("SELECT tenure_fence('{}', '{}', {})", term.scope(), term.holder(), term.epoch())
}

/// Runs statements in one message; the SQLSTATE if one failed, after which no transaction is open.
pub async fn attempt(session: &Client, sql: &str) -> Result<(), String> {
    let Err(error) = session.batch_execute(sql).await else { return Ok(()) };
    let code = error.code().unwrap_or_else(|| panic!("{sql}: {error}")).code().to_owned();
    session.batch_execute("ROLLBACK").await.expect("the session lives");
    Err(code)
}

/// The refusal of a term that is over.
pub fn over() -> Result<(), String> {
    Err("TN001".to_owned())
}
