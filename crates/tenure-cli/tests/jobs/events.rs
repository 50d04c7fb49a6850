//! Events: followed here, gone on with there, and nothing missed.

use futures_util::StreamExt;
use serde_json::{Value, json};
use tenure_testkit::secs;

use crate::scene::{Cluster, result};

on_both! {
    whoever_follows_is_told_everything_in_order
    a_follower_that_moves_to_another_node_misses_nothing
    a_follower_hears_of_its_namespace_and_of_leaders
    a_resume_from_what_is_forgotten_says_so
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    kind: String,
    /// As it was sent.
    place: String,
    /// Its number.
    id: i64,
    data: Value,
}

/// Follows until `enough` of what was heard, and returns that.
async fn follow(
    cluster: &Cluster,
    at: usize,
    query: &str,
    since: Option<&str>,
    enough: impl Fn(&[Told]) -> bool,
) -> Vec<Told> {
    let url = format!("{}/v1/events{query}", cluster.places[at].url);
    let mut request = cluster.client.get(url);
    if let Some(since) = since {
        request = request.header("Last-Event-ID", since);
    }
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(response.headers().contains_key("x-dspu-role"));
    let (mut text, mut told) = (String::new(), Vec::new());
    let mut late = std::pin::pin!(tokio::time::sleep(secs(20)));
    while !enough(&told) {
        tokio::select! {
            chunk = response.chunk() => {
                text.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
            }
            () = &mut late => panic!("not told in time; so far: {told:#?}"),
        }
        while let Some((event, rest)) = text.clone().split_once("\n\n") {
            told.extend(parse(event));
            text = rest.to_owned();
        }
    }
    told
}

/// A comment is none.
fn parse(text: &str) -> Option<Told> {
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned))
    };
    Some(Told {
        kind: field("event")?,
        id: field("id")?.rsplit('-').next()?.parse().unwrap(),
        place: field("id")?,
        data: serde_json::from_str(&field("data")?).unwrap(),
    })
}

fn kinds(told: &[Told]) -> Vec<&str> {
    told.iter().map(|one| one.kind.as_str()).collect()
}

async fn whoever_follows_is_told_everything_in_order(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    let happens = async {
        let cluster: &Cluster = cluster;
        let lease = cluster.leased(at, "job", "me").await;
        cluster.post(at, "/v1/results", result(&lease, "job", 7)).await.stale();
        cluster
            .post(at, "/v1/leases/expire", json!({"job_id": "job", "reason": "why"}))
            .await
            .done();
        let lease = cluster.lease(at, "me", 1).await;
        let lease = lease["lease_id"].as_str().unwrap();
        cluster.post(at, "/v1/results", result(lease, "job", 2)).await.done();
        cluster.post(at, "/v1/results", result(lease, "job", 2)).await.done();
    };
    let (told, ()) = futures_util::join!(
        follow(cluster, at, "", Some("0"), |told| kinds(told).contains(&"job.result.duplicate")),
        happens
    );
    assert_eq!(
        kinds(&told),
        [
            "hello",
            "role.changed",
            "job.updated",
            "job.leased",
            "job.result.rejected",
            "job.expired",
            "job.leased",
            "job.result.accepted",
            "job.completed",
            "job.result.duplicate",
        ]
    );
    let ids: Vec<_> = told[1..].iter().map(|one| one.id).collect();
    assert_eq!(ids, (1..=9).collect::<Vec<_>>());
    assert_eq!(told[0].data["last_event_id"], told[0].place.as_str());
    assert_eq!(told[1].data["leader_id"], cluster.places[at].name);
    let expired = &told[5].data;
    assert_eq!(
        (&expired["job_id"], &expired["job_epoch"], &expired["detail"]),
        (&json!("job"), &json!(2), &json!("why"))
    );
    assert!(told[1..].iter().all(|one| one.data["leader_epoch"] == 1));
    let with_lease = told.iter().filter(|one| one.data["lease_id"].is_string());
    assert!(with_lease.clone().all(|one| one.kind == "job.leased") && with_lease.count() == 2);
}

async fn a_follower_that_moves_to_another_node_misses_nothing(cluster: &mut Cluster) {
    let leader = cluster.controllers(2).await;
    let standby = 1 - leader;
    for number in 0..10 {
        cluster.submit(leader, &format!("a-{number}"), "echo", json!(1)).await.done();
    }
    let first = follow(cluster, standby, "", Some("0"), |told| told.len() > 6).await;
    let seen = first.last().unwrap().place.clone();
    cluster.places[leader].kill();
    let (next, _) = cluster.leader_after(1).await;
    cluster.submit(next, "b", "echo", json!(1)).await.done();
    let rest = follow(cluster, next, "", Some(&seen), |told| {
        told.iter().any(|one| one.data["job_id"] == "b")
    })
    .await;
    assert_eq!((rest[0].kind.as_str(), &rest[0].place), ("hello", &seen));
    assert_eq!(rest[0].data["missed"], false);
    let all: Vec<_> = first[1..].iter().chain(&rest[1..]).map(|one| one.id).collect();
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
    let jobs = first.iter().chain(&rest).filter(|one| one.kind == "job.updated").count();
    assert_eq!(jobs, 11);
    assert!(kinds(&rest).contains(&"role.changed"));
}

async fn a_follower_hears_of_its_namespace_and_of_leaders(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    for namespace in ["a", "b", "a"] {
        let job = json!({"op": "echo", "payload": 1, "namespace": namespace});
        cluster.post(at, "/v1/jobs", job).await.done();
    }
    let told = follow(cluster, at, "?namespace=a", Some("0"), |told| told.len() == 4).await;
    assert_eq!(kinds(&told), ["hello", "role.changed", "job.updated", "job.updated"]);
    assert!(told[2..].iter().all(|one| one.data["namespace"] == "a"));
    let url = format!("{}/v1/events", cluster.places[at].url);
    let refused = cluster.client.get(url).header("Last-Event-ID", "x").send().await.unwrap();
    assert_eq!(refused.status(), 400);
}

async fn a_resume_from_what_is_forgotten_says_so(cluster: &mut Cluster) {
    cluster.argue("--keep-events 1000");
    let at = cluster.controllers(1).await;
    let submits = (0..1_200)
        .map(|number| cluster.submit(at, format!("job-{number}").leak(), "echo", json!(1)));
    futures_util::stream::iter(submits)
        .buffer_unordered(64)
        .for_each(|answer| async {
            answer.done();
        })
        .await;
    tenure_testkit::eventually_true("old events are forgotten", secs(20), async || {
        let told = follow(cluster, at, "", Some("1"), |told| !told.is_empty()).await;
        told[0].data["missed"] == true && told[0].id == 201
    })
    .await;
    // A number that was never given, and one that was given in another history: as after a restore.
    for strange in ["1000000", "0123456789ab-1100"] {
        let told = follow(cluster, at, "", Some(strange), |told| !told.is_empty()).await;
        assert_eq!((&told[0].data["missed"], told[0].id), (&json!(true), 1_201));
    }
}
