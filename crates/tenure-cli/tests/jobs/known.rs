//! Who leads, as a standby knows it: nobody, as soon as no live term is known.

use reqwest::{Method, header::HeaderValue};
use serde_json::{Value, json};
use tenure_testkit::{eventually_true, postgres::Stop};

use crate::scene::{Cluster, SOON};

on_both! {
    a_standby_forgets_a_leader_that_has_died
    a_standby_of_a_node_forgets_a_leader_that_has_died
    who_led_last_is_not_who_leads
}

async fn drain(cluster: &Cluster, url: &str) {
    let url = format!("{url}/drain");
    assert_eq!(cluster.send(Method::POST, &url, None).await.unwrap().status, 202);
}

fn names_nobody_since(role: &Value, epoch: i64) -> bool {
    let named = (&role["leader_id"], &role["leader_url"]);
    named == (&Value::Null, &Value::Null) && role["leader_epoch"] == epoch
}

async fn forgets(cluster: &Cluster, at: usize, epoch: i64) {
    let name = &cluster.places[at].name;
    eventually_true(&format!("{name} names nobody"), SOON, async || {
        let role = cluster.role(at).await.unwrap_or_default();
        role["role"] == "STANDBY" && names_nobody_since(&role, epoch)
    })
    .await;
    let refused = cluster.submit(at, "job", "echo", json!(1)).await;
    assert_eq!(refused.error(), (409, "NOT_LEADER".to_owned()));
    assert!(names_nobody_since(&refused.json(), epoch), "{refused:?}");
    let read = cluster.get(at, "/v1/jobs").await;
    assert_eq!(read.headers["x-dspu-leader-epoch"], epoch.to_string());
    assert!(read.headers.get("x-dspu-leader-id").is_none_or(HeaderValue::is_empty), "{read:?}");
}

/// The standby is drained, and so does not take over.
async fn a_standby_forgets_a_leader_that_has_died(cluster: &mut Cluster) {
    let leader = cluster.controllers(2).await;
    let standby = 1 - leader;
    drain(cluster, &cluster.places[standby].url).await;
    cluster.waits_for_leader(standby, leader).await;
    cluster.places[leader].kill();
    forgets(cluster, standby, 1).await;
    let url = format!("{}/drain", cluster.places[standby].url);
    cluster.send(Method::DELETE, &url, None).await.unwrap();
    cluster.waits_for_leader(standby, standby).await;
    assert_eq!(cluster.role(standby).await.unwrap()["leader_epoch"], 2);
}

async fn a_standby_of_a_node_forgets_a_leader_that_has_died(cluster: &mut Cluster) {
    let leader = cluster.nodes(2, false, "").await;
    let standby = 1 - leader;
    cluster.waits_for_leader(standby, leader).await;
    drain(cluster, &cluster.places[standby].supervisor).await;
    cluster.places[leader].kill();
    forgets(cluster, standby, 1).await;
    let supervisor = format!("{}/role", cluster.places[standby].supervisor);
    let role = cluster.send(Method::GET, &supervisor, None).await.unwrap().done();
    assert!(names_nobody_since(&role, 1), "{role}");
}

/// The database tells who led last, and with which term; the lock tells that nobody does.
async fn who_led_last_is_not_who_leads(cluster: &mut Cluster) {
    cluster.argue("--drain-grace 1s");
    let leader = cluster.controllers(1).await;
    drain(cluster, &cluster.places[leader].url).await;
    cluster.waits_for_role(leader, "STANDBY").await;
    forgets(cluster, leader, 1).await;
}

/// Whatever the lock is: without answers of the database, what was known has run out at some time.
async fn nobody_is_known_without_a_database(lock: &str) {
    let mut cluster = Cluster::on_postgres().await;
    cluster.argue(&format!("--lock {lock}"));
    let leader = cluster.controllers(2).await;
    cluster.postgres.as_ref().unwrap().stop(Stop::Immediate).await.unwrap();
    for at in 0..2 {
        let name = &cluster.places[at].name;
        eventually_true(&format!("{name} names nobody, {leader} led"), SOON, async || {
            names_nobody_since(&cluster.role(at).await.unwrap_or_default(), 1)
        })
        .await;
    }
    cluster.postgres.as_ref().unwrap().resume().await.unwrap();
    let (next, _) = cluster.leader_after(1).await;
    cluster.waits_for_leader(1 - next, next).await;
}

#[tokio::test]
async fn nobody_is_known_without_a_database_that_has_the_lease() {
    nobody_is_known_without_a_database("lease").await;
}

#[tokio::test]
async fn nobody_is_known_without_a_database_that_has_the_advisory_lock() {
    nobody_is_known_without_a_database("advisory").await;
}
