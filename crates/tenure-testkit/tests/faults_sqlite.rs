//! Whole processes on one SQLite file, killed and frozen.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use anyhow::Result;
use rusqlite::Connection;
use tempfile::TempDir;
use tenure::{Epoch, schema};
use tenure_database::{migrate, sqlite};
use tenure_testkit::{
    eventually_true,
    node::{LockChoice, Node, NodeSettings, somebody_leads, terms_never_open_together},
    secs,
};

const NODE: &str = env!("CARGO_BIN_EXE_election-node");
const CREATE_ACTS: &str =
    "CREATE TABLE acts (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, holder TEXT NOT NULL)";

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Result<Self> {
        let files = Self { folder: tempfile::tempdir()? };
        let mut data = files.open();
        migrate::sqlite::migrate(&mut data, schema::COMPONENT, &schema::SQLITE)?;
        data.execute_batch(CREATE_ACTS)?;
        Ok(files)
    }

    fn open(&self) -> Connection {
        sqlite::open(&self.folder.path().join("tenure.db"), Duration::from_secs(5)).unwrap()
    }

    fn nodes(&self, count: usize, acts: bool) -> Vec<Node> {
        self.nodes_with(1_500, count, acts)
    }

    fn nodes_with(&self, lease_ms: u64, count: usize, acts: bool) -> Vec<Node> {
        let db = format!("sqlite:{}", self.folder.path().join("tenure.db").display());
        let settings = |at| NodeSettings {
            acts,
            lease_ms,
            ..NodeSettings::new(&db, LockChoice::SqliteLease, &format!("node-{at}"))
        };
        (0..count).map(|at| Node::start(Path::new(NODE), &settings(at)).unwrap()).collect()
    }

    async fn acts_in(&self, epoch: Epoch) {
        eventually_true("the leader acts", secs(10), async || {
            let count = "SELECT count(*) FROM acts WHERE epoch = ?1";
            let count = self.open().query_row(count, [epoch.get()], |row| row.get::<_, i64>(0));
            count.is_ok_and(|count| count > 0)
        })
        .await;
    }

    /// Accepted acts never go back to an older epoch, and an epoch has one holder.
    fn acts_are_in_order(&self) {
        let data = self.open();
        let mut query = data.prepare("SELECT epoch, holder FROM acts ORDER BY id").unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let acts: Vec<(i64, String)> = rows.map(Result::unwrap).collect();
        for pair in acts.windows(2) {
            assert!(pair[0].0 <= pair[1].0, "a stale act was accepted: {pair:?}");
            assert!(pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1, "two holders: {pair:?}");
        }
    }
}

/// The check itself, on two nodes that may well lead at the same time: their scopes are two.
#[tokio::test(flavor = "multi_thread")]
async fn gates_that_were_open_together_are_found_though_a_node_is_dead() {
    let files = Files::new().unwrap();
    let db = format!("sqlite:{}", files.folder.path().join("tenure.db").display());
    let start = |scope: &str| {
        let settings = NodeSettings::new(&db, LockChoice::SqliteLease, scope);
        let settings = NodeSettings { scope: scope.to_owned(), ..settings };
        Node::start(Path::new(NODE), &settings).unwrap()
    };
    let mut nodes = ["jobs", "mail"].map(start);
    let is_found = |nodes: &[Node]| {
        let checked = AssertUnwindSafe(|| terms_never_open_together(nodes));
        catch_unwind(checked).is_err()
    };
    eventually_true("two open gates are found", secs(20), async || is_found(&nodes)).await;
    nodes[0].kill().unwrap();
    assert!(is_found(&nodes), "what a dead node told is forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_followed_by_the_next_of_several_processes() {
    let files = Files::new().unwrap();
    let mut nodes = files.nodes(4, true);
    let mut epoch = Epoch::ZERO;
    for _ in 0..3 {
        let (leader, won, _) = somebody_leads(&nodes, epoch, secs(10)).await;
        files.acts_in(won).await;
        nodes[leader].kill().unwrap();
        epoch = won;
    }
    let (_, last, _) = somebody_leads(&nodes, epoch, secs(10)).await;
    files.acts_in(last).await;
    files.acts_are_in_order();
    assert!(terms_never_open_together(&nodes) >= 4);
}

/// The leader does not write: frozen inside a transaction it would keep the file's write lock, and with it
/// everybody else from raising the fence, until it thaws.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_frozen_past_its_lease_wakes_up_with_a_shut_gate() {
    let files = Files::new().unwrap();
    let nodes = files.nodes(2, false);
    let (leader, first, _) = somebody_leads(&nodes, Epoch::ZERO, secs(10)).await;
    let frozen = nodes[leader].freeze().unwrap();
    somebody_leads(&nodes, first, secs(20)).await;
    nodes[leader].thaw().unwrap();
    let last_open = nodes[leader].has_led(first, secs(10)).await;
    assert!(last_open <= frozen, "a frozen leader woke up with an open gate");
    assert!(terms_never_open_together(&nodes) >= 2);
}

/// The lease is so long that nobody can have waited for its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_end_hands_over_at_once() {
    let files = Files::new().unwrap();
    let mut nodes = files.nodes_with(600_000, 3, true);
    let mut epoch = Epoch::ZERO;
    for _ in 0..2 {
        let (leader, won, _) = somebody_leads(&nodes, epoch, secs(10)).await;
        files.acts_in(won).await;
        nodes[leader].terminate().unwrap();
        assert!(nodes[leader].exit(secs(10)).await.success());
        epoch = won;
    }
    let (_, last, _) = somebody_leads(&nodes, epoch, secs(10)).await;
    files.acts_in(last).await;
    files.acts_are_in_order();
    assert_eq!(terms_never_open_together(&nodes), 3);
}
