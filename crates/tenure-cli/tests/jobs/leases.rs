//! Leases: who gets what, and when.

use serde_json::{Value, json};
use tenure_testkit::{eventually, secs};

use crate::scene::{Cluster, SOON, result};

on_both! {
    a_job_id_means_one_job
    wrong_requests_are_refused_by_name
    jobs_come_by_priority_then_pinned_then_age
    an_agent_gets_what_it_can_do_and_nothing_of_another_namespace
    a_waiting_agent_gets_a_job_as_soon_as_there_is_one
    a_batch_is_judged_one_by_one
    an_expired_job_is_queued_again_and_its_old_result_is_stale
    a_job_whose_agent_went_away_while_waiting_is_another_agents_at_once
    numbers_and_texts_come_back_as_they_were_sent
    a_heartbeat_that_names_its_leases_keeps_no_other
}

fn ids(lease: &Value) -> Vec<&str> {
    let tasks = lease["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["job_id"].as_str().unwrap()).collect()
}

async fn a_job_id_means_one_job(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    let job = json!({"job_id": "job", "op": "echo", "payload": {"a": 1, "b": 2}, "priority": 2});
    assert_eq!(
        cluster.post(at, "/v1/jobs", job.clone()).await.done(),
        json!({"ok": true, "job_id": "job"})
    );
    let same = json!({"priority": 2, "payload": {"b": 2, "a": 1}, "op": "echo", "job_id": "job"});
    cluster.post(at, "/v1/jobs", same).await.done();
    let changes = [
        ("payload", json!({"a": 1})),
        ("op", json!("other")),
        ("priority", json!(1)),
        ("constraints", json!({"pinned_agent": "x"})),
    ];
    for (field, value) in changes {
        let mut other = job.clone();
        other[field] = value;
        let refused = cluster.post(at, "/v1/jobs", other).await;
        assert_eq!(refused.error(), (409, "CONFLICT".to_owned()), "{field}");
    }
    let mut elsewhere = job.clone();
    (elsewhere["namespace"], elsewhere["op"]) = (json!("other"), json!("other"));
    cluster.post(at, "/v1/jobs", elsewhere).await.done();
    let listed = cluster.get(at, "/v1/jobs").await.done();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    let made = cluster.post(at, "/v1/jobs", json!({"op": "echo", "payload": {}})).await.done();
    assert_eq!(cluster.job(at, made["job_id"].as_str().unwrap()).await["priority"], 1);
}

async fn wrong_requests_are_refused_by_name(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    let lease = cluster.leased(at, "job", "agent").await;
    let mut without_epoch = result(&lease, "job", 1);
    without_epoch.as_object_mut().unwrap().remove("job_epoch");
    let mut bad_status = result(&lease, "job", 1);
    bad_status["status"] = json!("done");
    let twice = json!({"lease_id": lease, "results": [
        {"job_id": "job", "job_epoch": 1, "status": "failed"},
        {"job_id": "job", "job_epoch": 1, "status": "failed"},
    ]});
    let refusals = [
        ("/v1/jobs", json!({}), 422, "MISSING_FIELD"),
        ("/v1/jobs", json!([1]), 400, "INVALID_REQUEST"),
        ("/v1/jobs", json!({"op": "echo"}), 400, "INVALID_REQUEST"),
        ("/v1/jobs", json!({"op": "echo", "payload": 1, "max_failures": 0}), 422, "OUT_OF_RANGE"),
        ("/v1/leases", json!({"agent": "a", "lease_s": 121}), 422, "OUT_OF_RANGE"),
        ("/v1/results", result("never granted", "nowhere", 1), 409, "STALE_EPOCH"),
        ("/v1/jobs", json!({"op": "echo", "payload": 1, "priority": 4}), 422, "OUT_OF_RANGE"),
        ("/v1/jobs", json!({"op": "echo", "payload": 1, "job_id": ""}), 400, "INVALID_REQUEST"),
        (
            "/v1/jobs",
            json!({"op": "echo", "payload": 1, "job_id": "a\u{0}b"}),
            400,
            "INVALID_REQUEST",
        ),
        (
            "/v1/jobs",
            json!({"op": "echo", "payload": 1, "namespace": "x".repeat(201)}),
            400,
            "INVALID_REQUEST",
        ),
        ("/v1/jobs", json!({"op": "echo", "payload": "x".repeat(1024 * 1024)}), 413, "TOO_LARGE"),
        (
            "/v1/jobs",
            json!({"op": "echo", "payload": "x".repeat(5 * 1024 * 1024)}),
            413,
            "TOO_LARGE",
        ),
        ("/v1/jobs", json!({"op": "echo", "payload": 1, "leader_epoch": 7}), 409, "STALE_EPOCH"),
        ("/v1/leases", json!({}), 422, "MISSING_FIELD"),
        ("/v1/leases", json!({"agent": "a", "max_tasks": 65}), 422, "OUT_OF_RANGE"),
        ("/v1/leases", json!({"agent": "a", "max_tasks": 0}), 422, "OUT_OF_RANGE"),
        ("/v1/leases", json!({"agent": "a", "timeout_ms": 120_001}), 422, "OUT_OF_RANGE"),
        ("/v1/leases", json!({"agent": "a", "capabilities": "echo"}), 400, "INVALID_REQUEST"),
        ("/v1/leases/expire", json!({"job_id": "nowhere"}), 404, "NOT_FOUND"),
        ("/v1/results", without_epoch, 422, "MISSING_FIELD"),
        ("/v1/results", bad_status, 400, "BAD_STATUS"),
        ("/v1/results", result(&lease, "nowhere", 1), 404, "NOT_FOUND"),
        ("/v1/results", twice, 400, "INVALID_REQUEST"),
        ("/v1/results", json!({"lease_id": lease, "results": []}), 400, "INVALID_REQUEST"),
        ("/v1/agents/heartbeat", json!({"labels": {}}), 422, "MISSING_FIELD"),
        ("/v1/agents/heartbeat", json!({"name": "a", "labels": 1}), 400, "INVALID_REQUEST"),
        (
            "/v1/agents/heartbeat",
            json!({"name": "a", "metrics": "x".repeat(20_000)}),
            413,
            "TOO_LARGE",
        ),
    ];
    for (path, body, status, error) in refusals {
        let shown = body.to_string().chars().take(80).collect::<String>();
        let refused = cluster.post(at, path, body).await;
        assert_eq!(refused.error(), (status, error.to_owned()), "{path} {shown}: {refused:?}");
    }
    assert_eq!(cluster.get(at, "/v1/jobs?limit=0").await.error().0, 422);
    assert_eq!(
        cluster.get(at, "/v1/jobs?limit=1000000").await.status,
        200,
        "as many as there may be"
    );
    for path in ["/v1/jobs?state=done", "/v1/jobs?since=now", "/v1/jobs?op=a&op=b"] {
        assert_eq!(
            cluster.get(at, path).await.error(),
            (400, "INVALID_REQUEST".to_owned()),
            "{path}"
        );
    }
    assert_eq!(cluster.get(at, "/v1/leases").await.status, 405);
    // Nothing of all that was done.
    assert_eq!(cluster.get(at, "/v1/jobs").await.done()["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(cluster.job(at, "job").await["state"], "leased");
}

async fn jobs_come_by_priority_then_pinned_then_age(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    for (job_id, priority, pinned) in [
        ("low", 0, None),
        ("old", 1, None),
        ("young", 1, None),
        ("mine", 1, Some("me")),
        ("anothers", 3, Some("you")),
        ("urgent", 3, None),
    ] {
        let job = json!({
            "job_id": job_id, "op": "echo", "payload": 1, "priority": priority,
            "constraints": {"pinned_agent": pinned},
        });
        cluster.post(at, "/v1/jobs", job).await.done();
    }
    let lease = cluster.lease(at, "me", 64).await;
    assert_eq!(ids(&lease), ["urgent", "mine", "old", "young", "low"]);
    assert_eq!(lease["tasks"][1]["pinned_agent"], "me");
    let asked = json!({"agent": "me"});
    assert_eq!(cluster.post(at, "/v1/leases", asked).await.status, 204);
    assert_eq!(ids(&cluster.lease(at, "you", 64).await), ["anothers"]);
}

async fn an_agent_gets_what_it_can_do_and_nothing_of_another_namespace(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    for (namespace, op) in [("a", "x"), ("a", "y"), ("b", "x")] {
        let job = json!({"namespace": namespace, "op": op, "job_id": op, "payload": 1});
        cluster.post(at, "/v1/jobs", job).await.done();
    }
    let ask = async |capabilities: Value, namespace: &str| {
        let asked = json!({"agent": "me", "namespace": namespace, "capabilities": capabilities, "max_tasks": 9});
        cluster.post(at, "/v1/leases", asked).await
    };
    assert_eq!(ask(json!({"ops": {"x": false, "y": false}}), "a").await.status, 204);
    assert_eq!(ask(json!({"ops": ["z"]}), "a").await.status, 204);
    assert_eq!(ask(json!(["x"]), "default").await.status, 204);
    assert_eq!(ids(&ask(json!({"ops": ["y", "z"]}), "a").await.done()), ["y"]);
    let lease = ask(json!(["x", "y"]), "b").await.done();
    assert_eq!(ids(&lease), ["x"]);
    // A result finds its job in the namespace of its lease, and no other job of that name.
    let lease_id = lease["lease_id"].as_str().unwrap();
    cluster.post(at, "/v1/results", result(lease_id, "x", 1)).await.done();
    let shown = cluster.get(at, "/v1/jobs/x?namespace=a").await.done();
    assert_eq!(shown["state"], "queued");
    assert_eq!(cluster.get(at, "/v1/jobs/x?namespace=b").await.done()["state"], "succeeded");
    assert_eq!(cluster.get(at, "/v1/jobs/x").await.status, 404);
    let lists = [
        ("", 0),
        ("?namespace=a", 2),
        ("?namespace=a&state=leased", 1),
        ("?namespace=a&agent=me", 1),
        ("?namespace=a&op=x", 1),
        ("?namespace=a&limit=1", 1),
        ("?namespace=b&since=2020-01-01T00:00:00Z", 1),
        ("?namespace=b&since=2120-01-01T00:00:00Z", 0),
    ];
    for (query, count) in lists {
        let listed = cluster.get(at, &format!("/v1/jobs{query}")).await.done();
        assert_eq!(listed["jobs"].as_array().unwrap().len(), count, "{query}");
    }
}

async fn a_waiting_agent_gets_a_job_as_soon_as_there_is_one(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    let asked = |agent: &str, wait: u64| json!({"agent": agent, "timeout_ms": wait, "capabilities": ["echo"]});
    assert_eq!(cluster.post(at, "/v1/leases", asked("me", 50)).await.status, 204);
    let waits = cluster.post(at, "/v1/leases", asked("first", 60_000));
    let comes = async {
        let waiting = async || {
            let metrics = cluster.get(at, "/metrics").await.text;
            metrics.contains("tenure_jobs_polls_waiting 1").then_some(())
        };
        eventually("it waits", SOON, waiting).await;
        cluster.submit(at, "other", "not-for-it", json!(1)).await.done();
        cluster.submit(at, "job", "echo", json!(1)).await.done();
    };
    let (answer, ()) = futures_util::join!(waits, comes);
    assert_eq!(ids(&answer.done()), ["job"]);
}

async fn a_batch_is_judged_one_by_one(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    for job_id in ["a", "b", "c", "d"] {
        cluster.submit(at, job_id, "echo", json!(1)).await.done();
    }
    let lease = cluster.lease(at, "me", 64).await;
    let lease = lease["lease_id"].as_str().unwrap();
    cluster.post(at, "/v1/leases/expire", json!({"job_id": "b"})).await.done();
    cluster.post(at, "/v1/results", result(lease, "d", 1)).await.done();
    let one = |id: &str, epoch: i64| json!({"job_id": id, "job_epoch": epoch, "status": "succeeded", "result": {"by": lease}});
    let batch = json!({"lease_id": lease, "agent": "me", "results": [
        one("a", 1), one("b", 1), one("c", 9), one("d", 1), one("nowhere", 1),
    ]});
    let judged = cluster.post(at, "/v1/results", batch.clone()).await.done();
    assert_eq!(judged["ok"], false);
    let judged: Vec<_> = judged["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            (text("job_id"), one["ok"].as_bool().unwrap(), text("error"), text("stale"))
        })
        .collect();
    let told = |id: &str, ok, error: &str, stale: &str| {
        (id.to_owned(), ok, error.to_owned(), stale.to_owned())
    };
    assert_eq!(
        judged,
        [
            told("a", true, "", ""),
            told("b", false, "STALE_EPOCH", "job"),
            told("c", false, "STALE_EPOCH", "job"),
            told("d", true, "", ""),
            told("nowhere", false, "NOT_FOUND", ""),
        ]
    );
    // The same again is the same again; another agent cannot speak for this one.
    assert_eq!(cluster.post(at, "/v1/results", batch).await.done()["results"][0]["ok"], true);
    let mut foreign = result(lease, "c", 1);
    foreign["agent"] = json!("you");
    assert_eq!(cluster.post(at, "/v1/results", foreign).await.stale(), "lease");
    assert_eq!(cluster.job(at, "c").await["state"], "leased");
    let mut other = result(lease, "a", 1);
    other["result"] = json!("changed my mind");
    assert_eq!(cluster.post(at, "/v1/results", other).await.stale(), "lease");
}

async fn an_expired_job_is_queued_again_and_its_old_result_is_stale(cluster: &mut Cluster) {
    cluster.argue("--job-lease 1s");
    let at = cluster.controllers(1).await;
    let lease = cluster.leased(at, "job", "silent").await;
    let again = cluster.lease(at, "next", 1).await;
    assert_eq!((ids(&again), &again["tasks"][0]["job_epoch"]), (vec!["job"], &json!(2)));
    assert_eq!(cluster.post(at, "/v1/results", result(&lease, "job", 1)).await.stale(), "job");
    // Heartbeats keep it.
    let beats = async {
        loop {
            cluster.post(at, "/v1/agents/heartbeat", json!({"name": "next"})).await.done();
            tokio::time::sleep(tenure_testkit::millis(100)).await;
        }
    };
    let asked = json!({"agent": "third", "timeout_ms": 2_500});
    tokio::select! {
        () = beats => {}
        taken = cluster.post(at, "/v1/leases", asked) => assert_eq!(taken.status, 204, "{taken:?}"),
    }
    let lease = again["lease_id"].as_str().unwrap();
    cluster.post(at, "/v1/results", result(lease, "job", 2)).await.done();
}

async fn a_job_whose_agent_went_away_while_waiting_is_another_agents_at_once(
    cluster: &mut Cluster,
) {
    let at = cluster.controllers(1).await;
    for round in 0..5 {
        let asked = json!({"agent": "fickle", "timeout_ms": 60_000});
        let url = format!("{}/v1/leases", cluster.places[at].url);
        let gone =
            cluster.client.post(url).json(&asked).timeout(tenure_testkit::millis(60)).send().await;
        assert!(gone.is_err());
        let job_id = format!("job-{round}");
        cluster.submit(at, &job_id, "echo", json!(1)).await.done();
        let taken = tokio::select! {
            lease = cluster.lease(at, "faithful", 1) => lease,
            () = tokio::time::sleep(secs(8)) => panic!("the job waits for an agent that is gone"),
        };
        assert_eq!(ids(&taken), [job_id.as_str()]);
    }
}

async fn numbers_and_texts_come_back_as_they_were_sent(cluster: &mut Cluster) {
    let at = cluster.controllers(1).await;
    let url = format!("{}/v1/jobs", cluster.places[at].url);
    let text = r#"{"job_id":"j","op":"echo","payload":{"z":1.10,"big":123456789012345678901234567890,"e":"\u0000é"}}"#;
    let sent = cluster.client.post(url).body(text).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let shown = cluster.get(at, "/v1/jobs/j").await.text;
    assert!(
        shown.contains(r#"{"z":1.10,"big":123456789012345678901234567890,"e":"\u0000é"}"#),
        "{shown}"
    );
    let lease = cluster.lease(at, "me", 1).await;
    let lease = lease["lease_id"].as_str().unwrap();
    let url = format!("{}/v1/results", cluster.places[at].url);
    let text = format!(
        r#"{{"lease_id":"{lease}","job_id":"j","job_epoch":1,"status":"failed","result":[1.50],"error":"no\u0000 more"}}"#
    );
    assert_eq!(cluster.client.post(url).body(text).send().await.unwrap().status(), 200);
    let shown = cluster.get(at, "/v1/jobs/j").await;
    assert!(shown.text.contains(r#""result":[1.50]"#), "{shown:?}");
    assert_eq!(shown.json()["error"], "no\u{fffd} more");
}

async fn a_heartbeat_that_names_its_leases_keeps_no_other(cluster: &mut Cluster) {
    cluster.argue("--job-lease 1s");
    let at = cluster.controllers(1).await;
    // A process that had the name before left this behind.
    cluster.leased(at, "left", "name").await;
    let kept = cluster.leased(at, "kept", "name").await;
    let again = async {
        loop {
            let heartbeat = json!({"name": "name", "leases": [kept]});
            cluster.post(at, "/v1/agents/heartbeat", heartbeat).await.done();
            tokio::time::sleep(tenure_testkit::millis(100)).await;
        }
    };
    let taken = tokio::select! {
        () = again => unreachable!(),
        taken = cluster.lease(at, "another", 2) => taken,
    };
    assert_eq!(ids(&taken), ["left"]);
    cluster.post(at, "/v1/results", result(&kept, "kept", 1)).await.done();
}
