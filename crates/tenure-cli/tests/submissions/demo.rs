//! `tenure demo`: its verdict, and that nothing is left of it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_testkit::{eventually_true, postgres::Postgres, secs, sqlserver::Database};

fn demo(folder: &TempDir, arguments: &[&str]) -> Command {
    demo_for("7s", folder, arguments)
}

fn demo_for(time: &str, folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).args(["demo", "--for", time, "--rate", "100"]);
    command.env("TMPDIR", folder.path()).current_dir(folder);
    command
}

fn verdict(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_clean(verdict: &Value) {
    let count = |name: &str| verdict[name].as_u64().unwrap();
    assert!(count("submitted") > 100 && count("failovers") >= 1, "{verdict}");
    assert_eq!(count("accepted"), count("submitted"), "{verdict}");
    assert_eq!((count("duplicates"), count("lost")), (0, 0), "{verdict}");
    assert!(count("attempts") >= count("accepted"), "{verdict}");
}

#[test]
fn a_demo_on_a_file_of_its_own_is_clean_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    is_clean(&verdict(&demo(&folder, &[]).arg("--json").output().unwrap()));
    let left: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_on_postgres_is_clean_and_wants_a_database_without_other_work() {
    let (postgres, folder) = (Postgres::start().await.unwrap(), TempDir::new().unwrap());
    let url = postgres.url();
    let ours = ["--db", &url];
    is_clean(&verdict(&demo(&folder, &ours).arg("--json").output().unwrap()));
    let client = postgres.connect().await.unwrap();
    let revive = "UPDATE submission_intents SET status = 'pending', next_attempt_at = 'infinity'
                  WHERE row_number = (SELECT min(row_number) FROM submission_intents)";
    client.execute(revive, &[]).await.unwrap();
    let refused = demo(&folder, &ours).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && told.contains("give the demo a database of its own"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn a_demo_on_sqlserver_is_clean() {
    let (database, folder) = (Database::create().await.unwrap(), TempDir::new().unwrap());
    let ours = ["--db", database.secret_url()];
    is_clean(&verdict(&demo_for("20s", &folder, &ours).arg("--json").output().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instances_end_with_a_demo_that_is_killed() {
    let folder = TempDir::new().unwrap();
    let mut demo = demo(&folder, &[]).stdout(Stdio::null()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", demo.id());
    let instances = || -> Vec<String> {
        let listed = std::fs::read_to_string(&children).unwrap_or_default();
        listed.split_whitespace().map(str::to_owned).collect()
    };
    eventually_true("three instances run", secs(20), async || instances().len() == 3).await;
    let mine = instances();
    demo.kill().unwrap();
    demo.wait().unwrap();
    eventually_true("they end", secs(20), async || {
        let state = |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/stat"));
        mine.iter().all(|pid| state(pid).is_err())
    })
    .await;
}
