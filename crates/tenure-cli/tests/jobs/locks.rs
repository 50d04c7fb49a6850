//! Locks other than the usual one of the database: jobs go on with each of them.

#[cfg(feature = "etcd")]
use tenure_testkit::etcd::Etcd;

use crate::scene::{Cluster, result};

/// A leader dies with a job in flight, the next one freezes: the job is done once, and there is always one more leader.
async fn jobs_go_on(cluster: &mut Cluster, leader: usize) {
    for at in 0..cluster.places.len() {
        cluster.waits_for_leader(at, leader).await;
    }
    let lease = cluster.leased(leader, "in-flight", "agent").await;
    cluster.places[leader].kill();
    let (next, epoch) = cluster.leader_after(1).await;
    assert_ne!(next, leader);
    cluster.post(next, "/v1/results", result(&lease, "in-flight", 1)).await.done();
    let job = cluster.job(next, "in-flight").await;
    assert_eq!((&job["state"], &job["leader_epoch"]), (&"succeeded".into(), &epoch.into()));
    let lease = cluster.leased(next, "frozen", "agent").await;
    cluster.freeze(next).await;
    let (last, _) = cluster.leader_after(epoch).await;
    assert!(last != next && last != leader, "{last}");
    cluster.post(last, "/v1/results", result(&lease, "frozen", 1)).await.done();
    cluster.places[next].signal(rustix::process::Signal::CONT);
    cluster.waits_for_leader(next, last).await;
    let url = format!("{}/drain", cluster.places[last].url);
    cluster.send(reqwest::Method::POST, &url, None).await.unwrap();
    let (heir, _) = cluster.leader_after(epoch + 1).await;
    assert_eq!(heir, next);
}

async fn controllers(mut cluster: Cluster, arguments: &str) {
    cluster.argue(arguments);
    let leader = cluster.controllers(3).await;
    jobs_go_on(&mut cluster, leader).await;
}

#[tokio::test]
async fn a_lease_decides_on_postgres() {
    controllers(Cluster::on_postgres().await, "--lock lease").await;
}

#[tokio::test]
async fn a_lease_decides_between_nodes_on_postgres() {
    let mut cluster = Cluster::on_postgres().await;
    cluster.lock = "kind = \"lease\"".to_owned();
    let leader = cluster.nodes(2, false, "").await;
    fails_over(&mut cluster, leader).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn etcd_decides_and_the_jobs_are_on_postgres() {
    let etcd = Etcd::start().await.unwrap();
    let arguments = format!("--lock etcd --etcd {}", etcd.endpoint());
    controllers(Cluster::on_postgres().await, &arguments).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn etcd_decides_and_the_jobs_are_on_sqlite() {
    let etcd = Etcd::start().await.unwrap();
    let arguments = format!("--lock etcd --etcd {}", etcd.endpoint());
    controllers(Cluster::on_sqlite(), &arguments).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn etcd_decides_between_nodes() {
    let etcd = Etcd::start().await.unwrap();
    let mut cluster = Cluster::on_postgres().await;
    cluster.lock = format!("kind = \"etcd\"\netcd = [\"{}\"]", etcd.endpoint());
    let leader = cluster.nodes(2, false, "").await;
    fails_over(&mut cluster, leader).await;
}

/// A node dies with a job in flight, and the other one takes the result.
async fn fails_over(cluster: &mut Cluster, leader: usize) {
    let lease = cluster.leased(leader, "in-flight", "agent").await;
    cluster.places[leader].kill();
    let (next, _) = cluster.leader_after(1).await;
    assert_ne!(next, leader);
    cluster.post(next, "/v1/results", result(&lease, "in-flight", 1)).await.done();
}
