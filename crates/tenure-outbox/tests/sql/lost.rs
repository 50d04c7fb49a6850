//! A lease that ran out is a lost attempt, whoever meets it first.

use crate::{
    calls::{claim, claim_only, complete, enqueue, leased, repair},
    scene::{Scene, on_every_version},
};

on_every_version![
    repair_counts_what_was_lost_and_makes_it_due_in_a_second,
    repair_leaves_leases_that_last,
    repair_takes_those_longest_over_first,
    a_claim_counts_what_was_lost_and_leases_it_again,
    a_claim_takes_what_expired_and_what_is_due_up_to_its_batch,
    a_claim_takes_the_oldest_first_and_nothing_that_is_not_due,
    lost_attempts_are_numbered_after_the_others,
    a_row_that_has_ended_already_stands_in_nobodys_way,
];

async fn repair_counts_what_was_lost_and_makes_it_due_in_a_second(scene: &Scene) {
    let worker = scene.worker().await;
    let lost = &leased(&scene.admin, "gone", 1).await[0];
    scene.expire(lost.outbox_id).await;

    assert_eq!(repair(&worker).await, [(lost.outbox_id, 1)]);
    assert_eq!(scene.attempts_at(lost.outbox_id).await, ["1 ZOMBIE_REQUEUE LEASE_EXPIRED"]);
    let left = "concat_ws(' ', attempt_count, claimed_by, lease_token, lease_expires_at)";
    assert_eq!(scene.text_of(lost.outbox_id, left).await, "1");
    let delay = "SELECT (p.next_attempt_at - a.completed_at)::text
        FROM payment_outbox_pending AS p JOIN payment_outbox_attempts AS a USING (outbox_id)";
    assert_eq!(scene.text(delay).await, "00:00:01");
    let who = "SELECT concat_ws('|', worker_id, error_message) FROM payment_outbox_attempts";
    assert_eq!(scene.text(who).await, "repairer|the lease of worker gone expired");
    assert_eq!(repair(&worker).await, []);
}

async fn repair_leaves_leases_that_last(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    enqueue(&scene.admin, "p", "unleased").await;
    assert_eq!(repair(&worker).await, []);
    assert_eq!(complete(&worker, claim, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
}

async fn repair_takes_those_longest_over_first(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 3).await;
    for claim in claims.iter().rev() {
        scene.expire(claim.outbox_id).await;
    }
    for claim in claims.iter().rev() {
        let call = "SELECT outbox_id FROM public.repair_expired_leases(1, 'w')";
        let repaired: uuid::Uuid = worker.query_one(call, &[]).await.unwrap().get(0);
        assert_eq!(repaired, claim.outbox_id);
    }
}

async fn a_claim_counts_what_was_lost_and_leases_it_again(scene: &Scene) {
    let worker = scene.worker().await;
    let mut lost = leased(&scene.admin, "gone", 1).await.remove(0);
    for number in 1..=3 {
        scene.expire(lost.outbox_id).await;
        let again = claim_only(&worker, "w").await;
        assert_eq!((again.outbox_id, again.attempt_count), (lost.outbox_id, number));
        assert_ne!(again.lease_token, lost.lease_token);
        lost = again;
    }
    assert_eq!(complete(&worker, &lost, "DISPATCHED").await.unwrap(), "4 DISPATCHED");
    let zombie = |number| format!("{number} ZOMBIE_REQUEUE LEASE_EXPIRED");
    let attempts = [zombie(1), zombie(2), zombie(3), "4 DISPATCHED".to_owned()];
    assert_eq!(scene.attempts_at(lost.outbox_id).await, attempts);
}

async fn a_claim_takes_what_expired_and_what_is_due_up_to_its_batch(scene: &Scene) {
    let worker = scene.worker().await;
    for expired in leased(&scene.admin, "gone", 3).await {
        scene.expire(expired.outbox_id).await;
    }
    for key in ["a", "b", "c"] {
        enqueue(&scene.admin, "p", key).await;
    }
    let mut seen = Vec::new();
    for (most, got) in [(2, 2), (2, 2), (9, 2), (9, 0)] {
        let claims = claim(&worker, "w", most).await;
        assert_eq!(claims.len(), got, "{claims:?}");
        seen.extend(claims);
    }
    let mut counts: Vec<_> =
        seen.iter().map(|claim| (claim.sequence_id, claim.attempt_count)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 1), (2, 1), (3, 1), (4, 0), (5, 0), (6, 0)]);
    seen.sort_by_key(|claim| claim.lease_token);
    seen.dedup_by_key(|claim| claim.lease_token);
    assert_eq!(seen.len(), 6, "each lease has a token of its own");
}

async fn a_claim_takes_the_oldest_first_and_nothing_that_is_not_due(scene: &Scene) {
    let worker = scene.worker().await;
    for key in ["later", "old", "older", "new"] {
        enqueue(&scene.admin, key, key).await;
    }
    let shift =
        "UPDATE payment_outbox_pending SET next_attempt_at = next_attempt_at + CASE participant_id
        WHEN 'later' THEN interval '1 hour' WHEN 'old' THEN interval '-1 hour'
        WHEN 'older' THEN interval '-2 hours' ELSE interval '0' END";
    scene.admin.batch_execute(shift).await.unwrap();
    for expected in ["older", "old", "new"] {
        assert_eq!(claim(&worker, "w", 1).await[0].participant, expected);
    }
    assert_eq!(claim(&worker, "w", 1).await, []);
}

async fn lost_attempts_are_numbered_after_the_others(scene: &Scene) {
    let worker = scene.worker().await;
    enqueue(&scene.admin, "p", "k").await;
    let first = claim_only(&worker, "w").await;
    complete(&worker, &first, "RETRYABLE").await.unwrap();
    let second = claim_only(&worker, "w").await;
    let spoil = "UPDATE payment_outbox_pending SET attempt_count = 0";
    scene.admin.batch_execute(spoil).await.unwrap();
    scene.expire(second.outbox_id).await;
    assert_eq!(repair(&worker).await, [(second.outbox_id, 2)]);
    assert_eq!(scene.text_of(second.outbox_id, "attempt_count::text").await, "2");
}

/// Only who writes past the functions brings it about.
async fn a_row_that_has_ended_already_stands_in_nobodys_way(scene: &Scene) {
    let worker = scene.worker().await;
    let low = "SET symphony.outbox_retry_ceiling = 2";
    worker.batch_execute(low).await.unwrap();
    let ended = leased(&scene.admin, "gone", 2).await;
    let again = "INSERT INTO payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
            idempotency_key, rail_type, payload, attempt_no, state)
        SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, 1,
            'DISPATCHED'
        FROM payment_outbox_pending";
    scene.admin.batch_execute(again).await.unwrap();
    enqueue(&scene.admin, "p", "next").await;
    scene.expire(ended[0].outbox_id).await;
    let claims = claim(&worker, "w", 10).await;
    assert_eq!(claims.len(), 1, "the one that has not ended");
    scene.expire(ended[1].outbox_id).await;
    assert_eq!(repair(&worker).await, []);
    let left = "SELECT count(*)::text FROM payment_outbox_pending";
    assert_eq!(scene.text(left).await, "1");
    for row in &ended {
        assert_eq!(scene.attempts_at(row.outbox_id).await, ["1 DISPATCHED"]);
    }
}
