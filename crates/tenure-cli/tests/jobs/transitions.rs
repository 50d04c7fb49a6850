//! A node's states: each way from one to the next, with its supervisor, its controller and its agent as processes.

use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tenure_testkit::{eventually, eventually_true, secs};

use crate::scene::{Cluster, SOON, is_alive, lines, result};

on_both! {
    a_promotion_kills_the_agent_before_the_term_begins_and_takes_its_jobs_back
    a_step_down_drains_then_releases_then_starts_the_agent
    a_leader_that_is_killed_is_followed_by_another_and_leaves_nothing_behind
    a_crashed_leader_controller_leads_again_only_in_a_new_term
    a_crashed_standby_controller_is_started_again
    a_controller_that_is_frozen_while_it_leads_is_replaced
    a_node_whose_controller_cannot_be_kept_alive_does_not_lead
    a_node_that_is_told_to_stop_hands_over_and_ends_its_children
    a_frozen_supervisor_shuts_its_controllers_gate
}

/// Writes down the time, again and again, while its job runs.
const BEATS: &str = r#"
built_in = false
[ops.beat]
command = ["sh", "-c", "while :; do date +%s%N >> beats; sleep 0.01; done"]
"#;

/// What a supervisor says of itself.
async fn role_of_supervisor(cluster: &Cluster, at: usize) -> Value {
    let url = format!("{}/role", cluster.places[at].supervisor);
    let answer = cluster.send(Method::GET, &url, None).await;
    answer.map(|answer| answer.json()).unwrap_or_default()
}

async fn a_promotion_kills_the_agent_before_the_term_begins_and_takes_its_jobs_back(
    cluster: &mut Cluster,
) {
    cluster.write("ops.toml", BEATS);
    let places = [cluster.place(), cluster.place()];
    for at in places {
        let agent = format!("{}ops = \"ops.toml\"\n", cluster.moonlighting());
        cluster.configure(at, &agent);
        cluster.start_node(at);
    }
    let (leader, _) = cluster.leader_after(0).await;
    let standby = 1 - leader;
    cluster.submit(leader, "beat", "beat", json!(null)).await.done();
    let job = cluster.waits_for_state(leader, "beat", "leased").await;
    assert_eq!(job["leased_by"], format!("{}-worker", cluster.places[standby].name));
    let beats = cluster.path("beats");
    eventually_true("it beats", SOON, async || lines(&beats).len() > 5).await;
    assert!(cluster.places[leader].children("\0agent\0").is_empty(), "a leader has no agent");
    cluster.places[leader].kill();
    let (next, epoch) = cluster.leader_after(1).await;
    assert_eq!(next, standby);
    // Queued again in the first round: nobody waits for the lease of an agent that is dead, which has half a minute.
    eventually_true("it is queued again", secs(10), async || {
        let job = cluster.job(next, "beat").await;
        (&job["state"], &job["job_epoch"]) == (&json!("queued"), &json!(2))
    })
    .await;
    let began: i128 = began_at(cluster, epoch).await;
    let last: i128 = lines(&beats).last().unwrap().parse().unwrap();
    assert!(last <= began, "a beat {} ns after the term began", last - began);
    assert!(cluster.places[next].children("\0agent\0").is_empty());
    let role = role_of_supervisor(cluster, next).await;
    assert_eq!(role, cluster.role(next).await.unwrap(), "supervisor and controller say the same");
}

/// When a term began, by the database's clock, in nanoseconds.
async fn began_at(cluster: &Cluster, epoch: i64) -> i128 {
    let micros: i64 = match &cluster.postgres {
        Some(postgres) => {
            let client = postgres.connect().await.unwrap();
            let asked = "SELECT (extract(epoch FROM began_at) * 1000000)::bigint FROM tenure_job_leaders \
                         WHERE leader_epoch = $1";
            client.query_one(asked, &[&epoch]).await.unwrap().get(0)
        }
        None => {
            let file = rusqlite::Connection::open(cluster.path("tenure.db")).unwrap();
            let asked = "SELECT began_at FROM tenure_job_leaders WHERE leader_epoch = ?1";
            file.query_row(asked, [epoch], |row| row.get(0)).unwrap()
        }
    };
    i128::from(micros) * 1_000 + 999
}

async fn a_step_down_drains_then_releases_then_starts_the_agent(cluster: &mut Cluster) {
    let leader = cluster.nodes(2, true, "").await;
    let next = 1 - leader;
    // Pinned, so that no agent of the nodes takes it.
    let job = json!({"job_id": "in-flight", "op": "x", "payload": null, "constraints": {"pinned_agent": "me"}});
    cluster.post(leader, "/v1/jobs", job).await.done();
    let lease = cluster.lease(leader, "me", 1).await;
    let lease = lease["lease_id"].as_str().unwrap();
    let url = cluster.places[leader].supervisor.clone();
    let drained = cluster.tenure(&["drain", "--url", &url, "--wait", "0s"]);
    assert!(drained.status.success(), "{drained:?}");
    cluster.waits_for_role(leader, "DRAINING").await;
    assert_eq!(role_of_supervisor(cluster, leader).await["role"], "DRAINING");
    assert!(cluster.places[leader].children("\0agent\0").is_empty());
    let refused = cluster.post(leader, "/v1/leases", json!({"agent": "me"})).await;
    assert_eq!(refused.error(), (409, "NOT_LEADER".to_owned()));
    cluster.post(leader, "/v1/results", result(lease, "in-flight", 1)).await.done();
    let (leads, _) = cluster.leader_after(1).await;
    assert_eq!(leads, next);
    cluster.waits_for_role(leader, "STANDBY").await;
    cluster.places[leader].child("agent").await;
    assert!(cluster.places[next].children("\0agent\0").is_empty());
    // It works for the other now.
    cluster.submit(next, "job", "echo", json!(1)).await.done();
    let done = cluster.waits_for_state(next, "job", "succeeded").await;
    assert_eq!(done["leased_by"], format!("{}-worker", cluster.places[leader].name));
}

async fn a_leader_that_is_killed_is_followed_by_another_and_leaves_nothing_behind(
    cluster: &mut Cluster,
) {
    let leader = cluster.nodes(3, true, "").await;
    let mut children = cluster.places[leader].children("tenure");
    children.extend(cluster.places[leader].children("controller"));
    assert!(children.len() >= 2, "a keeper and a controller");
    cluster.submit(leader, "before", "echo", json!(1)).await.done();
    cluster.places[leader].kill();
    eventually_true("its children end with it", secs(5), async || {
        children.iter().all(|pid| !is_alive(*pid))
    })
    .await;
    let (next, _) = cluster.leader_after(1).await;
    assert_ne!(next, leader);
    cluster.submit(next, "after", "echo", json!(1)).await.done();
    cluster.waits_for_state(next, "before", "succeeded").await;
    cluster.waits_for_state(next, "after", "succeeded").await;
}

async fn a_crashed_leader_controller_leads_again_only_in_a_new_term(cluster: &mut Cluster) {
    let at = cluster.nodes(1, false, "").await;
    cluster.submit(at, "job", "echo", json!(1)).await.done();
    let old = cluster.places[at].child("controller").await;
    kill_process(old, Signal::KILL).unwrap();
    let (_, epoch) = cluster.leader_after(1).await;
    assert_eq!(epoch, 2, "no process leads in a term that another led");
    let new = cluster.places[at].child("controller").await;
    assert!(new != old && !is_alive(old));
    cluster.lease(at, "me", 1).await;
    assert_eq!(cluster.job(at, "job").await["leader_epoch"], 2);
}

async fn a_crashed_standby_controller_is_started_again(cluster: &mut Cluster) {
    let leader = cluster.nodes(2, false, "").await;
    let standby = 1 - leader;
    for _ in 0..3 {
        let old = cluster.places[standby].child("controller").await;
        kill_process(old, Signal::KILL).unwrap();
        eventually("another one runs", SOON, async || {
            cluster.places[standby].children("\0controller\0").into_iter().find(|pid| *pid != old)
        })
        .await;
        cluster.waits_for_role(standby, "STANDBY").await;
    }
    let role = cluster.role(leader).await.unwrap();
    assert_eq!((&role["role"], &role["leader_epoch"]), (&json!("LEADER"), &json!(1)));
    // It knows who leads, without having been there when it was said.
    eventually_true("it names the leader", SOON, async || {
        cluster.role(standby).await.unwrap_or_default()["leader_url"] == cluster.places[leader].url
    })
    .await;
}

async fn a_controller_that_is_frozen_while_it_leads_is_replaced(cluster: &mut Cluster) {
    let leader = cluster.nodes(2, false, "").await;
    let frozen = cluster.places[leader].child("controller").await;
    kill_process(frozen, Signal::STOP).unwrap();
    let (next, epoch) = cluster.leader_after(1).await;
    assert!(epoch > 1 && !is_alive(frozen));
    cluster.submit(next, "job", "echo", json!(1)).await.done();
}

async fn a_node_whose_controller_cannot_be_kept_alive_does_not_lead(cluster: &mut Cluster) {
    let broken = cluster.place();
    cluster.configure(broken, "");
    // Somebody else has its port.
    let address = cluster.places[broken].url.strip_prefix("http://").unwrap().to_owned();
    let _taken = std::net::TcpListener::bind(address).unwrap();
    cluster.start_node(broken);
    let tries = "controller_ended";
    eventually_true("it tries again", SOON, async || {
        cluster.log_of(broken).matches(tries).count() >= 3
    })
    .await;
    assert_eq!(role_of_supervisor(cluster, broken).await["role"], "STANDBY");
    assert!(cluster.places[broken].is_running());
    let good = cluster.place();
    cluster.configure(good, "");
    cluster.start_node(good);
    cluster.waits_for_role(good, "LEADER").await;
    cluster.submit(good, "job", "echo", json!(1)).await.done();
}

async fn a_node_that_is_told_to_stop_hands_over_and_ends_its_children(cluster: &mut Cluster) {
    let leader = cluster.nodes(2, true, "").await;
    let standby = 1 - leader;
    let mut children = cluster.places[leader].children("controller");
    children.extend(cluster.places[leader].children("keeper"));
    cluster.places[leader].signal(Signal::TERM);
    assert_eq!(cluster.places[leader].code().await, Some(0));
    assert!(children.iter().all(|pid| !is_alive(*pid)));
    let (next, epoch) = cluster.leader_after(1).await;
    assert_eq!((next, epoch), (standby, 2));
    let agent = cluster.places[next].children("\0agent\0");
    assert!(agent.is_empty());
    cluster.places[next].signal(Signal::TERM);
    assert_eq!(cluster.places[next].code().await, Some(0));
}

async fn a_frozen_supervisor_shuts_its_controllers_gate(cluster: &mut Cluster) {
    let leader = cluster.nodes(2, false, "").await;
    cluster.places[leader].signal(Signal::STOP);
    // Silence alone does it: the controller runs, and is told nothing.
    eventually_true("its gate is shut", secs(10), async || {
        cluster.submit(leader, "job", "echo", json!(1)).await.status == 409
    })
    .await;
    let (next, _) = cluster.leader_after(1).await;
    assert_ne!(next, leader);
    cluster.submit(next, "other", "echo", json!(1)).await.done();
    assert_eq!(cluster.job(leader, "other").await["state"], "queued", "it still reads");
    cluster.places[leader].signal(Signal::CONT);
    eventually_true("it knows who leads", SOON, async || {
        cluster.role(leader).await.unwrap_or_default()["leader_id"] == cluster.places[next].name
    })
    .await;
}
