//! Where there are many jobs, no statement of the leader reads them all.

use std::fmt::Write;

use tenure_jobs::{
    round::{Reaping, Round, Verdict},
    store::Store,
};
use tenure_testkit::{eventually, secs};

use super::{OnPostgres, schema::statements, store};
use crate::scene::{
    EVERYTHING, PATIENCE, Scene, emptied, grant, heartbeat, job, named, recall, success,
};

/// How many have ended; a tenth as many wait, and a hundredth is leased.
const MANY: i64 = 20_000;

/// As the store has it on its sessions.
const SETTINGS: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

async fn fill(backend: &OnPostgres) {
    let fill = format!(
        "INSERT INTO tenure_jobs (namespace, job_id, op, payload, content_hash, priority, state, leader_epoch,
             lease_id, leased_by, leased_at, created_at, completed_at)
         SELECT 'default', 'old ' || n, 'copy', '1', sha256('1'), n % 4, 'succeeded', 1, 'old ' || n,
             'agent ' || n % 50, now(), now(), now()
         FROM generate_series(1, {MANY}) AS n;
         INSERT INTO tenure_job_leases (lease_id, namespace, agent, leader_epoch, granted_at)
         SELECT lease_id, namespace, leased_by, 1, now() FROM tenure_jobs;
         INSERT INTO tenure_job_results (row_number, job_epoch, lease_id, status, result, leader_epoch, recorded_at)
         SELECT row_number, 1, lease_id, 'succeeded', '1', 1, now() FROM tenure_jobs;
         INSERT INTO tenure_jobs (namespace, job_id, op, payload, content_hash, priority, leader_epoch, created_at)
         SELECT 'default', 'new ' || n, 'copy', '1', sha256('1'), n % 4, 1, now()
         FROM generate_series(1, {MANY} / 10) AS n;
         UPDATE tenure_jobs
         SET state = 'leased', lease_id = 'l', leased_by = 'agent ' || row_number % 50, leased_at = now(),
             lease_expires_at = now() + interval '1 hour'
         WHERE state = 'queued' AND row_number % 10 = 0"
    );
    backend.client.batch_execute(&fill).await.unwrap();
}

/// Whether a plan reads a table by an index.
fn uses(plan: &str, index: &str) -> bool {
    let names = |line: &str| line.split_whitespace().any(|word| word == index);
    plan.lines().any(|line| line.contains("Index") && names(line))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_of_the_leader_finds_its_jobs_by_the_index_meant_for_it() {
    let backend = OnPostgres::start().await;
    fill(&backend).await;
    backend.client.batch_execute(SETTINGS).await.unwrap();
    let statements = statements();
    for statistics in ["", "ANALYZE"] {
        backend.client.batch_execute(statistics).await.unwrap();
        for (name, index) in [
            ("read/open.sql", "tenure_jobs_leased"),
            ("read/run_out.sql", "tenure_jobs_leased"),
            ("read/inherited.sql", "tenure_jobs_leased"),
            ("read/inherited.sql", "tenure_job_leases_pkey"),
            ("read/contents.sql", "tenure_jobs_namespace_job_id_key"),
            ("read/job.sql", "tenure_jobs_namespace_job_id_key"),
            ("write/record.sql", "tenure_jobs_namespace_job_id_key"),
            ("write/record.sql", "tenure_job_leases_pkey"),
            ("write/record.sql", "tenure_job_results_pkey"),
            ("write/hear.sql", "tenure_jobs_leased"),
            ("write/take_back/expired.sql", "tenure_jobs_leased"),
            ("write/take_back/agents.sql", "tenure_jobs_leased"),
        ] {
            let plan = plan(&backend, &statements[name]).await;
            for table in ["tenure_jobs", "tenure_job_results", "tenure_job_leases"] {
                assert!(!plan.contains(&format!("Seq Scan on {table}")), "{name}:\n{plan}");
            }
            assert!(uses(&plan, index), "{name} does not use {index} ({statistics}):\n{plan}");
        }
    }
}

/// The oldest rows have long ended: whoever looks among all rows for those that wait reads these first.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_reads_what_waits_and_nothing_else() {
    let backend = OnPostgres::start().await;
    fill(&backend).await;
    backend.client.batch_execute(SETTINGS).await.unwrap();
    let queued = &statements()["read/queued.sql"];
    for statistics in ["", "ANALYZE"] {
        backend.client.batch_execute(statistics).await.unwrap();
        let plan = plan(&backend, queued).await;
        assert!(uses(&plan, "tenure_jobs_queued"), "{statistics}:\n{plan}");
    }
}

/// Plans are made once: those of a leader that began with an empty queue must do when a hundred thousand wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_was_made_when_nothing_waited_finds_jobs_by_their_rows() {
    let backend = OnPostgres::start().await;
    backend.client.batch_execute(SETTINGS).await.unwrap();
    let statements = statements();
    let mut wrong = Vec::new();
    for name in [
        "write/grant.sql",
        "write/record.sql",
        "write/take_back/expired.sql",
        "write/take_back/agents.sql",
        "write/take_back/jobs.sql",
    ] {
        if !uses(&plan(&backend, &statements[name]).await, "tenure_jobs_pkey") {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "these do not find a row by its number: {wrong:?}");
    fill(&backend).await;
    for (name, index) in [
        ("write/grant.sql", "tenure_jobs_pkey"),
        ("write/take_back/jobs.sql", "tenure_jobs_namespace_job_id_key"),
    ] {
        let plan = plan(&backend, &statements[name]).await;
        assert!(uses(&plan, index), "{name} does not use {index}:\n{plan}");
    }
}

async fn plan(backend: &OnPostgres, statement: &str) -> String {
    let client = &backend.client;
    let parameters = client.prepare(statement).await.unwrap().params().len();
    client.batch_execute(&format!("PREPARE explained AS {statement}")).await.unwrap();
    let nulls = vec!["NULL"; parameters].join(", ");
    let execute = match parameters {
        0 => "explained".to_owned(),
        _ => format!("explained ({nulls})"),
    };
    let rows = client.query(&format!("EXPLAIN EXECUTE {execute}"), &[]).await.unwrap();
    client.batch_execute("DEALLOCATE explained").await.unwrap();
    let mut plan = String::new();
    for row in rows {
        writeln!(plan, "{}", row.get::<_, String>(0)).unwrap();
    }
    plan
}

/// As the server counts it: what is sent, with the settings of the sessions that send it.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_reads_no_table_of_jobs_from_end_to_end() {
    let backend = OnPostgres::start().await;
    fill(&backend).await;
    let mut scene = Scene::begin(&backend).await;
    let ours = store(&backend.postgres, PATIENCE);
    let before = scanned(&backend).await;
    let searched = searched(&backend).await;

    scene.next_term().await;
    let term = &scene.term;
    ours.take_over(term, None).await.unwrap();
    let write = async |round: Round| ours.write(term, &round).await.unwrap();
    let jobs = (0..8).map(|at| job(&format!("{at}"))).collect();
    let queued = write(Round { jobs, ..Round::default() }).await.queued;
    let at: Vec<_> = queued.iter().map(|queued| (queued.row, queued.job_epoch)).collect();
    write(Round { grants: vec![grant("lease of 0", "ann", &at)], ..Round::default() }).await;
    let written = write(Round {
        heartbeats: vec![heartbeat("ann"), heartbeat("bob")],
        results: vec![success("0")],
        recalls: vec![recall("1")],
        burials: vec![named("ann")],
        reaping: emptied(&named("agent 1")).map(|one| Reaping { run_out: Some(EVERYTHING), ..one }),
        jobs: vec![job("0")],
        ..Round::default()
    })
    .await;
    assert_eq!(written.verdicts, [Verdict::Accepted]);
    assert_eq!(ours.queued(1, 0, 100).await.unwrap().len(), 100);
    assert!(ours.open_leases().await.unwrap() > 0);
    assert!(!ours.has_run_out(term, EVERYTHING).await.unwrap());
    ours.job("default", "0").await.unwrap().unwrap();

    // A session that ends tells the server what it did.
    drop(ours);
    eventually("they are counted", secs(20), async || {
        (self::searched(&backend).await > searched).then_some(())
    })
    .await;
    assert_eq!(scanned(&backend).await, before);
}

/// How many rows were read without an index.
async fn scanned(backend: &OnPostgres) -> i64 {
    let query = "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
                 WHERE relname IN ('tenure_jobs', 'tenure_job_leases', 'tenure_job_results')";
    backend.client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    backend.number(query).await
}

async fn searched(backend: &OnPostgres) -> i64 {
    let query = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'tenure_jobs'";
    backend.number(query).await
}
