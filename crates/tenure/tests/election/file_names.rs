//! One data file by several names: all find the same lease, or are refused.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use tenure::{
    Candidate, Epoch, HolderId, Scope,
    lock::{Acquire, Lock, LockError, sqlite_lease::SqliteLease},
};

use crate::scene::Scene;

fn lock(data: &Path, scene: &Scene, holder: &str) -> Result<SqliteLease, LockError> {
    let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap());
    SqliteLease::new(data, candidate, scene.timing)
}

fn refusal(data: &Path, scene: &Scene) -> String {
    match lock(data, scene, "two") {
        Err(LockError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_link_leads_to_the_lease_of_the_file_itself() {
    let (scene, elsewhere) = (Scene::new(), tempfile::tempdir().unwrap());
    let (link, further) = (elsewhere.path().join("link.db"), elsewhere.path().join("further.db"));
    symlink(scene.data(), &link).unwrap();
    symlink("link.db", &further).unwrap();
    let mut one = lock(&scene.data(), &scene, "one").unwrap();
    assert!(matches!(one.acquire(Epoch::ZERO).await.unwrap(), Acquire::Granted(_)));
    for name in [&link, &further] {
        let answer = lock(name, &scene, "two").unwrap().acquire(Epoch::ZERO).await.unwrap();
        assert!(matches!(answer, Acquire::Held(held) if held.holder == "one"), "{name:?}");
    }
}

#[test]
fn a_link_may_come_before_its_file() {
    let (scene, elsewhere) = (Scene::new(), tempfile::tempdir().unwrap());
    let (link, file) = (elsewhere.path().join("link.db"), elsewhere.path().join("file.db"));
    symlink("file.db", &link).unwrap();
    lock(&link, &scene, "one").unwrap();
    assert!(file.exists() && elsewhere.path().join("file.db-lease").exists());
    assert!(!elsewhere.path().join("link.db-lease").exists());
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let (scene, elsewhere) = (Scene::new(), tempfile::tempdir().unwrap());
    let second = elsewhere.path().join("second.db");
    fs::hard_link(scene.data(), &second).unwrap();
    for name in [&second, &scene.data()] {
        let why = refusal(name, &scene);
        assert!(why.contains("hard links"), "{why}");
    }
}

/// A bind mount of the file alone, as a container has it, in a mount namespace of the test's own.
#[test]
fn a_file_that_is_mounted_by_itself_is_refused() {
    let Some(scene) = std::env::var_os("TENURE_TEST_MOUNTED") else { return run_in_namespace() };
    let scene = Path::new(&scene);
    let other = Scene::new();
    let why = refusal(&scene.join("mounted.db"), &other);
    assert!(why.contains("mount its folder"), "{why}");
    lock(&scene.join("folder/data.db"), &other, "one").unwrap();
}

fn run_in_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "set -e; cd \"$TENURE_TEST_MOUNTED\"; mkdir data folder; touch data/data.db mounted.db
                  mount --bind data/data.db mounted.db; mount --bind data folder; exec \"$@\"";
    let this = std::env::current_exe().unwrap();
    let mut test = Command::new("unshare");
    test.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(this);
    test.args(["--exact", "file_names::a_file_that_is_mounted_by_itself_is_refused"]);
    test.env("TENURE_TEST_MOUNTED", folder.path()).stdin(Stdio::null());
    assert!(test.status().unwrap().success());
}
