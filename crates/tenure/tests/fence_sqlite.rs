//! The fence on SQLite: two connections to one file, one of them in a term that is over.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;
use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, FenceError, Raised, SqliteFence, sqlite::begin},
    lock::{
        Acquire, Lock, LockPlace,
        sqlite_lease::{LeaseFile, SqliteLease},
    },
    schema,
};
use tenure_database::{migrate, sqlite};
use tenure_testkit::{eventually_true, millis, secs};

const SCOPE: &str = "billing";
const PAY: &str = "UPDATE orders SET state = 'paid' WHERE id = 1";

/// A data file with one order, its lease file, and terms to write in.
struct Data {
    _folder: TempDir,
    path: PathBuf,
    timing: Timing,
}

impl Data {
    /// Leases that no test outlives: what expires is made to.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tenure.db");
        let timing = Timing::lease(secs(60)).call_timeout(secs(15)).build().expect("a lease");
        let data = Self { _folder: folder, path, timing };
        let mut file = data.open();
        migrate::sqlite::migrate(&mut file, schema::COMPONENT, &schema::SQLITE)
            .expect("the schema");
        let orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL);
             INSERT INTO orders VALUES (1, 'new')";
        file.execute_batch(orders).expect("the orders");
        data
    }

    fn open(&self) -> Connection {
        sqlite::open(&self.path, secs(10)).expect("the data file")
    }

    fn leases(&self) -> Connection {
        LeaseFile::beside(&self.path).open(secs(10)).expect("the lease file")
    }

    fn fence(&self) -> SqliteFence {
        SqliteFence::new(&self.path, self.timing).expect("the fence")
    }

    fn expire(&self) {
        self.leases().execute("UPDATE tenure_leases SET expires_at = 0", []).expect("an expiry");
    }

    /// Wins the scope's next term, and does not raise the fence yet.
    async fn win(&self, holder: &str) -> Term {
        self.expire();
        let term = term(holder, 0);
        let candidate = Candidate::new(term.scope().clone(), term.holder().clone());
        let mut lock = SqliteLease::new(&self.path, candidate, self.timing).expect("a lock");
        match lock.acquire(Epoch::ZERO).await.expect("an answer") {
            Acquire::Granted(grant) => self::term(holder, grant.epoch.get()),
            Acquire::Held(held) => panic!("held by {held:?}"),
        }
    }

    /// Wins the scope's next term, and raises the fence to it.
    async fn lead(&self, holder: &str) -> Term {
        let term = self.win(holder).await;
        self.raise(&term).await;
        term
    }

    async fn raise(&self, term: &Term) {
        let raised = self.fence().raise(term, &place("sqlite-lease")).await.expect("an answer");
        assert_eq!(raised, Raised::Raised);
    }

    /// Writes in a term: what every test tries.
    fn pay(&self, term: &Term) -> Result<(), FenceError> {
        let mut file = self.open();
        let transaction = begin(&mut file, &self.path, term)?;
        transaction.execute(PAY, [])?;
        Ok(transaction.commit()?)
    }

    fn order(&self) -> String {
        let query = "SELECT state FROM orders WHERE id = 1";
        self.open().query_row(query, [], |row| row.get(0)).expect("the order")
    }

    fn fence_row(&self) -> (i64, String) {
        let query = "SELECT epoch, holder FROM tenure_fences WHERE scope = 'billing'";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.open().query_row(query, [], read).expect("a fence")
    }

    /// Every term as `epoch holder lock reason`, in order; `-` for one that goes on.
    fn history(&self) -> Vec<String> {
        let query = "SELECT format('%d %s %s %s', epoch, holder, lock_kind, coalesce(reason, '-'))
             FROM tenure_terms WHERE (ended_at IS NULL) = (reason IS NULL) ORDER BY epoch";
        let file = self.open();
        let mut query = file.prepare(query).expect("a query");
        let rows = query.query_map([], |row| row.get(0)).expect("the history");
        rows.collect::<Result<_, _>>().expect("the history")
    }
}

fn term(holder: &str, epoch: i64) -> Term {
    let holder = HolderId::new(holder).expect("a holder");
    Term::granted(Scope::new(SCOPE).expect("a scope"), holder, Epoch::new(epoch))
}

fn place(kind: &'static str) -> LockPlace {
    LockPlace { kind, name: String::new() }
}

fn refused_at(epoch: i64) -> Raised {
    Raised::Refused { fence: Epoch::new(epoch) }
}

/// Asserts a refusal, and returns where the fence stood and why.
fn refusal(answer: Result<(), FenceError>) -> (i64, String) {
    match answer {
        Err(FenceError::Refused { fence, message, .. }) => (fence.get(), message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_current_term_writes() {
    let data = Data::new();
    let term = data.lead("a").await;
    data.pay(&term).unwrap();
    assert_eq!(data.order(), "paid");
}

#[tokio::test]
async fn a_fenced_transaction_that_is_dropped_is_rolled_back() {
    let data = Data::new();
    let term = data.lead("a").await;
    let mut file = data.open();
    let fenced = begin(&mut file, &data.path, &term).unwrap();
    fenced.execute(PAY, []).unwrap();
    drop(fenced);
    assert_eq!(data.order(), "new");
}

#[tokio::test]
async fn an_old_epoch_is_refused() {
    let data = Data::new();
    let old = data.lead("a").await;
    data.lead("b").await;
    let (fence, message) = refusal(data.pay(&old));
    assert_eq!(fence, 2);
    assert_eq!(message, "term 1 of a in billing is over: the lease names term 2 of b");
    assert_eq!(data.order(), "new");
}

#[tokio::test]
async fn the_fence_row_alone_refuses_a_term_that_the_lease_still_names() {
    let data = Data::new();
    let old = data.lead("a").await;
    data.raise(&term("b", 2)).await;
    let (fence, message) = refusal(data.pay(&old));
    assert_eq!(fence, 2);
    assert_eq!(message, "term 1 of a in billing is over: the fence stands at term 2 of b");
}

#[tokio::test]
async fn another_holder_with_the_same_epoch_is_refused() {
    let data = Data::new();
    data.lead("a").await;
    refusal(data.pay(&term("b", 1)));
}

#[tokio::test]
async fn a_term_that_has_won_cannot_write_before_it_has_raised() {
    let data = Data::new();
    data.lead("a").await;
    let new = data.win("b").await;
    assert_eq!(refusal(data.pay(&new)).0, 1);
}

#[tokio::test]
async fn an_expired_lease_is_refused_though_nobody_took_over() {
    let data = Data::new();
    let term = data.lead("a").await;
    data.expire();
    let (fence, message) = refusal(data.pay(&term));
    assert_eq!(
        (fence, message.as_str()),
        (1, "term 1 of a in billing is over: its lease has expired")
    );
}

#[tokio::test]
async fn a_lease_of_another_boot_is_refused() {
    let data = Data::new();
    let term = data.lead("a").await;
    data.leases().execute("UPDATE tenure_leases SET boot_id = 'before'", []).unwrap();
    assert!(refusal(data.pay(&term)).1.ends_with("its lease has expired"));
}

#[tokio::test]
async fn a_lease_that_is_gone_is_refused() {
    let data = Data::new();
    let term = data.lead("a").await;
    data.leases().execute("DELETE FROM tenure_leases", []).unwrap();
    assert!(refusal(data.pay(&term)).1.ends_with("there is no lease"));
    fs::remove_file(LeaseFile::beside(&data.path).path()).unwrap();
    assert!(refusal(data.pay(&term)).1.ends_with("there is no lease"));
}

#[tokio::test]
async fn a_scope_that_nobody_has_ever_led_is_refused() {
    let data = Data::new();
    let (fence, message) = refusal(data.pay(&term("a", 1)));
    assert_eq!((fence, message.as_str()), (0, "nobody has ever led the scope 'billing'"));
}

#[tokio::test]
async fn a_lock_outside_the_file_leaves_the_fence_row_alone_to_decide() {
    let data = Data::new();
    let fence = data.fence();
    let (old, new, etcd) = (term("a", 1), term("b", 2), place("etcd"));
    assert_eq!(fence.raise(&old, &etcd).await.unwrap(), Raised::Raised);
    data.pay(&old).unwrap();
    assert_eq!(fence.raise(&new, &etcd).await.unwrap(), Raised::Raised);
    refusal(data.pay(&old));
    data.pay(&new).unwrap();
}

static WAITS_FOR_THE_WRITE_LOCK: AtomicBool = AtomicBool::new(false);

/// What SQLite asks while another connection writes: whether to try again.
fn goes_on_waiting(_asked: i32) -> bool {
    WAITS_FOR_THE_WRITE_LOCK.store(true, Relaxed);
    thread::sleep(Duration::from_millis(1));
    true
}

#[tokio::test]
async fn a_term_that_was_overtaken_while_it_waited_for_the_write_lock_is_refused() {
    let data = Data::new();
    let old = data.lead("a").await;
    let mut writer = data.open();
    let raise = writer.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    raise.execute("UPDATE tenure_fences SET epoch = 2, holder = 'b'", []).unwrap();

    let (mut file, path) = (data.open(), data.path.clone());
    file.busy_handler(Some(goes_on_waiting)).unwrap();
    let stale = thread::spawn(move || begin(&mut file, &path, &old).map(drop));
    eventually_true("the stale writer waits", secs(10), async || {
        WAITS_FOR_THE_WRITE_LOCK.load(Relaxed)
    })
    .await;
    raise.commit().unwrap();

    let (fence, message) = refusal(stale.join().unwrap());
    assert_eq!(fence, 2);
    assert!(message.ends_with("the fence stands at term 2 of b"), "{message}");
}

#[tokio::test]
async fn a_takeover_does_not_pass_a_fenced_transaction_that_is_open() {
    let data = Data::new();
    let old = data.lead("a").await;
    let mut file = data.open();
    let fenced = begin(&mut file, &data.path, &old).unwrap();
    fenced.execute(PAY, []).unwrap();

    let new = data.win("b").await;
    let timing = Timing::lease(secs(60)).call_timeout(millis(500)).build().unwrap();
    let impatient = SqliteFence::new(&data.path, timing).unwrap();
    let held_back = impatient.raise(&new, &place("sqlite-lease")).await;
    assert!(matches!(held_back, Err(FenceError::Database(_))), "{held_back:?}");
    assert_eq!(data.fence_row(), (1, "a".to_owned()));

    fenced.commit().unwrap();
    data.raise(&new).await;
    assert_eq!(data.order(), "paid");
    refusal(data.pay(&old));
}

#[tokio::test]
async fn a_raise_at_or_below_the_fence_is_refused_and_says_where_it_stands() {
    let data = Data::new();
    let (fence, leases) = (data.fence(), place("sqlite-lease"));
    data.raise(&term("b", 7)).await;
    for late in [term("a", 1), term("a", 6), term("b", 6), term("a", 7)] {
        assert_eq!(fence.raise(&late, &leases).await.unwrap(), refused_at(7), "{late}");
    }
    assert_eq!(data.fence_row(), (7, "b".to_owned()));
    assert_eq!(data.history(), ["7 b sqlite-lease -"]);
}

#[tokio::test]
async fn a_raise_whose_reply_was_lost_can_be_repeated() {
    let data = Data::new();
    data.raise(&term("a", 3)).await;
    data.raise(&term("a", 3)).await;
    assert_eq!(data.fence_row(), (3, "a".to_owned()));
    assert_eq!(data.history(), ["3 a sqlite-lease -"]);
}

#[tokio::test]
async fn another_kind_of_lock_is_refused_by_name_until_the_operator_switches() {
    let data = Data::new();
    let (fence, etcd) = (data.fence(), place("etcd"));
    data.raise(&term("a", 1)).await;
    match fence.raise(&term("b", 2), &etcd).await {
        Err(FenceError::OtherLock { message }) => {
            assert!(message.contains("fenced by the lock sqlite-lease, not by etcd"), "{message}");
        }
        answer => panic!("{answer:?}"),
    }
    assert_eq!(data.fence_row(), (1, "a".to_owned()));

    let switch = include_str!("../sql/sqlite/fence/switch_lock.sql");
    data.open().execute(switch, [SCOPE]).unwrap();
    assert_eq!(fence.raise(&term("b", 1), &etcd).await.unwrap(), refused_at(1), "still only up");
    assert_eq!(fence.raise(&term("b", 2), &etcd).await.unwrap(), Raised::Raised);
    let back = fence.raise(&term("c", 3), &place("sqlite-lease")).await;
    assert!(matches!(back, Err(FenceError::OtherLock { .. })), "{back:?}");
}

#[tokio::test]
async fn the_next_raise_ends_a_term_and_the_first_reason_stays() {
    let data = Data::new();
    let fence = data.fence();
    for epoch in [1, 2, 3] {
        data.raise(&term("a", epoch)).await;
        if epoch == 2 {
            fence.end_term(&term("b", 2), "mistaken").await.unwrap();
            fence.end_term(&term("a", 2), "drained").await.unwrap();
            fence.end_term(&term("a", 2), "released").await.unwrap();
        }
    }
    let expected =
        ["1 a sqlite-lease taken_over", "2 a sqlite-lease drained", "3 a sqlite-lease -"];
    assert_eq!(data.history(), expected);
}

#[tokio::test]
async fn burnt_epochs_shut_out_the_holder_and_the_next_win_goes_above_them() {
    let data = Data::new();
    let old = data.lead("a").await;
    let burn = include_str!("../sql/sqlite/fence/burn_epochs.sql");
    let stands_at: i64 = data.open().query_row(burn, (SCOPE, 1000), |row| row.get(0)).unwrap();
    assert_eq!(stands_at, 1001);
    refusal(data.pay(&old));
    let new = data.lead("b").await;
    assert_eq!(new.epoch().get(), 1002);
    data.pay(&new).unwrap();
}

#[tokio::test]
async fn a_win_goes_above_the_fence_even_if_the_lease_file_is_gone() {
    let data = Data::new();
    data.lead("a").await;
    data.lead("b").await;
    data.leases().execute("DELETE FROM tenure_leases", []).unwrap();
    assert_eq!(data.lead("c").await.epoch().get(), 3);
    eventually_true("nobody has the file open", secs(10), async || {
        !data.path.with_extension("db-lease-wal").exists()
    })
    .await;
    fs::remove_file(LeaseFile::beside(&data.path).path()).unwrap();
    assert_eq!(data.lead("d").await.epoch().get(), 4);
}

#[test]
fn every_statement_prepares() {
    let data = Data::new();
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/sqlite");
    let mut prepared = 0;
    for (folder, file) in [("fence", data.open()), ("lease", data.leases())] {
        for entry in fs::read_dir(sql.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("schema") {
                continue;
            }
            let statement = fs::read_to_string(&path).unwrap();
            file.prepare(&statement).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            prepared += 1;
        }
    }
    assert!(prepared >= 11, "only {prepared} were found");
}
