//! `tenure submissions` while its database fails over: nothing is executed under two keys, and what was
//! confirmed is lost only where the database loses commits.

use std::{collections::HashSet, time::Duration};

use reqwest::{Client, StatusCode};
use serde_json::json;
use tempfile::TempDir;
use tenure_database::BootInstant;
use tenure_testkit::{
    eventually,
    patroni::{Cluster, Replication},
    secs,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    blows::{Blow, blows, logged},
    pauses::Pauses,
    scene::Scene,
};

const CLIENTS: usize = 10;
/// How many intents are confirmed while the replica gets nothing.
const HELD_BACK: usize = 50;
/// How long a client rests between two intents: what they submit is read row by row in the end.
const REST: Duration = Duration::from_millis(200);

/// Tries again until an instance has taken it. That the database does not answer is a 500.
async fn confirm(client: &Client, urls: &[String], id: &str) {
    let intent = json!({"intentId": id, "submissionTarget": "otp", "payload": id});
    eventually("an instance takes it", secs(90), async || {
        let url = format!("{}/v1/intents", urls[fastrand::usize(..urls.len())]);
        let status = client.post(url).json(&intent).send().await.ok()?.status();
        assert!(status == StatusCode::OK || status.is_server_error(), "{status}");
        (status == StatusCode::OK).then_some(())
    })
    .await;
}

fn urls(scene: &Scene) -> Vec<String> {
    scene.instances.iter().map(|instance| instance.url.clone()).collect()
}

/// Clients that submit until they are told to stop, and return what was confirmed.
fn clients(scene: &Scene, round: usize, stop: &CancellationToken) -> JoinSet<Vec<String>> {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (client, urls, stop) = (scene.client.clone(), urls(scene), stop.clone());
        clients.spawn(async move {
            let mut confirmed = Vec::new();
            while !stop.is_cancelled() {
                let id = format!("i-{round}-{number}-{}", confirmed.len());
                confirm(&client, &urls, &id).await;
                confirmed.push(id);
                tokio::time::sleep(REST).await;
            }
            confirmed
        });
    }
    clients
}

/// One blow while intents flow. Returns what was confirmed, and when it struck.
async fn struck(
    cluster: &Cluster,
    scene: &Scene,
    blow: Blow,
    round: usize,
) -> (Vec<String>, BootInstant) {
    let stop = CancellationToken::new();
    let clients = clients(scene, round, &stop);
    let mut held_back = Vec::new();
    let lags = async {
        for number in 0..HELD_BACK {
            let id = format!("i-{round}-held-{number}");
            confirm(&scene.client, &urls(scene), &id).await;
            held_back.push(id);
        }
    };
    let struck = blow.strike(cluster, lags).await;
    scene.leader().await;
    stop.cancel();
    let confirmed = clients.join_all().await.concat();
    ([confirmed, held_back].concat(), struck)
}

async fn intents_survive(replication: Replication) {
    let cluster = Cluster::start(replication).await.unwrap();
    let scene = Scene::on(TempDir::new().unwrap(), None, cluster.url()).await;
    let (mut pauses, mut confirmed, mut lags) = (Pauses::default(), Vec::new(), 0);
    let blows = blows(replication);
    for (round, &blow) in blows.iter().enumerate() {
        scene.leader().await;
        let (ids, struck) = struck(&cluster, &scene, blow, round).await;
        confirmed.extend(ids);
        let pause = BootInstant::now().since(struck);
        pauses.add("submissions, until one leads and all under way is taken", blow, pause);
        lags += usize::from(blow == Blow::CrashWithLag);
    }
    pauses.print();
    cluster.until_healthy().await.unwrap();
    let kept = kept(&scene, &confirmed).await;
    let lost = confirmed.len() - kept.len();
    let told = logged(scene.folder(), "leader_server_changed");
    println!(
        "{} confirmed, {lost} of them lost; told of another server {told} times",
        confirmed.len(),
    );
    assert!(told >= blows.len(), "{} changes of the server, told {told} times", blows.len());
    match replication {
        Replication::Synchronous => assert_eq!(lost, 0, "confirmed and lost"),
        Replication::Asynchronous => {
            assert!(lost >= lags * HELD_BACK, "what was held back was not lost");
        }
    }
    scene.all_were_accepted_once(&kept).await;
}

/// Those that the database still knows.
async fn kept(scene: &Scene, confirmed: &[String]) -> Vec<String> {
    let store = scene.store();
    let mut known = HashSet::new();
    for chunk in confirmed.chunks(500) {
        let ids: Vec<_> = chunk.iter().map(String::as_str).collect();
        known.extend(store.find(&ids).await.unwrap().into_iter().map(|found| found.view.intent_id));
    }
    confirmed.iter().filter(|id| known.contains(*id)).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn intents_survive_on_an_asynchronous_cluster_but_for_what_the_database_lost() {
    intents_survive(Replication::Asynchronous).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_confirmed_intent_survives_on_a_synchronous_cluster() {
    intents_survive(Replication::Synchronous).await;
}
