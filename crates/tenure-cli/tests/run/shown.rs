//! A copy that is watched and drained while it runs.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    process::{Command, Output},
    time::Duration,
};

use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use tenure_testkit::{Port, eventually, eventually_true, haproxy::Haproxy, secs};

use crate::copies::{BEATS, Scene};

fn tenure(scene: &Scene, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["--db", &scene.db])
        .args(arguments)
        .current_dir(&scene.folder)
        .output()
        .unwrap()
}

fn says(output: &Output, words: &str) {
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains(words), "{words}: {output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_drained_by_url_and_by_scope_and_comes_back_when_told() {
    let scene = Scene::on_sqlite();
    let (port_one, port_two) = (Port::claim().unwrap(), Port::claim().unwrap());
    let options =
        |name: &str, port: &Port| format!("--lease 2s --node-id {name} --http {}", port.number());
    let one = scene.copy("one", &options("one", &port_one), BEATS);
    let first = one.acts_after(0).await;
    let two = scene.copy("two", &options("two", &port_two), BEATS);
    let url = |port: &Port| format!("http://127.0.0.1:{}", port.number());
    eventually_true("the other serves", secs(10), async || {
        reqwest::get(format!("{}/healthz", url(&port_two))).await.is_ok()
    })
    .await;

    let drained = tenure(&scene, &["drain", "--url", &url(&port_one)]);
    says(&drained, "asked one to hand over term 1");
    // Whether the copy already knows who came after it is a matter of milliseconds.
    let told = String::from_utf8_lossy(&drained.stdout).into_owned();
    assert!(
        ["one has handed over", "two leads term 2"].iter().any(|end| told.contains(end)),
        "{told}"
    );
    let second = two.acts_after(first.epoch).await;
    says(&tenure(&scene, &["drain", "--url", &url(&port_one), "--undo"]), "one contends again");
    says(&tenure(&scene, &["drain", "--scope", "jobs"]), "one leads term");
    let third = one.acts_after(second.epoch).await;
    says(&tenure(&scene, &["drain", "--scope", "jobs", "--undo"]), "contends again");
    says(&tenure(&scene, &["drain", "--scope", "jobs", "--wait", "0s"]), "asked one to hand over");
    two.acts_after(third.epoch).await;

    let unknown = tenure(&scene, &["drain", "--scope", "nothing"]);
    assert!(!unknown.status.success());
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("nobody has ever led"),
        "{unknown:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_is_told_and_the_child_cannot_speak_for_us() {
    let scene = Scene::on_sqlite();
    let path = scene.path("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut told = [0; 512];
        let count = systemd.recv(&mut told).unwrap();
        String::from_utf8_lossy(&told[..count]).into_owned()
    };
    let script = format!("env > environment; {BEATS}");
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "900000")];
    let mut one = scene.copy_in("one", "--lease 2s", &script, &environment);
    assert_eq!(hear().trim(), "READY=1");
    let heard: Vec<_> = std::iter::from_fn(|| Some(hear())).take(12).collect();
    for told in ["STATUS=leading term 1", "WATCHDOG=1"] {
        assert!(heard.iter().any(|heard| heard.trim() == told), "{told} is not among {heard:?}");
    }
    one.acts_after(0).await;
    let environment = fs::read_to_string(scene.path("environment")).unwrap();
    assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG"));
    one.signal(Signal::TERM);
    one.code().await;
}

/// A program that answers every request with its term.
const ANSWERS: &str = "exec /usr/bin/python3 -S -E -c '
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ[\"TENURE_EPOCH\"].encode()
        self.send_response(200); self.send_header(\"content-length\", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer((\"127.0.0.1\", int(os.environ[\"PORT\"])), Answer).serve_forever()'";

#[tokio::test(flavor = "multi_thread")]
async fn haproxy_reaches_the_leader_and_after_a_failover_the_next_one() {
    let scene = Scene::on_sqlite();
    let ports: Vec<_> = (0..6).map(|_| Port::claim().unwrap()).collect();
    let mut copies: Vec<_> = (0..3)
        .map(|at| {
            let options = format!("--lease 2s --http {}", ports[at].number());
            let port = ports[at + 3].number().to_string();
            scene.copy_in(&format!("c{at}"), &options, ANSWERS, &[("PORT", &port)])
        })
        .collect();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/haproxy-leader.cfg");
    let mut shipped = fs::read_to_string(shipped).unwrap();
    for at in 0..3 {
        let (http, program) = (ports[at].number(), ports[at + 3].number());
        let server = format!("server node-{0} node-{0}:7000", at + 1);
        assert!(shipped.contains(&server), "{server}");
        let here = format!("server node-{} 127.0.0.1:{program} port {http}", at + 1);
        shipped = shipped.replace(&server, &here);
    }
    let shipped = shipped.replace("check port 8080", "check");
    let haproxy =
        Haproxy::with(|port| shipped.replace("bind :8000", &format!("bind 127.0.0.1:{port}")));
    let haproxy = haproxy.await.unwrap();
    let client = Client::new();
    let term = async || {
        let answer = client.get(haproxy.url()).send().await.ok()?;
        match answer.status() {
            StatusCode::OK => answer.text().await.ok()?.parse::<i64>().ok(),
            _ => None,
        }
    };
    for signal in [Signal::TERM, Signal::KILL] {
        let led = eventually("the leader answers", secs(20), term).await;
        let leader = eventually("one of them leads", secs(10), async || {
            for (at, port) in ports.iter().take(copies.len()).enumerate() {
                let asked = reqwest::get(format!("http://127.0.0.1:{}/leader", port.number()));
                if asked.await.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                    return Some(at);
                }
            }
            None
        })
        .await;
        copies[leader].signal(signal);
        // A look of HAProxy's may still be to come that finds the former leader gone.
        eventually_true("every request reaches the next leader", secs(20), async || {
            let mut terms = Vec::new();
            for _ in 0..20 {
                terms.extend(term().await);
            }
            terms.len() == 20 && terms.iter().all(|term| *term == terms[0] && *term > led)
        })
        .await;
    }
    copies.clear();
}
