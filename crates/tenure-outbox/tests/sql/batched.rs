//! A batch answers row by row: what is wrong with one does not touch the others.

use uuid::Uuid;

use crate::{
    calls::{
        Claim, claim, claim_only, complete, complete_all, enqueue, extend, leased, release, repair,
    },
    scene::{Scene, on_every_version},
};

on_every_version![
    the_good_rows_of_a_mixed_batch_are_recorded,
    a_batch_that_is_sent_twice_is_answered_as_the_first_time,
    a_repeat_is_told_what_was_recorded_and_not_what_it_says,
    a_repeat_is_known_long_after,
    a_lost_attempt_is_no_repeat,
    an_outcome_that_is_told_twice_in_a_batch_is_recorded_once,
    a_forged_outcome_in_a_batch_does_not_hide_the_true_one,
    an_invalid_state_in_a_batch_does_not_hide_the_outcome_after_it,
    details_belong_to_their_rows,
    an_answer_has_the_order_of_its_question,
];

async fn the_good_rows_of_a_mixed_batch_are_recorded(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 7).await;
    let [good, forged, expired, invalid, retried, failed, over] = &claims[..] else {
        panic!("seven")
    };
    let unknown = Claim { outbox_id: Uuid::new_v4(), ..good.clone() };
    scene.expire(expired.outbox_id).await;
    scene.expire(over.outbox_id).await;
    repair(&worker).await;
    let told = [
        (&forged.forged(), "DISPATCHED"),
        (good, "DISPATCHED"),
        (expired, "DISPATCHED"),
        (invalid, "ZOMBIE_REQUEUE"),
        (retried, "RETRYABLE"),
        (&unknown, "DISPATCHED"),
        (over, "DISPATCHING"),
        (failed, "FAILED"),
    ];
    let answers = [
        "lease_lost",
        "done 1 DISPATCHED",
        "lease_lost",
        "invalid_state",
        "done 1 RETRYABLE",
        "lease_lost",
        "lease_lost",
        "done 1 FAILED",
    ];
    assert_eq!(complete_all(&worker, &told).await, answers);
    assert_eq!(scene.attempts_at(good.outbox_id).await, ["1 DISPATCHED"]);
    assert_eq!(scene.attempts_at(failed.outbox_id).await, ["1 FAILED"]);
    for kept in [forged, invalid] {
        assert_eq!(complete(&worker, kept, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
    }
}

async fn a_batch_that_is_sent_twice_is_answered_as_the_first_time(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 3).await;
    let told = [(&claims[0], "DISPATCHED"), (&claims[1], "RETRYABLE"), (&claims[2], "FAILED")];
    let done = ["done 1 DISPATCHED", "done 1 RETRYABLE", "done 1 FAILED"];
    assert_eq!(complete_all(&worker, &told).await, done);
    for _ in 0..2 {
        let repeat = ["repeat 1 DISPATCHED", "repeat 1 RETRYABLE", "repeat 1 FAILED"];
        assert_eq!(complete_all(&worker, &told).await, repeat);
    }
    for claim in &claims {
        assert_eq!(scene.attempts_at(claim.outbox_id).await.len(), 1);
    }
}

async fn a_repeat_is_told_what_was_recorded_and_not_what_it_says(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    complete(&worker, claim, "DISPATCHED").await.unwrap();
    for state in ["FAILED", "RETRYABLE", "DISPATCHING"] {
        assert_eq!(complete_all(&worker, &[(claim, state)]).await, ["repeat 1 DISPATCHED"]);
    }
    let another = claim.of("v");
    assert_eq!(complete_all(&worker, &[(&another, "DISPATCHED")]).await, ["lease_lost"]);
}

async fn a_repeat_is_known_long_after(scene: &Scene) {
    let worker = scene.worker().await;
    enqueue(&scene.admin, "p", "k").await;
    let first = claim_only(&worker, "w").await;
    complete(&worker, &first, "RETRYABLE").await.unwrap();
    let second = claim_only(&worker, "w").await;
    let told = [(&first, "RETRYABLE"), (&second, "DISPATCHED")];
    assert_eq!(complete_all(&worker, &told[..1]).await, ["repeat 1 RETRYABLE"]);
    assert_eq!(complete_all(&worker, &told[1..]).await, ["done 2 DISPATCHED"]);
    let repeat = ["repeat 1 RETRYABLE", "repeat 2 DISPATCHED"];
    assert_eq!(complete_all(&worker, &told).await, repeat);
}

async fn a_lost_attempt_is_no_repeat(scene: &Scene) {
    let worker = scene.worker().await;
    let lost = &leased(&scene.admin, "w", 1).await[0];
    scene.expire(lost.outbox_id).await;
    let call = "SELECT public.repair_expired_leases(1, 'w')";
    worker.batch_execute(call).await.unwrap();
    assert_eq!(complete_all(&worker, &[(lost, "DISPATCHED")]).await, ["lease_lost"]);
}

async fn an_outcome_that_is_told_twice_in_a_batch_is_recorded_once(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 2).await;
    let [twice, other] = &claims[..] else { panic!("two") };
    let told = [(twice, "RETRYABLE"), (other, "DISPATCHED"), (twice, "DISPATCHED")];
    let answers = ["done 1 RETRYABLE", "done 1 DISPATCHED", "repeat 1 RETRYABLE"];
    assert_eq!(complete_all(&worker, &told).await, answers);
    assert_eq!(scene.attempts_at(twice.outbox_id).await, ["1 RETRYABLE"]);
}

async fn a_forged_outcome_in_a_batch_does_not_hide_the_true_one(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 2).await;
    let [first, last] = &claims[..] else { panic!("two") };
    let told = [
        (first, "DISPATCHED"),
        (&first.forged(), "FAILED"),
        (&last.forged(), "FAILED"),
        (last, "DISPATCHED"),
    ];
    let answers = ["done 1 DISPATCHED", "lease_lost", "lease_lost", "done 1 DISPATCHED"];
    assert_eq!(complete_all(&worker, &told).await, answers);
}

async fn an_invalid_state_in_a_batch_does_not_hide_the_outcome_after_it(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    let told = [(claim, "DISPATCHING"), (claim, "DISPATCHED")];
    let answers = complete_all(&worker, &told).await;
    assert_eq!(answers[1], "done 1 DISPATCHED", "{answers:?}");
}

async fn details_belong_to_their_rows(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 3).await;
    let ids: Vec<_> = claims.iter().map(|claim| claim.outbox_id).collect();
    let tokens: Vec<_> = claims.iter().map(|claim| claim.lease_token).collect();
    let call = "SELECT count(*) FROM public.complete_outbox_attempts(
            'w', $1, $2, '{DISPATCHED,RETRYABLE,FAILED}', '{r,NULL,NULL}', '{c,d,NULL}', '{NULL,E,F}',
            '{NULL,m,n}', '{1,2,NULL}', '{NULL,40,NULL}'
        ) WHERE result = 'done'";
    let done: i64 = worker.query_one(call, &[&ids, &tokens]).await.unwrap().get(0);
    assert_eq!(done, 3);
    let kept = "SELECT string_agg(concat_ws(' ', state, rail_reference, rail_code, error_code, error_message,
            latency_ms), '|' ORDER BY state) FROM payment_outbox_attempts";
    assert_eq!(scene.text(kept).await, "DISPATCHED r c 1|RETRYABLE d E m 2|FAILED F n");
    let due = "SELECT (p.next_attempt_at - a.completed_at)::text
        FROM payment_outbox_pending AS p JOIN payment_outbox_attempts AS a USING (outbox_id)";
    assert_eq!(scene.text(due).await, "00:00:40");
}

async fn an_answer_has_the_order_of_its_question(scene: &Scene) {
    let worker = scene.worker().await;
    let mut claims = leased(&scene.admin, "w", 20).await;
    claims.reverse();
    let each: Vec<_> = claims.iter().collect();
    let mut lost = each.clone();
    let forged = claims[7].forged();
    lost[7] = &forged;
    let expected = |good: &'static str| {
        let mut answers = vec![good; 20];
        answers[7] = "lease_lost";
        answers
    };
    assert_eq!(extend(&worker, &lost, 600).await, expected("done"));
    assert_eq!(release(&worker, &lost).await, expected("done"));
    let again = claim(&scene.admin, "w", 100).await;
    let again: Vec<_> = again.iter().map(|claim| (claim, "FAILED")).collect();
    assert_eq!(complete_all(&worker, &again).await, vec!["done 1 FAILED"; 19]);
    let told: Vec<_> = lost.iter().map(|claim| (*claim, "DISPATCHED")).collect();
    assert_eq!(complete_all(&worker, &told).await, vec!["lease_lost"; 20]);
}
