//! The examples of the docs, as they are written.

use std::process::{Command, Output};

use rustix::process::Signal;
use tenure_testkit::{eventually, postgres::Postgres, secs};

use crate::copies::Scene;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");

/// Runs an example by hand, in the name of this term.
fn by_hand(example: &[&str], postgres: &Postgres, node: &str, epoch: &str) -> Output {
    Command::new(example[0])
        .args(&example[1..])
        .env("DATABASE_URL", postgres.url())
        .env("TENURE_SCOPE", "jobs")
        .env("TENURE_NODE_ID", node)
        .env("TENURE_EPOCH", epoch)
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_write_as_leader_and_are_refused_afterwards() {
    let postgres = Postgres::start().await.unwrap();
    let client = postgres.connect().await.unwrap();
    client.execute("CREATE TABLE reports (line text NOT NULL)", &[]).await.unwrap();
    let lines = async || {
        let rows = client.query("SELECT line FROM reports", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let psql = "psql --set ON_ERROR_STOP=1 --single-transaction --set scope=\"$TENURE_SCOPE\" \
                --set node=\"$TENURE_NODE_ID\" --set epoch=\"$TENURE_EPOCH\" --file";
    let once = format!("{psql} {FOLDER}/report.sql \"$DATABASE_URL\"");
    let (bash, python) = (format!("{FOLDER}/report.sh"), format!("{FOLDER}/report.py"));
    for (says, script) in [
        ("from bash", &bash),
        ("from Python", &python),
        ("from psql", &format!("{once}; sleep 60")),
    ] {
        let scene = Scene::on(&postgres.url());
        let url = postgres.url();
        let mut one =
            scene.copy_in("one", "--lease 3s --node-id one", script, &[("DATABASE_URL", &url)]);
        let line = eventually(says, secs(20), async || {
            lines().await.into_iter().find(|line| line.starts_with(says))
        })
        .await;
        let epoch = line.rsplit_once(' ').unwrap().1.to_owned();
        one.signal(Signal::TERM);
        one.code().await;

        let before = lines().await.len();
        let command = if says == "from psql" { &once } else { script };
        let refused = by_hand(&["sh", "-c", command], &postgres, "one", &epoch);
        assert!(!refused.status.success(), "{refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("is over"), "{says}: {told}");
        assert_eq!(lines().await.len(), before, "{says} has written after its term");
    }
}
