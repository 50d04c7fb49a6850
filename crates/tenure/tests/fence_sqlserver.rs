//! The fence of SQL Server, as any client sees it: where `TENURE_TEST_SQLSERVER` names a server.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, FenceError, Raised, SqlServerFence, sqlserver as fence},
    lock::{
        Acquire, Lock, LockPlace, Renew,
        sqlserver_lease::{LeaseTable, SqlServerLease},
    },
    schema,
};
use tenure_database::{
    DatabaseError,
    sqlserver::{Meaning, Session},
};
use tenure_testkit::{
    eventually_true, secs,
    sqlserver::{Database, not_shown},
};

const NEEDS_LOCKS: &str = "it takes lock hints and ignores them";
const EXPIRE: &str =
    "UPDATE dbo.tenure_leases SET expires_at = DATEADD(SECOND, -1, SYSUTCDATETIME())";
const INSERT: &str = "INSERT INTO dbo.work VALUES (1)";

/// A database with a table to write to.
struct Server {
    database: Database,
}

impl Server {
    async fn start() -> Self {
        let database = Database::with(&[(schema::COMPONENT, &schema::SQLSERVER)]).await.unwrap();
        let server = Self { database };
        server.session().await.run("CREATE TABLE dbo.work (id int)").await.unwrap();
        server
    }

    async fn session(&self) -> Session {
        self.database.session().await.unwrap()
    }

    fn lock(&self, holder: &str) -> SqlServerLease {
        let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap());
        let url = self.database.url().clone();
        SqlServerLease::new(url, LeaseTable::default(), candidate, timing()).unwrap()
    }

    fn fence(&self) -> SqlServerFence {
        SqlServerFence::new(self.database.url().clone(), timing())
    }

    /// Wins the lease, which whoever had it has lost, and raises the fence.
    async fn lead(&self, holder: &str) -> (SqlServerLease, Term) {
        let mut lock = self.lock(holder);
        let term = self.win(&mut lock, holder).await;
        assert_eq!(self.fence().raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
        (lock, term)
    }

    async fn win(&self, lock: &mut SqlServerLease, holder: &str) -> Term {
        self.session().await.run(EXPIRE).await.unwrap();
        let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else {
            panic!("the lease was not free");
        };
        Term::granted(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap(), grant.epoch)
    }

    async fn written(&self) -> i32 {
        let mut session = self.session().await;
        let rows = session.query_text("SELECT COUNT(*) AS n FROM dbo.work", &[]).await.unwrap();
        rows[0].need("n").unwrap()
    }

    /// Whether the law can be shown here.
    async fn locks(&self, law: &str) -> bool {
        let locks =
            self.database.locks().await.unwrap() && self.database.shows_waits().await.unwrap();
        if !locks {
            not_shown(law, NEEDS_LOCKS);
        }
        locks
    }

    async fn somebody_waits(&self) {
        let waiting = "SELECT session_id FROM sys.dm_exec_requests WHERE blocking_session_id <> 0";
        eventually_true("somebody waits for a lock", secs(20), async || {
            !self.session().await.query_text(waiting, &[]).await.unwrap().is_empty()
        })
        .await;
    }
}

fn timing() -> Timing {
    Timing::lease(secs(60)).build().unwrap()
}

/// The call as any client writes it.
fn call(term: &Term) -> String {
    let (scope, holder, epoch) = (term.scope(), term.holder(), term.epoch());
    format!("EXEC dbo.tenure_fence @scope = N'{scope}', @holder = N'{holder}', @epoch = {epoch};")
}

/// One batch: the fence, and a write behind it.
fn fenced_insert(term: &Term) -> String {
    format!("BEGIN TRANSACTION; {} {INSERT}; COMMIT TRANSACTION;", call(term))
}

fn meaning(result: Result<(), impl Into<DatabaseError>>) -> Option<Meaning> {
    result.map_err(Into::into).unwrap_err().meaning()
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_term_writes_until_the_next_one_has_raised_the_fence() {
    let server = Server::start().await;
    let (_lock, first) = server.lead("node-a").await;
    let mut session = server.session().await;
    session.run(&fenced_insert(&first)).await.unwrap();
    assert_eq!(server.written().await, 1);

    let (_lock, second) = server.lead("node-b").await;
    assert_eq!(meaning(session.run(&fenced_insert(&first)).await), Some(Meaning::Refused));
    assert_eq!(server.written().await, 1, "a term that is over has written");
    let mut session = server.session().await;
    session.run("BEGIN TRANSACTION").await.unwrap();
    fence::pass(&mut session, &second).await.unwrap();
    session.run(INSERT).await.unwrap();
    session.run("COMMIT TRANSACTION").await.unwrap();
    assert_eq!(server.written().await, 2);

    let mut session = server.session().await;
    session.run("BEGIN TRANSACTION").await.unwrap();
    let refused = fence::pass(&mut session, &first).await.unwrap_err();
    let FenceError::Refused { epoch, fence, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((epoch, fence), (first.epoch(), second.epoch()));
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn whatever_is_not_the_current_term_is_refused_and_says_why() {
    let server = Server::start().await;
    let (_lock, term) = server.lead("100%").await;
    let refused = async |arguments: &str, why: &str| {
        let call = format!("BEGIN TRANSACTION; EXEC dbo.tenure_fence {arguments}; {INSERT};");
        let told = DatabaseError::from(server.session().await.run(&call).await.unwrap_err());
        assert_eq!(told.meaning(), Some(Meaning::Refused), "{arguments}: {told:?}");
        let told = told.server_message().unwrap();
        assert!(told.contains(why), "{arguments}: {told}");
    };
    let epoch = term.epoch();
    refused("@scope = NULL, @holder = N'100%', @epoch = 1", "must be given").await;
    refused(&format!("@scope = N'jobs', @holder = N'', @epoch = {epoch}"), "must be given").await;
    refused("@scope = N'jobs', @holder = N'100%', @epoch = NULL", "must be given").await;
    refused("@scope = N'none', @holder = N'100%', @epoch = 1", "nobody has ever led").await;
    refused(&format!("@scope = N'jobs', @holder = N'node-b', @epoch = {epoch}"), "of 100%").await;
    refused("@scope = N'jobs', @holder = N'100%', @epoch = 9", "names term 1 of 100%").await;
    let outside = server.session().await.run(&call(&term)).await.unwrap_err();
    assert!(outside.to_string().contains("inside a transaction"), "{outside}");
    server.session().await.run(EXPIRE).await.unwrap();
    refused(&format!("@scope = N'jobs', @holder = N'100%', @epoch = {epoch}"), "expired").await;
    assert_eq!(server.written().await, 0);
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn where_the_lock_is_elsewhere_the_fence_alone_refuses() {
    let server = Server::start().await;
    let term = |holder: &str, epoch| {
        let scope = Scope::new("jobs").unwrap();
        Term::granted(scope, HolderId::new(holder).unwrap(), Epoch::new(epoch))
    };
    let place = LockPlace { kind: "etcd", name: "cluster-1".to_owned() };
    let current = term("node-a", 7);
    assert_eq!(server.fence().raise(&current, &place).await.unwrap(), Raised::Raised);
    server.session().await.run(&fenced_insert(&current)).await.unwrap();
    for other in [term("node-b", 7), term("node-a", 6), term("node-a", 8)] {
        let refused = server.session().await.run(&fenced_insert(&other)).await;
        assert_eq!(meaning(refused), Some(Meaning::Refused), "{other:?}");
    }
    let below = server.fence().raise(&term("node-b", 6), &place).await.unwrap();
    assert_eq!(below, Raised::Refused { fence: Epoch::new(7) });
    assert_eq!(server.fence().raise(&current, &place).await.unwrap(), Raised::Raised, "again");
    assert_eq!(server.written().await, 1);
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_refusal_ends_the_transaction_of_a_client_that_did_not_ask_for_it() {
    let server = Server::start().await;
    let (_lock, first) = server.lead("node-a").await;
    server.lead("node-b").await;
    let mut session = server.session().await;
    session.run("SET XACT_ABORT OFF").await.unwrap();
    session.run(&format!("BEGIN TRANSACTION; {INSERT};")).await.unwrap();
    assert_eq!(meaning(session.run(&call(&first)).await), Some(Meaning::Refused));
    let rows = session.query_text("SELECT @@TRANCOUNT AS n", &[]).await.unwrap();
    assert_eq!(rows[0].need::<i32>("n").unwrap(), 0, "the transaction goes on");
    assert_eq!(server.written().await, 0);
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_renewal_does_not_wait_for_a_fenced_transaction() {
    let server = Server::start().await;
    let (mut lock, term) = server.lead("node-a").await;
    let mut session = server.session().await;
    session.run("BEGIN TRANSACTION").await.unwrap();
    fence::pass(&mut session, &term).await.unwrap();
    session.run(INSERT).await.unwrap();
    let renewed = lock.renew(term.epoch()).await.unwrap();
    assert!(matches!(renewed, Renew::Renewed { .. }), "{renewed:?}");
    session.run("COMMIT TRANSACTION").await.unwrap();
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_raise_waits_for_the_fenced_transaction_that_is_open() {
    let server = Server::start().await;
    if !server.locks("a_raise_waits_for_the_fenced_transaction_that_is_open").await {
        return;
    }
    let (_lock, first) = server.lead("node-a").await;
    let mut session = server.session().await;
    session.run("BEGIN TRANSACTION").await.unwrap();
    fence::pass(&mut session, &first).await.unwrap();
    let mut lock = server.lock("node-b");
    let second = server.win(&mut lock, "node-b").await;
    let (fence, place) = (server.fence(), lock.place());
    let raise = tokio::spawn(async move { fence.raise(&second, &place).await });
    server.somebody_waits().await;
    assert!(!raise.is_finished(), "a takeover went by a transaction that is open");
    session.run(INSERT).await.unwrap();
    session.run("COMMIT TRANSACTION").await.unwrap();
    assert_eq!(raise.await.unwrap().unwrap(), Raised::Raised);
    assert_eq!(server.written().await, 1, "what passed the fence in time counts");
    let late = server.session().await.run(&fenced_insert(&first)).await;
    assert_eq!(meaning(late), Some(Meaning::Refused));
}

/// A raise of the next term that is not committed yet.
async fn open_raise(server: &Server) -> Session {
    let mut lock = server.lock("node-b");
    let second = server.win(&mut lock, "node-b").await;
    let mut raising = server.session().await;
    let raise = format!(
        "BEGIN TRANSACTION; EXEC dbo.tenure_raise_fence @scope = N'jobs', @holder = N'node-b',
             @epoch = {}, @lock_kind = 'sqlserver-lease', @lock_place = N'tenure_leases', @margin_ms = 1;",
        second.epoch()
    );
    raising.run(&raise).await.unwrap();
    raising
}

/// The lease still names it, as if the next winner had come by another way: only the fence's row can refuse it.
async fn give_the_lease_back_to(server: &Server, term: &Term) {
    let give_back = format!(
        "UPDATE dbo.tenure_leases SET holder_id = '{}', lease_epoch = {},
             expires_at = DATEADD(SECOND, 60, SYSUTCDATETIME())",
        term.holder(),
        term.epoch()
    );
    server.session().await.run(&give_back).await.unwrap();
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_fenced_transaction_that_comes_during_a_raise_waits_and_is_refused() {
    let server = Server::start().await;
    if !server.locks("a_fenced_transaction_that_comes_during_a_raise_waits_and_is_refused").await {
        return;
    }
    let (_lock, first) = server.lead("node-a").await;
    let mut raising = open_raise(&server).await;
    give_the_lease_back_to(&server, &first).await;
    let (mut session, batch) = (server.session().await, fenced_insert(&first));
    let write = tokio::spawn(async move { session.run(&batch).await });
    server.somebody_waits().await;
    raising.run("COMMIT TRANSACTION").await.unwrap();
    assert_eq!(meaning(write.await.unwrap()), Some(Meaning::Refused));
    assert_eq!(server.written().await, 0);
}

#[tokio::test]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_wait_that_was_given_up_lets_no_write_through() {
    let server = Server::start().await;
    if !server.locks("a_wait_that_was_given_up_lets_no_write_through").await {
        return;
    }
    let (_lock, first) = server.lead("node-a").await;
    let raising = open_raise(&server).await;
    give_the_lease_back_to(&server, &first).await;
    let mut session = server.session().await;
    session.run("SET XACT_ABORT OFF; SET LOCK_TIMEOUT 300;").await.unwrap();
    assert_eq!(meaning(session.run(&fenced_insert(&first)).await), Some(Meaning::Busy));
    drop(raising);
    assert_eq!(server.written().await, 0, "it went on without its lock");
}
