//! Nodes and agents, killed and frozen at random: every job ends once, and none is lost.

use std::{collections::HashMap, time::Duration};

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tenure_testkit::{eventually, eventually_true, millis, secs};

use crate::scene::{Agent, Cluster};

/// How many jobs: all of them with TENURE_TEST_FULL, and otherwise fewer.
fn jobs() -> usize {
    match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => 5_000,
        None => 600,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_ends_once_on_postgres() {
    every_job_ends_once(&mut Cluster::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_ends_once_on_sqlite() {
    every_job_ends_once(&mut Cluster::on_sqlite()).await;
}

const SETTINGS: &str = "job_lease = \"3s\"\ntakeover_window = \"2s\"";
const AGENTS: usize = 5;

/// What was done to them.
#[derive(Debug, Default)]
struct Harm {
    killed_nodes: usize,
    frozen_nodes: usize,
    killed_agents: usize,
    frozen_agents: usize,
}

async fn every_job_ends_once(cluster: &mut Cluster) {
    let count = jobs();
    cluster.nodes(3, true, SETTINGS).await;
    let mut agents: Vec<_> = (0..AGENTS).map(|at| Some(start_agent(cluster, at))).collect();
    let mut harm = Harm::default();
    let mut submitted = 0;
    // Jobs come while it happens, so that some are always queued, leased, and on their way back.
    while submitted < count {
        let batch = (count / 12).max(20).min(count - submitted);
        submit(cluster, submitted, batch).await;
        submitted += batch;
        do_harm(cluster, &mut agents, &mut harm).await;
    }
    for _ in 0..2 {
        do_harm(cluster, &mut agents, &mut harm).await;
    }
    println!("{count} jobs (5,000 with TENURE_TEST_FULL=1), {harm:?}");
    all_have_ended(cluster, count).await;
    verify(cluster, count).await;
}

fn start_agent(cluster: &Cluster, at: usize) -> Agent {
    cluster
        .agent(&format!("agent-{at}"), &["--concurrency", "8", "--poll", "2s", "--heartbeat", "1s"])
}

async fn submit(cluster: &Cluster, from: usize, count: usize) {
    let submits = (from..from + count).map(|number| async move {
        let job = json!({"job_id": format!("job-{number}"), "op": "sleep", "payload": {"ms": fastrand::u64(0..40)}});
        eventually("somebody takes the job", secs(60), async || {
            // The same id again and again, until somebody says that it is stored.
            let at = fastrand::usize(0..cluster.places.len());
            let url = format!("{}/v1/jobs", cluster.places[at].url);
            let sent = cluster.client.post(url).json(&job).timeout(secs(1)).send().await.ok()?;
            (sent.status() == 200).then_some(())
        })
        .await;
    });
    futures_util::stream::iter(submits).buffer_unordered(32).collect::<Vec<_>>().await;
}

/// One thing after another: a node or an agent is killed and started again, or frozen for a while.
async fn do_harm(cluster: &mut Cluster, agents: &mut [Option<Agent>], harm: &mut Harm) {
    match fastrand::u8(0..4) {
        0 => {
            let at = fastrand::usize(0..cluster.places.len());
            cluster.places[at].kill();
            pause(millis(500)).await;
            cluster.start_node(at);
            harm.killed_nodes += 1;
        }
        1 => {
            // The whole node, as when a machine hangs; or the supervisor alone.
            let at = fastrand::usize(0..cluster.places.len());
            let mut frozen = vec![cluster.places[at].pid()];
            if fastrand::bool() {
                frozen.extend(cluster.places[at].children(""));
            }
            freeze(&frozen).await;
            harm.frozen_nodes += 1;
        }
        2 => {
            let at = fastrand::usize(0..agents.len());
            agents[at] = None;
            pause(millis(300)).await;
            agents[at] = Some(start_agent(cluster, at));
            harm.killed_agents += 1;
        }
        _ => {
            let at = fastrand::usize(0..agents.len());
            if let Some(agent) = &agents[at] {
                freeze(&[Pid::from_child(&agent.0)]).await;
            }
            harm.frozen_agents += 1;
        }
    }
}

async fn freeze(processes: &[Pid]) {
    for pid in processes {
        let _ = kill_process(*pid, Signal::STOP);
    }
    pause(millis(8_000)).await;
    for pid in processes {
        let _ = kill_process(*pid, Signal::CONT);
    }
}

/// A random time: what is tested is that it does not matter when.
async fn pause(longest: Duration) {
    tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
}

async fn all_have_ended(cluster: &Cluster, count: usize) {
    let all = async || rows(cluster).await.len() == count;
    eventually_true("all jobs have ended", secs(120), all).await;
}

/// What the database says, row by row.
struct Row {
    job_id: String,
    state: String,
    job_epoch: i64,
    leader_epoch: i64,
    result_epoch: i64,
    result_leader_epoch: i64,
    results: i64,
}

const ASKED: &str = "SELECT j.job_id, j.state, j.job_epoch, j.leader_epoch, r.job_epoch, r.leader_epoch, \
                     (SELECT count(*) FROM tenure_job_results AS all_r WHERE all_r.row_number = j.row_number) \
                     FROM tenure_jobs AS j JOIN tenure_job_results AS r ON r.row_number = j.row_number";

async fn rows(cluster: &Cluster) -> Vec<Row> {
    match &cluster.postgres {
        Some(postgres) => {
            let client = postgres.connect().await.unwrap();
            let lines = client.query(ASKED, &[]).await.unwrap();
            let read = |line: &tokio_postgres::Row| Row {
                job_id: line.get(0),
                state: line.get(1),
                job_epoch: line.get(2),
                leader_epoch: line.get(3),
                result_epoch: line.get(4),
                result_leader_epoch: line.get(5),
                results: line.get(6),
            };
            lines.iter().map(read).collect()
        }
        None => {
            let file = rusqlite::Connection::open(cluster.path("tenure.db")).unwrap();
            let mut asked = file.prepare(ASKED).unwrap();
            let read = |line: &rusqlite::Row<'_>| {
                Ok(Row {
                    job_id: line.get(0)?,
                    state: line.get(1)?,
                    job_epoch: line.get(2)?,
                    leader_epoch: line.get(3)?,
                    result_epoch: line.get(4)?,
                    result_leader_epoch: line.get(5)?,
                    results: line.get(6)?,
                })
            };
            asked.query_map([], read).unwrap().collect::<Result<_, _>>().unwrap()
        }
    }
}

async fn verify(cluster: &Cluster, count: usize) {
    let rows = rows(cluster).await;
    assert_eq!(rows.len(), count, "every job that was accepted has ended");
    let mut seen = HashMap::new();
    for row in rows {
        assert_eq!((row.state.as_str(), row.results), ("succeeded", 1), "{}", row.job_id);
        assert_eq!(row.job_epoch, row.result_epoch, "{}: a stale result was recorded", row.job_id);
        assert_eq!(row.leader_epoch, row.result_leader_epoch, "{}", row.job_id);
        *seen.entry(row.job_id).or_insert(0) += 1;
    }
    assert!((0..count).all(|number| seen.get(&format!("job-{number}")) == Some(&1)));
    events_are_in_order(cluster, count).await;
}

/// The events tell the same story: each job was completed once, under the last of its epochs, and no event is missing
/// or out of its leader's time.
async fn events_are_in_order(cluster: &Cluster, count: usize) {
    let asked =
        "SELECT event_number, leader_epoch, kind FROM tenure_job_events ORDER BY event_number";
    let events: Vec<(i64, i64, String)> = match &cluster.postgres {
        Some(postgres) => {
            let lines = postgres.connect().await.unwrap().query(asked, &[]).await.unwrap();
            lines.iter().map(|line| (line.get(0), line.get(1), line.get(2))).collect()
        }
        None => {
            let file = rusqlite::Connection::open(cluster.path("tenure.db")).unwrap();
            let mut asked = file.prepare(asked).unwrap();
            let read = asked.query_map([], |line| Ok((line.get(0)?, line.get(1)?, line.get(2)?)));
            read.unwrap().collect::<Result<_, _>>().unwrap()
        }
    };
    let numbers: Vec<_> = events.iter().map(|(number, _, _)| *number).collect();
    assert_eq!(numbers, (1..=events.len() as i64).collect::<Vec<_>>(), "no gap, no repeat");
    let epochs: Vec<_> = events.iter().map(|(_, epoch, _)| *epoch).collect();
    assert!(epochs.is_sorted(), "no leader wrote after its successor had begun");
    let completed = events.iter().filter(|(_, _, kind)| kind == "job.completed").count();
    assert_eq!(completed, count);
}
