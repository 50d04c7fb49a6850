//! Supervisors and keepers that are killed and frozen.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tenure_testkit::{eventually, eventually_true, postgres::Postgres, secs};

use crate::copies::{BEATS, Copy, Scene, assert_never_together};

/// A child that does not want to end, in a session of its own.
const STUBBORN: &str =
    "echo $$ > child-$NAME; trap '' TERM HUP INT; exec setsid -w sh -c \"$BEATS\"";

pub fn stubborn() -> String {
    format!("BEATS='{}'; export BEATS; {STUBBORN}", BEATS.replace('\'', "'\\''"))
}

pub async fn child_of(scene: &Scene, copy: &Copy) -> Pid {
    let path = scene.path(&format!("child-{}", copy.name));
    eventually("the child's number", secs(10), async || {
        Pid::from_raw(fs::read_to_string(&path).ok()?.trim().parse().ok()?)
    })
    .await
}

/// The keeper of the child: its parent.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let fields = stat.rsplit_once(") ")?.1;
    Pid::from_raw(fields.split(' ').nth(1)?.parse().ok()?)
}

pub async fn on_every_lock(test: impl AsyncFn(&Scene, &str)) {
    test(&Scene::on_sqlite(), "--lease 3s").await;
    let postgres = Postgres::start().await.unwrap();
    test(&Scene::on(&postgres.url()), "--lease 3s").await;
    test(&Scene::on(&postgres.url()), "--lease 3s --lock advisory --scope other").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisors_child_is_dead_before_the_next_one_starts() {
    on_every_lock(async |scene, options| {
        let one = scene.copy("one", options, &stubborn());
        let first = one.acts_after(0).await;
        let child = child_of(scene, &one).await;
        let two = scene.copy("two", options, &stubborn());
        one.signal(Signal::KILL);
        two.acts_after(first.epoch).await;
        assert!(test_kill_process(child).is_err(), "the old child lives: {options}");
        assert_never_together(&one, &two);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_supervisors_child_is_dead_before_the_next_one_starts() {
    on_every_lock(async |scene, options| {
        let mut one = scene.copy("one", options, &stubborn());
        let first = one.acts_after(0).await;
        let two = scene.copy("two", options, &stubborn());
        one.signal(Signal::STOP);
        let second = two.acts_after(first.epoch).await;
        assert_never_together(&one, &two);
        one.signal(Signal::CONT);
        drop(two);
        let third = one.acts_after(second.epoch).await;
        assert!(third.epoch > second.epoch, "thawed, it contends again");
        one.signal(Signal::TERM);
        one.code().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_keepers_child_is_ended_by_the_supervisor() {
    on_every_lock(async |scene, options| {
        let options = format!("{options} --restart always");
        let one = scene.copy("one", &options, &stubborn());
        let first = one.acts_after(0).await;
        let child = child_of(scene, &one).await;
        let keeper = parent_of(child).unwrap();
        kill_process(keeper, Signal::KILL).unwrap();
        one.acts_after(first.epoch).await;
        assert!(test_kill_process(child).is_err(), "the old child lives");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_keeper_does_not_keep_the_child_alive_past_its_term() {
    on_every_lock(async |scene, options| {
        let mut one = scene.copy("one", options, &stubborn());
        let first = one.acts_after(0).await;
        let child = child_of(scene, &one).await;
        let keeper = parent_of(child).unwrap();
        let two = scene.copy("two", options, &stubborn());
        kill_process(keeper, Signal::STOP).unwrap();
        one.signal(Signal::TERM);
        two.acts_after(first.epoch).await;
        assert_never_together(&one, &two);
        one.code().await;
        assert!(test_kill_process(child).is_err() && test_kill_process(keeper).is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_runs_while_not_leading_and_is_dead_before_the_leader_starts() {
    let scene = Scene::on_sqlite();
    let standby =
        "echo $TENURE_ROLE $TENURE_EPOCH > role-$NAME; echo $$ > standby-$NAME; exec sleep 1000";
    let leader = format!(
        "if [ -s standby-$NAME ] && kill -0 $(cat standby-$NAME) 2>/dev/null; then touch both; fi; {BEATS}"
    );
    let start = |name: &str| scene.copy(name, "--lease 3s --standby ./standby", &leader);
    fs::write(scene.path("standby"), format!("#!/bin/sh\n{standby}\n")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(scene.path("standby"), executable).unwrap();

    let one = start("one");
    let first = one.acts_after(0).await;
    let two = start("two");
    eventually_true("the other stands by", secs(10), async || {
        fs::read_to_string(scene.path("role-two")).is_ok_and(|role| role == "standby\n")
    })
    .await;
    one.signal(Signal::KILL);
    two.acts_after(first.epoch).await;
    assert!(!scene.path("both").exists(), "the standby lived when the leader started");
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn etcd_decides_too_and_the_data_may_be_anywhere() {
    let etcd = tenure_testkit::etcd::Etcd::start().await.unwrap();
    let scene = Scene::on_sqlite();
    let options = format!("--lease 3s --lock etcd --etcd {}", etcd.endpoint());
    let mut one = scene.copy("one", &options, &stubborn());
    let first = one.acts_after(0).await;
    let child = child_of(&scene, &one).await;
    let two = scene.copy("two", &options, &stubborn());
    one.signal(Signal::TERM);
    let second = two.acts_after(first.epoch).await;
    assert!(test_kill_process(child).is_err(), "the old child lives");
    assert_never_together(&one, &two);
    one.code().await;
    let three = scene.copy("three", &options, &stubborn());
    eventually_true("the third contends", secs(10), async || three.has_children()).await;
    two.signal(Signal::STOP);
    three.acts_after(second.epoch).await;
    assert_never_together(&two, &three);
}
