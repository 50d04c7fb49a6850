//! A database that restarts or is out of reach while a copy leads.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use tenure_testkit::{
    eventually, eventually_true,
    postgres::{Postgres, Stop},
    proxy::Proxy,
    secs,
};

use crate::copies::{BEATS, Copy, Scene, assert_never_together};

/// A child that beats, and says where its token file is.
fn script() -> String {
    format!("echo $TENURE_TOKEN_FILE > token-$NAME; {BEATS}")
}

/// The deadline in the token file of a copy's child.
fn deadline(scene: &Scene, copy: &Copy) -> Option<u64> {
    let path = fs::read_to_string(scene.path(&format!("token-{}", copy.name))).ok()?;
    let token: Value = serde_json::from_str(&fs::read_to_string(path.trim()).ok()?).ok()?;
    token["deadline_boottime_ms"].as_u64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_database_inside_the_deadline_is_ridden_out() {
    let postgres = Postgres::start().await.unwrap();
    let scene = Scene::on(&postgres.url());
    let one = scene.copy("one", "--lease 20s", &script());
    let first = one.acts_after(0).await;
    postgres.restart(Stop::Immediate).await.unwrap();
    let before = deadline(&scene, &one).unwrap();
    eventually("the term is renewed", secs(20), async || {
        deadline(&scene, &one).filter(|after| *after > before)
    })
    .await;
    assert!(one.beats().iter().all(|beat| beat.epoch == first.epoch), "one term all along");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_database_ends_the_term_of_an_advisory_lock_and_the_child_with_it() {
    let postgres = Postgres::start().await.unwrap();
    let scene = Scene::on(&postgres.url());
    let one = scene.copy("one", "--lease 3s --lock advisory", &script());
    let two = scene.copy("two", "--lease 3s --lock advisory", &script());
    let led = eventually("somebody acts", secs(20), async || {
        [&one, &two].into_iter().find(|copy| !copy.beats().is_empty())
    });
    let first = led.await.beats()[0];
    postgres.restart(Stop::Fast).await.unwrap();
    let next = eventually("somebody acts in a later term", secs(30), async || {
        let beats = one.beats().into_iter().chain(two.beats());
        beats.filter(|beat| beat.epoch > first.epoch).min_by(|a, b| a.at.total_cmp(&b.at))
    })
    .await;
    let beats = one.beats().into_iter().chain(two.beats());
    let last = beats.filter(|beat| beat.epoch == first.epoch).map(|beat| beat.at);
    assert!(last.fold(0.0, f64::max) <= next.at, "the old child lived on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_ends_its_child_before_another_begins() {
    let postgres = Postgres::start().await.unwrap();
    for options in ["--lease 3s", "--lease 3s --lock advisory --scope other"] {
        let proxy = Proxy::to(postgres.addr()).await.unwrap();
        let address = proxy.addr();
        let cut_off = Scene::on(&format!("postgres://postgres@{address}/postgres"));
        let mut one = cut_off.copy("one", options, &script());
        let first = one.acts_after(0).await;
        let scene = Scene::on(&postgres.url());
        let two = scene.copy("two", options, &script());
        eventually_true("the other contends", secs(10), async || two.has_children()).await;
        proxy.cut();
        two.acts_after(first.epoch).await;
        assert_never_together(&one, &two);
        proxy.pass();
        drop(two);
        one.acts_after(first.epoch + 1).await;
        one.signal(Signal::TERM);
        one.code().await;
    }
}

/// Nobody reads what the child writes, and the copy logs to the same pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fills_its_pipes_stops_neither_the_renewals_nor_the_hand_over() {
    let scene = Scene::on_sqlite();
    let fills = format!("yes >&2 & yes & {}", script());
    let mut one = scene.copy_with_full_pipes("one", "--lease 2s", &fills);
    let first = one.acts_after(0).await;
    let before = deadline(&scene, &one).unwrap();
    eventually("it is renewed again and again", secs(20), async || {
        deadline(&scene, &one).filter(|after| *after > before + 4_000)
    })
    .await;
    assert!(one.beats().iter().all(|beat| beat.epoch == first.epoch), "one term all along");
    let two = scene.copy("two", "--lease 60s", BEATS);
    eventually_true("the other contends", secs(10), async || two.has_children()).await;
    one.signal(Signal::TERM);
    two.acts_after(first.epoch).await;
    assert_never_together(&one, &two);
    one.code().await;
}
