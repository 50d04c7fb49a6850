//! Copies of `tenure run`, by lease and by advisory lock, whose programs write through the fence while the
//! database fails over.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tenure_database::BootInstant;
use tenure_testkit::{
    eventually, eventually_true,
    haproxy::Haproxy,
    patroni::{Cluster, Replication},
    secs,
};

use crate::{
    blows::{blows, logged},
    copies::{Copy, Scene},
    fenced::{ACTS, acknowledged, assert_in_order, lost},
    pauses::Pauses,
    records::Records,
};

const PROGRAM: &str = "exec /usr/bin/python3 -E fenced.py";

/// How many commits are made to be lost.
const HELD_BACK: usize = 5;

/// The copies that contend by one lock.
struct Troupe {
    lock: &'static str,
    scene: Scene,
    records: Records,
    // Held for their Drop, which ends them.
    _copies: Vec<Copy>,
}

impl Troupe {
    /// One copy for each way to the database.
    fn start(lock: &'static str, ways: &[&str]) -> Self {
        let mut scene = Scene::on("");
        fs::write(scene.path("fenced.py"), include_str!("fenced.py")).unwrap();
        let records = Records(scene.folder.path().to_owned());
        let options =
            format!("--lease 4s --term-grace 200ms --restart always --lock {lock} --scope {lock}");
        let copies = ways.iter().enumerate().map(|(at, way)| {
            scene.db = way.to_string();
            scene.copy_in(&format!("c{at}"), &options, PROGRAM, &[("DATA", way)])
        });
        let copies = copies.collect();
        Self { lock, scene, records, _copies: copies }
    }

    fn folder(&self) -> &Path {
        self.scene.folder.path()
    }

    fn last_term(&self) -> i64 {
        self.records.terms().last_key_value().map_or(0, |(epoch, _)| *epoch)
    }

    /// Waits for a program in a term after this one that began after this moment, and returns when.
    async fn acts_after(&self, epoch: i64, moment: BootInstant) -> BootInstant {
        let what = format!("by {} somebody acts after term {epoch}", self.lock);
        eventually(&what, secs(90), async || {
            let later = self.records.terms().split_off(&(epoch + 1));
            later.into_values().map(|lived| lived.first).find(|first| *first > moment)
        })
        .await
    }

    /// Waits until this many more commits were acknowledged.
    async fn acknowledges(&self, more: usize) {
        let goal = acknowledged(self.folder()).len() + more;
        eventually_true("commits go on", secs(60), async || {
            acknowledged(self.folder()).len() >= goal
        })
        .await;
    }

    /// The reasons with which terms ended, as `tenure status` tells them.
    fn reasons(&self, url: &str) -> Vec<String> {
        let told = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["status", "--json", "--scope", self.lock, "--db", url])
            .output()
            .unwrap();
        let status: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
        let terms = status["scopes"][0]["terms"].as_array().cloned().unwrap_or_default();
        terms.iter().filter_map(|term| term["reason"].as_str()).map(str::to_owned).collect()
    }
}

/// HAProxy with the configuration that is shipped, on this cluster.
async fn haproxy(cluster: &Cluster) -> Haproxy {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/haproxy-postgres.cfg");
    let mut shipped = fs::read_to_string(shipped).unwrap();
    for node in 0..2 {
        let server = format!("server pg-{0} pg-{0}:5432 check port 8008", node + 1);
        assert!(shipped.contains(&server), "{server}");
        let (port, rest) = (cluster.port(node), cluster.rest_port(node));
        let here = format!("server pg-{} 127.0.0.1:{port} check port {rest}", node + 1);
        shipped = shipped.replace(&server, &here);
    }
    let here = |port| shipped.replace("bind :5000", &format!("bind 127.0.0.1:{port}"));
    Haproxy::with(here).await.unwrap()
}

async fn never_two_programs(replication: Replication) {
    let cluster = Cluster::start(replication).await.unwrap();
    cluster.connect().await.unwrap().batch_execute(ACTS).await.unwrap();
    let haproxy = haproxy(&cluster).await;
    let both = cluster.url();
    let proxied = format!(
        "postgres://postgres@127.0.0.1:{}/postgres?target_session_attrs=read-write",
        haproxy.port()
    );
    let troupes = [
        Troupe::start("lease", &[&both, &both, &proxied]),
        Troupe::start("advisory", &[&both, &both]),
    ];
    for troupe in &troupes {
        troupe.acts_after(0, BootInstant::default()).await;
    }
    let (mut pauses, mut lags) = (Pauses::default(), 0);
    let blows = blows(replication);
    for &blow in &blows {
        let before = troupes.each_ref().map(Troupe::last_term);
        let struck = blow
            .strike(&cluster, async {
                for troupe in &troupes {
                    troupe.acknowledges(HELD_BACK).await;
                }
                lags += 1;
            })
            .await;
        for (troupe, epoch) in troupes.iter().zip(before) {
            let began = troupe.acts_after(epoch, struck).await;
            pauses.add(troupe.lock, blow, began.since(struck));
            troupe.acknowledges(1).await;
        }
        troupes.iter().for_each(|troupe| troupe.records.assert_in_turn());
    }
    pauses.print();
    for troupe in troupes {
        survived(&cluster, &troupe, replication, lags).await;
        let told = logged(troupe.folder(), "leader_server_changed");
        assert!(told >= blows.len(), "{} changes of the server, told {told} times", blows.len());
    }
}

/// What must hold of the surviving history, when everything has calmed down.
async fn survived(cluster: &Cluster, troupe: &Troupe, replication: Replication, lags: usize) {
    cluster.until_healthy().await.unwrap();
    let client = cluster.connect().await.unwrap();
    assert_in_order(&client).await;
    let acknowledged = acknowledged(troupe.folder()).len();
    let lost = lost(&client, troupe.folder()).await;
    println!(
        "by {}: {} terms, {acknowledged} acknowledged writes, {} of them lost; told of another server {} times; ends {:?}",
        troupe.lock,
        troupe.records.terms().len(),
        lost.len(),
        logged(troupe.folder(), "leader_server_changed"),
        troupe.reasons(&cluster.url()),
    );
    match replication {
        Replication::Synchronous => assert!(lost.is_empty(), "acknowledged and lost: {lost:?}"),
        Replication::Asynchronous => {
            assert!(lost.len() >= lags * HELD_BACK, "what was held back was not lost: {lost:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn never_two_programs_on_an_asynchronous_cluster() {
    never_two_programs(Replication::Asynchronous).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn never_two_programs_and_nothing_lost_on_a_synchronous_cluster() {
    never_two_programs(Replication::Synchronous).await;
}
