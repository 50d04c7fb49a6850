//! What becomes of intents: retries, rejections, and what a new leader repeats.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::json;
use tenure_submissions::{
    intent::Status,
    store::{Reservation, Submitted},
};
use tenure_testkit::{eventually_true, secs};

use crate::scene::{Scene, leads, submit};

on_every_database! {
    an_intent_is_tried_again_until_its_policy_ends_it,
    a_key_is_sent_again_until_the_gateway_has_refused_it,
    nonsense_from_a_gateway_is_an_error_of_the_attempt,
    the_next_leader_repeats_what_a_dead_one_began_under_the_same_key,
    a_stop_awaits_the_calls_that_were_sent_and_records_them,
    whoever_waits_is_woken_on_every_instance,
    a_call_is_not_sent_when_the_term_ended_after_the_right_to_it_was_given,
}

async fn an_intent_is_tried_again_until_its_policy_ends_it(scene: Scene) {
    let instance = scene.instance();
    leads(&[&instance]).await;
    let calls = AtomicUsize::new(0);
    scene.gateway.answers(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        2 => (200, json!({"status": "accepted"})),
        _ => (503, json!({})),
    });
    let _ = submit(&instance, "third", "three").await;
    assert_eq!(scene.ends("third").await.status, Status::Accepted);
    let attempts = scene.attempts("third").await;
    let told: Vec<_> = attempts.iter().map(|attempt| attempt.error.as_deref()).collect();
    let error = Some("gateway returned status 503");
    assert_eq!(told, [error, error, None]);
    let keys: Vec<_> = scene.gateway.calls().into_iter().map(|call| call.key).collect();
    assert_eq!(keys, ["third:1", "third:1", "third:1"], "nobody knows what came of the first");

    scene.gateway.answers(|_| (200, json!({"status": "rejected", "reason": "provider_failure"})));
    let _ = submit(&instance, "never", "three").await;
    let ended = scene.ends("never").await;
    assert_eq!(
        (ended.status, ended.exhausted_reason.as_deref()),
        (Status::Exhausted, Some("max_attempts"))
    );
    let _ = submit(&instance, "once", "once").await;
    assert_eq!(scene.ends("once").await.exhausted_reason.as_deref(), Some("one_shot"));
    assert_eq!(scene.attempts("once").await.len(), 1);

    scene.gateway.answers(|_| (200, json!({"status": "rejected", "reason": "invalid_recipient"})));
    let _ = submit(&instance, "rejected", "three").await;
    let ended = scene.ends("rejected").await;
    assert_eq!(ended.rejected_reason.as_deref(), Some("invalid_recipient"));
}

async fn nonsense_from_a_gateway_is_an_error_of_the_attempt(scene: Scene) {
    let instance = scene.instance();
    leads(&[&instance]).await;
    for (id, answer, told) in [
        ("text", json!("text"), "decode gateway response: "),
        ("nothing", json!({}), "gateway response has no status"),
        ("rejected", json!({"status": "rejected"}), "gateway rejected without a reason"),
        ("perhaps", json!({"status": "perhaps"}), "gateway returned the unknown status"),
    ] {
        scene.gateway.answers(move |_| (200, answer.clone()));
        let _ = submit(&instance, id, "once").await;
        scene.ends(id).await;
        let error = scene.attempts(id).await.remove(0).error.unwrap();
        assert!(error.starts_with(told), "{error}");
    }
}

async fn the_next_leader_repeats_what_a_dead_one_began_under_the_same_key(scene: Scene) {
    let one = scene.instance();
    leads(&[&one]).await;
    one.election().drain();
    let Submitted::New(stored) = submit(&one, "a", "once").await else { panic!("new") };
    let dead = scene.dead_leader(stored.row).await;
    let two = scene.instance();
    assert_eq!(scene.ends("a").await.status, Status::Accepted);
    let (_, epoch) = leads(&[&two]).await;
    assert!(epoch > dead);
    let keys: Vec<_> =
        scene.gateway.calls().into_iter().map(|call| (call.key, call.epoch)).collect();
    assert_eq!(keys, [("a:1".to_owned(), epoch.get())]);
    assert_eq!(two.metrics.repeats.get(), 1);
    assert_eq!(scene.attempts("a").await.len(), 1, "one attempt, though it was begun twice");
}

async fn a_stop_awaits_the_calls_that_were_sent_and_records_them(scene: Scene) {
    let slow = scene.instance_that(tenure_submissions::instance::Behaviour {
        refresh_interval: Duration::from_millis(100),
        gateway_timeout: Duration::from_millis(1_000),
        record_within: Duration::from_millis(200),
        ..Default::default()
    });
    leads(&[&slow]).await;
    scene.gateway.wait().await;
    let _ = submit(&slow, "a", "once").await;
    eventually_true("the call was sent", secs(10), async || scene.gateway.calls().len() == 1).await;
    let gateway = scene.gateway.clone();
    let stopping = tokio::spawn(slow.stop());
    gateway.go_on();
    stopping.await.unwrap().unwrap();
    let stored = scene.store().find(&["a"]).await.unwrap().remove(0);
    assert_eq!((stored.view.status, stored.attempts), (Status::Accepted, 1));
}

async fn whoever_waits_is_woken_on_every_instance(scene: Scene) {
    let (one, two) = (scene.instance(), scene.instance());
    let (leader, _) = leads(&[&one, &two]).await;
    let follower = if leader == 0 { &two } else { &one };
    for (at, instance) in [&one, &two].into_iter().enumerate() {
        let id = at.to_string();
        let Submitted::New(stored) = submit(instance, &id, "three").await else { panic!("new") };
        let done = instance.waiters.wait(&*instance.store, stored, secs(20)).await;
        assert_eq!(done.view.status, Status::Accepted);
    }
    scene.gateway.wait().await;
    let Submitted::New(stored) = submit(follower, "late", "three").await else { panic!("new") };
    let waited = follower.waiters.wait(&*follower.store, stored, Duration::from_millis(100)).await;
    assert_eq!(waited.view.status, Status::Pending, "the time was up");
    scene.gateway.go_on();
}

async fn a_call_is_not_sent_when_the_term_ended_after_the_right_to_it_was_given(scene: Scene) {
    let election = scene.contender().start().unwrap();
    let gate = election.gate();
    eventually_true("it leads", secs(10), async || gate.is_leader()).await;
    let token = gate.require_leader().unwrap();
    election.stop().await.unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let reservation = Reservation {
        row: 1,
        version: 1,
        intent_id: "a".to_owned(),
        payload: "{}".into(),
        contract: (*scene.registry().contract("once").unwrap()).clone(),
        created_at: now,
        due_at: now,
        number: 1,
        started_at: now,
        is_repeat: false,
        held_key: None,
    };
    let refused = gate.refused_total();
    let caller = tenure_submissions::gateway::Gateway::new(secs(1)).unwrap();
    assert!(caller.submit(&gate, token, &reservation).await.is_err());
    assert!(scene.gateway.calls().is_empty(), "it was sent all the same");
    assert_eq!(gate.refused_total(), refused + 1);
}

/// A gateway that honours keys acts once, whatever becomes of its answers.
async fn a_key_is_sent_again_until_the_gateway_has_refused_it(scene: Scene) {
    let instance = scene.instance();
    leads(&[&instance]).await;
    let answers = [
        (400, json!({})),
        (500, json!({})),
        (404, json!({})),
        (200, json!({"status": "rejected", "reason": "duplicate_reference"})),
        (200, json!({"status": "rejected", "reason": "provider_failure"})),
        (200, json!({"status": "accepted"})),
    ];
    let calls = AtomicUsize::new(0);
    scene.gateway.answers(move |_| answers[calls.fetch_add(1, Ordering::Relaxed)].clone());
    let _ = submit(&instance, "a", "minute").await;
    assert_eq!(scene.ends("a").await.status, Status::Accepted);
    let sent: Vec<_> = scene.gateway.calls().into_iter().map(|call| call.key).collect();
    assert_eq!(sent, ["a:1", "a:2", "a:2", "a:2", "a:2", "a:6"]);
    let shown = scene.attempts("a").await.into_iter().map(|attempt| attempt.idempotency_key);
    assert_eq!(shown.collect::<Vec<_>>(), sent);
}
