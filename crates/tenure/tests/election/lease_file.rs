//! A SQLite lease whose file is taken away, replaced, or used by a clock that is not ours.

use std::{fs, time::Duration};

use rusqlite::Connection;
use tenure::{
    BootInstant, Candidate, Epoch, HolderId, Role, Scope,
    lock::{
        Acquire, Grant, Lock, LockError, Renew,
        sqlite_lease::{LeaseFile, SqliteLease},
    },
};
use tenure_testkit::secs;

use crate::scene::{Scene, becomes};

fn lock(scene: &Scene, holder: &str) -> SqliteLease {
    let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap());
    SqliteLease::new(&scene.data(), candidate, scene.timing).unwrap()
}

async fn granted(lock: &mut SqliteLease) -> Grant {
    match lock.acquire(Epoch::ZERO).await.unwrap() {
        Acquire::Granted(grant) => grant,
        Acquire::Held(held) => panic!("held: {held:?}"),
    }
}

async fn held_by(lock: &mut SqliteLease) -> String {
    match lock.acquire(Epoch::ZERO).await.unwrap() {
        Acquire::Held(held) => held.holder,
        Acquire::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

/// The lease file and what SQLite keeps beside it.
fn files(scene: &Scene) -> [std::path::PathBuf; 3] {
    let file = LeaseFile::beside(&scene.data()).path().to_owned();
    ["", "-wal", "-shm"].map(|suffix| {
        let mut path = file.clone().into_os_string();
        path.push(suffix);
        path.into()
    })
}

fn leases(scene: &Scene) -> Connection {
    LeaseFile::beside(&scene.data()).open(secs(1)).unwrap()
}

#[tokio::test]
async fn a_renewal_in_a_file_that_was_deleted_is_refused() {
    let scene = Scene::new();
    let mut one = lock(&scene, "one");
    let epoch = granted(&mut one).await.epoch;
    assert!(matches!(one.renew(epoch).await.unwrap(), Renew::Renewed { .. }));
    fs::remove_file(&files(&scene)[0]).unwrap();
    assert_eq!(one.renew(epoch).await.unwrap(), Renew::Lost);
    let _there_again = leases(&scene);
    assert_eq!(one.renew(epoch).await.unwrap(), Renew::Lost, "another file stands in its place");
}

#[tokio::test]
async fn a_follower_asks_in_the_file_that_everybody_finds() {
    let scene = Scene::new();
    let (mut one, mut two) = (lock(&scene, "one"), lock(&scene, "two"));
    granted(&mut one).await;
    assert_eq!(held_by(&mut two).await, "one");
    for file in files(&scene) {
        let _ = fs::remove_file(file);
    }
    granted(&mut lock(&scene, "three")).await;
    assert_eq!(held_by(&mut two).await, "three");
    for file in files(&scene) {
        let _ = fs::remove_file(file);
    }
    granted(&mut lock(&scene, "four")).await;
    let seen = two.observe().await.unwrap();
    assert_eq!(seen.held.map(|held| held.holder).as_deref(), Some("four"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_never_lead_when_the_file_is_deleted_under_a_leader() {
    let scene = Scene::new();
    let one = scene.candidate("one").start().unwrap();
    let first = becomes(&one, Role::Leader).await.unwrap();
    for file in files(&scene) {
        let _ = fs::remove_file(file);
    }
    let deleted_at = BootInstant::now();
    let two = scene.candidate("two").start().unwrap();
    let gate = one.gate();
    let second = becomes(&two, Role::Leader).await.unwrap();
    assert!(gate.ensure_epoch(first).is_err(), "the first still acts");
    assert!(second > first);
    assert!(BootInstant::now().since(deleted_at) >= scene.timing.lease_duration());
}

#[tokio::test]
async fn whoever_finds_a_new_file_beside_fenced_data_sits_a_lease_out() {
    let scene = Scene::new();
    let election = scene.candidate("one").start().unwrap();
    becomes(&election, Role::Leader).await;
    election.stop().await.unwrap();
    for file in files(&scene) {
        let _ = fs::remove_file(file);
    }
    let mut two = lock(&scene, "two");
    let second = granted(&mut two).await;
    let lease = scene.timing.lease_duration();
    assert!(second.settle > lease / 2 && second.settle <= lease, "{:?}", second.settle);
    // Whoever comes after a winner that gave up early has the rest of it to sit out.
    two.release(second.epoch).await.unwrap();
    assert!(granted(&mut lock(&scene, "three")).await.settle > Duration::ZERO);
}

#[tokio::test]
async fn a_lease_that_came_with_another_file_is_sat_out() {
    let scene = Scene::new();
    let first = granted(&mut lock(&scene, "one")).await;
    assert_eq!(first.settle, Duration::ZERO);
    lock(&scene, "one").release(first.epoch).await.unwrap();
    leases(&scene).execute("UPDATE tenure_leases SET file = '7:7'", []).unwrap();
    assert!(granted(&mut lock(&scene, "two")).await.settle > Duration::ZERO);
}

#[tokio::test]
async fn another_time_namespace_is_refused_by_name() {
    let scene = Scene::new();
    granted(&mut lock(&scene, "one")).await;
    leases(&scene).execute("UPDATE tenure_leases SET clock = 'time:[7]'", []).unwrap();
    let refused = lock(&scene, "two").acquire(Epoch::ZERO).await.unwrap_err();
    assert!(matches!(refused, LockError::Refused(_)), "{refused:?}");
    assert!(refused.to_string().contains("time:[7]"), "{refused}");
    // Whoever wrote it in an earlier boot is dead, whatever its clock was.
    leases(&scene).execute("UPDATE tenure_leases SET boot_id = 'earlier'", []).unwrap();
    assert_eq!(granted(&mut lock(&scene, "two")).await.settle, Duration::ZERO);
}
