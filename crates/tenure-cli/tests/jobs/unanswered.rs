//! A database that does what it is told, and whose answers are lost.

use serde_json::json;
use tenure_testkit::{
    eventually_true,
    proxy::{Direction, Proxy},
};

use crate::scene::{Answer, Cluster, SOON};

on_both! {
    a_lease_whose_answer_died_with_its_leader_is_taken_back_when_its_agent_comes_again
}

/// No lease runs out meanwhile: they last for 30 seconds, and this never waits.
async fn a_lease_whose_answer_died_with_its_leader_is_taken_back_when_its_agent_comes_again(
    cluster: &mut Cluster,
) {
    let leader = cluster.controllers(2).await;
    let known = cluster.leased(leader, "known", "me").await;
    cluster.leased(leader, "lost", "me").await;
    cluster.leased(leader, "another's", "you").await;
    cluster.places[leader].kill();
    let (next, _) = cluster.leader_after(1).await;
    let asks = async |agent: &str, leases: serde_json::Value| {
        let asked = json!({"agent": agent, "leases": leases, "timeout_ms": 10_000});
        cluster.post(next, "/v1/leases", asked).await
    };
    let lease = asks("me", json!([known])).await.done();
    assert_eq!(lease["tasks"][0]["job_id"], "lost", "{lease}");
    assert_eq!(lease["tasks"][0]["job_epoch"], 2, "{lease}");
    // What it was told of is still its own, and so is what it gets from now on, whatever it names.
    cluster.submit(next, "more", "echo", json!(1)).await.done();
    assert_eq!(asks("me", json!([])).await.done()["tasks"][0]["job_id"], "more");
    cluster.submit(next, "third", "echo", json!(1)).await.done();
    // Whoever names nothing keeps all.
    assert_eq!(asks("you", json!(null)).await.done()["tasks"][0]["job_id"], "third");
    cluster.submit(next, "last", "echo", json!(1)).await.done();
    assert_eq!(asks("me", json!([])).await.done()["tasks"][0]["job_id"], "last");
    for (job_id, job_epoch) in
        [("known", 1), ("another's", 1), ("lost", 2), ("more", 1), ("third", 1)]
    {
        let job = cluster.job(next, job_id).await;
        assert_eq!((&job["state"], &job["job_epoch"]), (&json!("leased"), &json!(job_epoch)));
    }
}

/// A controller whose jobs are behind a proxy, and whose lock is not.
async fn behind_a_proxy(cluster: &mut Cluster) -> Proxy {
    let url = cluster.db.clone();
    let port: u16 = url.split(':').next_back().unwrap().split('/').next().unwrap().parse().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], port).into()).await.unwrap();
    cluster.db = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    cluster.environment.push(("PG_CONN_STRING".to_owned(), url));
    proxy
}

async fn count(cluster: &Cluster, asked: &str) -> i64 {
    let client = cluster.postgres.as_ref().unwrap().connect().await.unwrap();
    client.query_one(asked, &[]).await.unwrap().get(0)
}

/// Sends a request whose change is written, and whose answers are held back from then on.
async fn unanswered(
    cluster: &Cluster,
    proxy: &Proxy,
    request: impl Future<Output = Answer>,
) -> Answer {
    let postgres = cluster.postgres.as_ref().unwrap();
    let (blocker, watcher) = (postgres.connect().await.unwrap(), postgres.connect().await.unwrap());
    // Whoever writes jobs waits here, with its fence passed and everything sent.
    blocker.batch_execute("BEGIN; SELECT FROM tenure_job_changes FOR UPDATE").await.unwrap();
    let hold = async {
        eventually_true("the change waits", SOON, async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            watcher.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        proxy.hold(Direction::ToClient);
        blocker.batch_execute("COMMIT").await.unwrap();
    };
    futures_util::join!(request, hold).0
}

#[tokio::test]
async fn a_job_whose_confirmation_was_lost_is_leased_all_the_same() {
    let cluster = &mut Cluster::on_postgres().await;
    let proxy = behind_a_proxy(cluster).await;
    let at = cluster.controllers(1).await;
    cluster.submit(at, "before", "echo", json!(1)).await.done();
    let submit = cluster.submit(at, "job", "echo", json!(1));
    let unanswered = unanswered(cluster, &proxy, submit).await;
    assert_eq!(unanswered.error(), (503, "UNAVAILABLE".to_owned()), "{unanswered:?}");
    assert_eq!(count(cluster, "SELECT count(*) FROM tenure_jobs WHERE job_id = 'job'").await, 1);
    proxy.pass();
    eventually_true("it is confirmed when it is sent again", SOON, async || {
        cluster.submit(at, "job", "echo", json!(1)).await.status == 200
    })
    .await;
    let mut got = Vec::new();
    while got.len() < 2 {
        let lease = cluster.lease(at, "me", 1).await;
        got.push(lease["tasks"][0]["job_id"].as_str().unwrap().to_owned());
    }
    got.sort();
    assert_eq!(got, ["before", "job"]);
}

#[tokio::test]
async fn a_lease_that_no_agent_was_told_of_is_taken_back_at_once() {
    let cluster = &mut Cluster::on_postgres().await;
    let proxy = behind_a_proxy(cluster).await;
    let at = cluster.controllers(1).await;
    cluster.submit(at, "job", "echo", json!(1)).await.done();
    let lease = cluster.post(at, "/v1/leases", json!({"agent": "me"}));
    let unanswered = unanswered(cluster, &proxy, lease).await;
    assert_eq!(unanswered.error(), (503, "UNAVAILABLE".to_owned()), "{unanswered:?}");
    assert_eq!(count(cluster, "SELECT count(*) FROM tenure_jobs WHERE leased_by = 'me'").await, 1);
    proxy.pass();
    // Long before the lease of 30 seconds ends, and although the agent that it is in the name of is alive.
    let lease = async {
        loop {
            let asked = json!({"agent": "you", "timeout_ms": 5_000});
            let leased = cluster.post(at, "/v1/leases", asked).await;
            if leased.status == 200 {
                return leased.json();
            }
        }
    };
    let lease = tokio::select! {
        lease = lease => lease,
        () = tokio::time::sleep(SOON) => panic!("nobody gets the job"),
    };
    assert_eq!(lease["tasks"][0]["job_epoch"], 2, "{lease}");
}
