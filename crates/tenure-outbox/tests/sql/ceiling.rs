//! An instruction has so many attempts, and then it has failed; whoever counts the last one.

use crate::{
    calls::{claim, claim_only, complete, complete_all, enqueue, repair},
    scene::{Scene, Session, on_every_version},
};

on_every_version![
    a_retry_at_the_ceiling_is_recorded_as_failed,
    a_batch_at_the_ceiling_says_so_too,
    the_ceiling_is_twenty_by_default,
    a_dispatch_at_the_ceiling_is_recorded_as_it_is,
    a_dispatch_beyond_the_ceiling_is_recorded_as_it_is,
    repair_at_the_ceiling_ends_the_instruction,
    a_claim_at_the_ceiling_ends_the_instruction_and_goes_on_with_the_others,
    a_row_that_kills_its_workers_reaches_the_ceiling,
];

async fn a_retry_at_the_ceiling_is_recorded_as_failed(scene: &Scene) {
    let worker = worker_with_a_ceiling_of_three(scene).await;
    let outbox_id = enqueue(&scene.admin, "p", "k").await.outbox_id;
    for answer in ["1 RETRYABLE", "2 RETRYABLE", "3 FAILED"] {
        let claim = claim_only(&worker, "w").await;
        assert_eq!(complete(&worker, &claim, "RETRYABLE").await.unwrap(), answer);
    }
    assert!(!scene.is_pending(outbox_id).await);
    let attempts = ["1 RETRYABLE", "2 RETRYABLE", "3 FAILED RETRY_CEILING_EXCEEDED"];
    assert_eq!(scene.attempts_at(outbox_id).await, attempts);
}

async fn a_batch_at_the_ceiling_says_so_too(scene: &Scene) {
    let worker = worker_with_a_ceiling_of_three(scene).await;
    retry_twice(scene, &worker).await;
    enqueue(&scene.admin, "p", "fresh").await;
    let mut claims = claim(&worker, "w", 2).await;
    claims.sort_by_key(|claim| claim.sequence_id);
    let told = [(&claims[0], "RETRYABLE"), (&claims[1], "RETRYABLE")];
    assert_eq!(complete_all(&worker, &told).await, ["done 3 FAILED", "done 1 RETRYABLE"]);
    assert_eq!(complete_all(&worker, &told).await, ["repeat 3 FAILED", "repeat 1 RETRYABLE"]);
}

async fn the_ceiling_is_twenty_by_default(scene: &Scene) {
    let worker = scene.worker().await;
    let outbox_id = enqueue(&scene.admin, "p", "k").await.outbox_id;
    for number in 1..20 {
        let claim = claim_only(&worker, "w").await;
        let answer = complete(&worker, &claim, "RETRYABLE").await.unwrap();
        assert_eq!(answer, format!("{number} RETRYABLE"));
    }
    let last = claim_only(&worker, "w").await;
    assert_eq!(complete(&worker, &last, "RETRYABLE").await.unwrap(), "20 FAILED");
    let attempts = scene.attempts_at(outbox_id).await;
    assert_eq!(attempts.last().unwrap(), "20 FAILED RETRY_CEILING_EXCEEDED");
    assert!(!scene.is_pending(outbox_id).await);
}

async fn a_dispatch_at_the_ceiling_is_recorded_as_it_is(scene: &Scene) {
    let worker = worker_with_a_ceiling_of_three(scene).await;
    retry_twice(scene, &worker).await;
    let last = claim_only(&worker, "w").await;
    assert_eq!(complete(&worker, &last, "DISPATCHED").await.unwrap(), "3 DISPATCHED");
}

/// The ceiling may have been lowered since.
async fn a_dispatch_beyond_the_ceiling_is_recorded_as_it_is(scene: &Scene) {
    let worker = worker_with_a_ceiling_of_three(scene).await;
    retry_twice(scene, &worker).await;
    worker.batch_execute("SET symphony.outbox_retry_ceiling = 1").await.unwrap();
    let last = claim_only(&worker, "w").await;
    assert_eq!(complete(&worker, &last, "DISPATCHED").await.unwrap(), "3 DISPATCHED");
    assert_eq!(scene.attempts_at(last.outbox_id).await.last().unwrap(), "3 DISPATCHED");
}

async fn repair_at_the_ceiling_ends_the_instruction(scene: &Scene) {
    let worker = worker_with_a_ceiling_of_three(scene).await;
    retry_twice(scene, &worker).await;
    let last = claim_only(&worker, "w").await;
    scene.expire(last.outbox_id).await;
    assert_eq!(repair(&worker).await, [(last.outbox_id, 3)]);
    assert!(!scene.is_pending(last.outbox_id).await);
    let attempts = ["1 RETRYABLE", "2 RETRYABLE", "3 FAILED RETRY_CEILING_EXCEEDED"];
    assert_eq!(scene.attempts_at(last.outbox_id).await, attempts);
}

async fn a_claim_at_the_ceiling_ends_the_instruction_and_goes_on_with_the_others(scene: &Scene) {
    let worker = worker_with_a_ceiling_of_three(scene).await;
    retry_twice(scene, &worker).await;
    let last = claim_only(&worker, "w").await;
    enqueue(&scene.admin, "p", "once").await;
    let once = claim_only(&worker, "w").await;
    let fresh = enqueue(&scene.admin, "p", "fresh").await.outbox_id;
    scene.expire(last.outbox_id).await;
    scene.expire(once.outbox_id).await;

    let claims = claim(&worker, "w", 10).await;
    let mut taken: Vec<_> =
        claims.iter().map(|claim| (claim.outbox_id, claim.attempt_count)).collect();
    taken.sort_unstable();
    let mut expected = [(once.outbox_id, 1), (fresh, 0)];
    expected.sort_unstable();
    assert_eq!(taken, expected);
    assert!(!scene.is_pending(last.outbox_id).await);
    let attempts = scene.attempts_at(last.outbox_id).await;
    assert_eq!(attempts.last().unwrap(), "3 FAILED RETRY_CEILING_EXCEEDED");
}

/// Claim and repair meet its expired leases in turn.
async fn a_row_that_kills_its_workers_reaches_the_ceiling(scene: &Scene) {
    let worker = scene.worker().await;
    let outbox_id = enqueue(&scene.admin, "p", "killer").await.outbox_id;
    claim_only(&worker, "w").await;
    let hasten = "UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp()";
    for _ in 0..10 {
        scene.expire(outbox_id).await;
        claim_only(&worker, "w").await;
        scene.expire(outbox_id).await;
        repair(&worker).await;
        scene.admin.batch_execute(hasten).await.unwrap();
        claim(&worker, "w", 1).await;
    }
    let attempts = scene.attempts_at(outbox_id).await;
    assert_eq!(attempts.len(), 20);
    assert_eq!(attempts[18], "19 ZOMBIE_REQUEUE LEASE_EXPIRED");
    assert_eq!(attempts[19], "20 FAILED RETRY_CEILING_EXCEEDED");
    assert!(!scene.is_pending(outbox_id).await);
}

async fn worker_with_a_ceiling_of_three(scene: &Scene) -> Session {
    let worker = scene.worker().await;
    worker.batch_execute("SET symphony.outbox_retry_ceiling = 3").await.unwrap();
    worker
}

/// Leaves one instruction due, with one attempt left.
async fn retry_twice(scene: &Scene, worker: &Session) {
    enqueue(&scene.admin, "p", "k").await;
    for _ in 0..2 {
        let claim = claim_only(worker, "w").await;
        complete(worker, &claim, "RETRYABLE").await.unwrap();
    }
}
