//! A node as a unit of `Type=notify`.

use std::{fs, os::unix::net::UnixDatagram};

use rustix::process::Signal;
use tenure_testkit::secs;

use crate::scene::Cluster;

on_both! {
    systemd_is_told_what_a_node_is_and_its_children_cannot_speak_for_it
}

async fn systemd_is_told_what_a_node_is_and_its_children_cannot_speak_for_it(
    cluster: &mut Cluster,
) {
    let path = cluster.path("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(secs(30))).unwrap();
    let hear = || {
        let mut told = [0; 512];
        let count = systemd.recv(&mut told).unwrap();
        String::from_utf8_lossy(&told[..count]).trim().to_owned()
    };
    let hears = |words: &str| while hear() != words {};
    let socket = ("NOTIFY_SOCKET".to_owned(), path.display().to_string());
    cluster.environment.extend([socket, ("WATCHDOG_USEC".to_owned(), "900000".to_owned())]);
    let leader = cluster.nodes(1, true, "").await;
    assert_eq!(hear(), "READY=1");
    hears("STATUS=leading term 1");
    hears("WATCHDOG=1");
    let controller = cluster.places[leader].child("controller").await;
    let environment = fs::read(format!("/proc/{}/environ", controller.as_raw_pid())).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG"));
    cluster.places[leader].signal(Signal::TERM);
    hears("STOPPING=1");
    assert_eq!(cluster.places[leader].code().await, Some(0));
}
