//! Programs that fight for their lives, and a supervisor without a descriptor left: the next copy's program
//! begins when the last process of the one before is dead.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
};

use rustix::process::{Signal, kill_process};
use tenure_testkit::{
    Port, eventually, eventually_true,
    fighter::{Acts, Fighter},
    secs,
};

use crate::{
    copies::{BEATS, Scene, assert_never_together},
    faults::{child_of, on_every_lock, parent_of, stubborn},
};

async fn fights_to_the_end(scene: &Scene, options: &str, feats: &str) {
    let name = feats.replace(' ', "-");
    let folder = scene.path(&name);
    fs::create_dir(&folder).unwrap();
    let fighter = Fighter::build(&folder).unwrap();
    let script = format!("exec {}", fighter.arguments(feats).join(" "));
    let _one = scene.copy("one", options, &script);
    eventually("the first acts", secs(20), async || fighter.acts()).await;
    let two = scene.copy(&format!("after-{name}"), options, BEATS);
    fighter.hurry().unwrap();
    let began = two.acts_after(0).await.at;
    let Acts { last, count } = fighter.acts().unwrap();
    let last = last.as_nanos() as f64 / 1e9;
    // A beat knows its time to a hundredth of a second.
    assert!(
        last < began + 0.01,
        "{feats}, {options}: acted {count} times, until {last} after {began}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_kills_its_keeper_and_passes_itself_on_is_dead_before_the_next_one_starts() {
    on_every_lock(async |scene, options| {
        for feats in ["kill", "kill crowd"] {
            fights_to_the_end(scene, options, feats).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_its_keeper_and_passes_itself_on_is_dead_before_the_next_one_starts() {
    on_every_lock(async |scene, options| fights_to_the_end(scene, options, "stop").await).await;
}

/// Requests that are begun and never ended take every descriptor that a copy may have.
fn half_sent(to: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| {
        let mut request = TcpStream::connect(to).ok()?;
        request.write_all(b"GET / HTTP/1.1\r\nHost: ").ok()?;
        Some(request)
    };
    (0..60).filter_map(connect).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_a_descriptor_left_still_ends_its_child() {
    on_every_lock(async |scene, options| {
        let port = Port::claim().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let one = format!("{options} --http {address}");
        let one = scene.copy_after("ulimit -n 48", "one", &one, &stubborn());
        let first = one.acts_after(0).await;
        let child = child_of(scene, &one).await;
        let two = scene.copy("two", options, &stubborn());
        let _requests = half_sent(address);
        eventually_true("it has none left", secs(10), async || {
            let log = fs::read_to_string(scene.path("log-one")).unwrap();
            log.contains("Too many open files")
        })
        .await;
        kill_process(parent_of(child).unwrap(), Signal::KILL).unwrap();
        two.acts_after(first.epoch).await;
        assert_never_together(&one, &two);
    })
    .await;
}

/// Where SIGCHLD is ignored, as a daemon may leave it to its children, whoever ends leaves no trace to be met.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_started_with_its_childrens_ends_ignored_hears_of_them() {
    let scene = Scene::on_sqlite();
    let copy = scene.copy_after("trap '' CHLD", "one", "--lease 3s", BEATS);
    copy.acts_after(0).await;
    let status = fs::read_to_string(format!("/proc/{}/status", copy.pid().as_raw_pid())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored >> (Signal::CHILD.as_raw() - 1) & 1, 0, "{ignored:x}");
}
