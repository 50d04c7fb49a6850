//! What rails are told, and what becomes of what they say.

use axum::http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tenure_testkit::{eventually_true, secs};

use crate::{gateway::Gateway, scene::Scene};

/// The latest attempt of an instruction, as JSON.
async fn latest(scene: &Scene, instruction: &str) -> Value {
    let latest = "SELECT row_to_json(a)::text FROM payment_outbox_attempts AS a
                  WHERE instruction_id = $1 ORDER BY attempt_no DESC LIMIT 1";
    let row = scene.admin.query_one(latest, &[&instruction]).await.unwrap();
    serde_json::from_str(row.get(0)).unwrap()
}

#[tokio::test]
async fn an_http_rail_is_called_with_the_key_and_its_answer_is_recorded() {
    let scene = Scene::new().await;
    let gateway = Gateway::answering(|call| match call.body["amount"].as_u64() {
        Some(1) => (StatusCode::CREATED, json!({"id": "ref-1"})),
        Some(2) if call.attempt == 1 => (StatusCode::SERVICE_UNAVAILABLE, json!({})),
        Some(2) => (StatusCode::OK, json!({})),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, json!({"why": "no such account"})),
    })
    .await;
    scene.http_rail(&gateway.url);
    scene.enqueue("bank-a", 1..=3);
    let _worker = scene.worker("w", &[]);
    scene.nothing_is_pending(secs(30)).await;

    assert_eq!(scene.attempts_of("i-1").await, ["DISPATCHED"]);
    let first = latest(&scene, "i-1").await;
    assert_eq!((&first["rail_reference"], &first["rail_code"]), (&"ref-1".into(), &"201".into()));
    assert_eq!((&first["worker_id"], &first["error_code"]), (&"w".into(), &Value::Null));
    assert!(first["latency_ms"].is_number());
    assert_eq!(scene.attempts_of("i-2").await, ["RETRYABLE", "DISPATCHED"]);
    assert_eq!(scene.attempts_of("i-3").await, ["FAILED"]);
    let third = latest(&scene, "i-3").await;
    assert_eq!(third["error_code"], "HTTP_422");
    assert!(third["error_message"].as_str().unwrap().contains("no such account"));
    // A second attempt goes out under the same key.
    let calls = gateway.calls();
    let of_two: Vec<_> = calls.iter().filter(|call| call.key == "k-2").collect();
    assert_eq!(of_two.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(of_two[0].outbox_id, of_two[1].outbox_id);
}

#[tokio::test]
async fn a_rail_that_does_not_answer_is_given_up_and_tried_again_under_the_same_key() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    gateway.hold();
    scene.rails(&format!("type = 'http'\nurl = '{}'\ntimeout = '300ms'", gateway.url));
    scene.enqueue("bank-a", 1..=1);
    let _worker = scene.worker("w", &[]);
    eventually_true("it is given up", secs(30), async || {
        scene.attempts_of("i-1").await.first().is_some_and(|state| state == "RETRYABLE")
    })
    .await;
    assert_eq!(latest(&scene, "i-1").await["error_code"], "DISPATCH_TIMEOUT");
    gateway.let_go();
    scene.nothing_is_pending(secs(30)).await;
    assert_eq!(gateway.calls_by_key().len(), 1);
}

#[tokio::test]
async fn a_rail_out_of_reach_and_a_rail_that_is_not_there_are_tried_again() {
    let scene = Scene::new().await;
    scene.rails("type = 'http'\nurl = 'http://127.0.0.1:1/'");
    scene.enqueue("bank-a", 1..=1);
    let insert = "SELECT * FROM enqueue_payment_outbox('i-2', 'bank-a', 'k-2', 'fax', '{}')";
    scene.admin.query(insert, &[]).await.unwrap();
    let _worker = scene.worker("w", &[]);
    for instruction in ["i-1", "i-2"] {
        eventually_true("it is tried", secs(30), async || {
            !scene.attempts_of(instruction).await.is_empty()
        })
        .await;
        let attempt = latest(&scene, instruction).await;
        assert_eq!(
            (&attempt["state"], &attempt["error_code"]),
            (&"RETRYABLE".into(), &"DISPATCH_ERROR".into())
        );
    }
    assert!(latest(&scene, "i-2").await["error_message"].as_str().unwrap().contains("fax"));
}

#[tokio::test]
async fn a_payload_without_what_the_rail_needs_fails_for_good() {
    let scene = Scene::new().await;
    let gateway = Gateway::willing().await;
    scene.rails(&format!("type = 'http'\nurl = '{}'\nrequired = ['/iban']", gateway.url));
    scene.enqueue("bank-a", 1..=1);
    let _worker = scene.worker("w", &[]);
    scene.nothing_is_pending(secs(30)).await;
    let attempt = latest(&scene, "i-1").await;
    assert_eq!(
        (&attempt["state"], &attempt["error_code"]),
        (&"FAILED".into(), &"INVALID_PAYLOAD".into())
    );
    assert!(gateway.calls().is_empty());
}

const PROGRAM: &str = r#"
import json, os, sys, time
asked = json.load(sys.stdin)
amount = asked["payload"]["amount"]
if amount == 1:
    print(json.dumps({"state": "DISPATCHED", "rail_reference": asked["idempotency_key"], "rail_code": "00"}))
elif amount == 2:
    print(json.dumps({"state": "FAILED", "error_code": "CLOSED", "error_message": "account closed"}))
elif amount == 3:
    sys.exit("the card terminal is off")
elif amount == 4:
    print(json.dumps({"state": "MAYBE"}))
else:
    if os.fork() == 0:
        time.sleep(600)
    with open("stuck", "a") as f:
        f.write(f"{os.getpgid(0)}\n")
    time.sleep(600)
"#;

#[tokio::test]
async fn a_program_is_a_rail() {
    let scene = Scene::new().await;
    std::fs::write(scene.folder.path().join("pay.py"), PROGRAM).unwrap();
    scene.rails("type = 'command'\ncommand = ['/usr/bin/python3', 'pay.py']\ntimeout = '2s'");
    scene.enqueue("bank-a", 1..=5);
    let mut worker = scene.worker("w", &[]);
    eventually_true("all were tried", secs(30), async || {
        scene.count("(SELECT DISTINCT outbox_id FROM payment_outbox_attempts) AS tried").await == 5
    })
    .await;
    worker.signal(Signal::TERM);
    assert_eq!(worker.code().await, Some(0));

    let first = latest(&scene, "i-1").await;
    assert_eq!((&first["rail_reference"], &first["rail_code"]), (&"k-1".into(), &"00".into()));
    let second = latest(&scene, "i-2").await;
    assert_eq!((&second["state"], &second["error_code"]), (&"FAILED".into(), &"CLOSED".into()));
    for (instruction, words) in
        [("i-3", "terminal is off"), ("i-4", "MAYBE"), ("i-5", "no answer within")]
    {
        let attempt = latest(&scene, instruction).await;
        assert_eq!(attempt["state"], "RETRYABLE");
        assert!(attempt["error_message"].as_str().unwrap().contains(words), "{attempt}");
    }
    // What was given up on is gone, and what it had started too.
    let groups = std::fs::read_to_string(scene.folder.path().join("stuck")).unwrap();
    for group in groups.lines() {
        let group = rustix::process::Pid::from_raw(group.parse().unwrap()).unwrap();
        eventually_true("nobody of the group is left", secs(10), async || {
            rustix::process::test_kill_process_group(group).is_err()
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_ordered_goes_out_in_order_and_the_rest_does_not_wait() {
    let scene = Scene::new().await;
    let gateway = Gateway::answering(|call| match call.attempt {
        1 if call.body["amount"] == 3 => (StatusCode::SERVICE_UNAVAILABLE, json!({})),
        _ => (StatusCode::OK, json!({})),
    })
    .await;
    scene.http_rail(&gateway.url);
    let mark = "INSERT INTO outbox_ordered_participants VALUES ('strict')";
    scene.admin.batch_execute(mark).await.unwrap();
    scene.enqueue("strict", 1..=30);
    scene.enqueue("free", 101..=130);
    let _workers = [scene.worker("a", &["--batch", "10"]), scene.worker("b", &["--batch", "10"])];
    scene.nothing_is_pending(secs(60)).await;
    let amounts = gateway.calls().into_iter().map(|call| call.body["amount"].as_u64().unwrap());
    let (strict, free): (Vec<_>, Vec<_>) =
        amounts.enumerate().partition(|(_, amount)| *amount < 100);
    // The strict one's third waits a second for its second attempt; nobody else waits for it.
    let third_again = strict[3].0;
    assert!(free.iter().all(|(at, _)| *at < third_again), "{strict:?}");
    let strict: Vec<_> = strict.into_iter().map(|(_, amount)| amount).collect();
    let mut expected: Vec<u64> = (1..=30).collect();
    expected.insert(3, 3);
    assert_eq!(strict, expected);
    scene.assert_each_ended_once(60).await;
}
