//! Instances killed at random: every intent accepted once.

use std::time::Duration;

use tenure_testkit::{eventually, haproxy::Haproxy, secs};
use tokio::task::JoinSet;

use crate::scene::{Scene, submit_once};

/// How many intents in how many rounds; the count with `TENURE_TEST_FULL=1`.
fn rounds_of() -> (usize, usize) {
    match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => (20, 500),
        None => (4, 500),
    }
}

/// As many clients as there are at once.
const CLIENTS: usize = 20;

/// Clients that share the work, each trying again until an instance has what it sends.
fn clients(scene: &Scene, urls: &[String], ids: &[String]) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let mine: Vec<_> = ids.iter().skip(first).step_by(CLIENTS).cloned().collect();
        let (client, urls) = (scene.client.clone(), urls.to_vec());
        clients.spawn(async move {
            for id in mine {
                eventually("an instance takes it", secs(30), async || {
                    let url = &urls[fastrand::usize(..urls.len())];
                    submit_once(&client, url, &id).await
                })
                .await;
            }
        });
    }
    clients
}

/// In each round one is killed while clients submit: the leader, or anybody.
async fn killed_in_every_round(mut scene: Scene, urls: &[String], only_leaders: bool) {
    let (rounds, size) = rounds_of();
    println!("{rounds} rounds of {size} intents (20 with TENURE_TEST_FULL=1)");
    let mut ids = Vec::new();
    for round in 0..rounds {
        let leader = scene.leader().await;
        let fresh: Vec<_> = (0..size).map(|number| format!("i-{round}-{number}")).collect();
        let mut clients = clients(&scene, urls, &fresh);
        let victim = match only_leaders || fastrand::bool() {
            true => leader,
            false => fastrand::usize(..3),
        };
        // Before, during or after most of its calls.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
        scene.instances[victim].kill();
        scene.start(victim);
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
        ids.extend(fresh);
    }
    scene.all_were_accepted_once(&ids).await;
}

fn urls(scene: &Scene) -> Vec<String> {
    scene.instances.iter().map(|instance| instance.url.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_intent_is_accepted_once_though_instances_are_killed_on_postgres() {
    let scene = Scene::on_postgres().await;
    let urls = urls(&scene);
    killed_in_every_round(scene, &urls, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_intent_is_accepted_once_though_instances_are_killed_on_sqlite() {
    let scene = Scene::on_sqlite().await;
    let urls = urls(&scene);
    killed_in_every_round(scene, &urls, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_haproxy_nothing_is_lost_while_leaders_are_killed() {
    let scene = Scene::on_postgres().await;
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/haproxy.cfg");
    let mut shipped = std::fs::read_to_string(shipped).unwrap();
    for (at, instance) in scene.instances.iter().enumerate() {
        let server = format!("server node-{0} node-{0}:8080", at + 1);
        assert!(shipped.contains(&server), "{server}");
        let here = format!("server node-{} 127.0.0.1:{}", at + 1, instance.port.number());
        shipped = shipped.replace(&server, &here);
    }
    let haproxy =
        Haproxy::with(|port| shipped.replace("bind :8000", &format!("bind 127.0.0.1:{port}")));
    let haproxy = haproxy.await.unwrap();
    killed_in_every_round(scene, &[haproxy.url()], true).await;
}
