//! Two sessions at one row, step by step.

use crate::{
    calls::{
        Claim, claim, claim_for, claim_only, complete, complete_all, ended, enqueue, extend,
        leased, release, repair,
    },
    scene::{Scene, Session, begin, commit, hold, on_every_version},
};

on_every_version![
    a_second_claim_takes_other_rows_and_waits_for_nobody,
    a_claim_and_then_repair_count_an_expired_lease_once,
    repair_and_then_a_claim_count_an_expired_lease_once,
    two_repairs_count_an_expired_lease_once,
    repair_skips_a_row_that_is_being_extended,
    a_lease_that_is_being_repaired_is_not_extended,
    repair_skips_a_row_that_is_being_completed,
    a_row_that_is_being_repaired_is_not_completed,
    a_claim_skips_a_row_that_is_being_completed,
    the_second_of_two_completions_is_told_of_the_first,
    the_second_of_two_completions_counts_when_the_first_is_undone,
    a_release_makes_a_waiting_completion_too_late,
    batches_with_crossed_rows_do_not_wait_for_each_other,
];

async fn a_second_claim_takes_other_rows_and_waits_for_nobody(scene: &Scene) {
    for key in ["a", "b", "c"] {
        enqueue(&scene.admin, "p", key).await;
    }
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    let firsts = claim(&first, "v", 2).await;
    let seconds = claim(&second, "w", 10).await;
    assert_eq!((firsts.len(), seconds.len()), (2, 1));
    assert!(firsts.iter().all(|claim| claim.outbox_id != seconds[0].outbox_id));
    // What comes to nothing is there for others again; at once for those who have not looked yet.
    first.batch_execute("ROLLBACK").await.unwrap();
    let third = scene.worker().await;
    assert_eq!(claim(&third, "w", 10).await.len(), 2);
}

async fn a_claim_and_then_repair_count_an_expired_lease_once(scene: &Scene) {
    let lost = &leased(&scene.admin, "gone", 1).await[0];
    scene.expire(lost.outbox_id).await;
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    let again = claim_only(&first, "w").await;
    assert_eq!(repair(&second).await, []);
    commit(&first).await;
    assert_eq!(repair(&second).await, []);
    assert_eq!(scene.attempts_at(lost.outbox_id).await, ["1 ZOMBIE_REQUEUE LEASE_EXPIRED"]);
    assert_eq!(complete(&first, &again, "DISPATCHED").await.unwrap(), "2 DISPATCHED");
}

async fn repair_and_then_a_claim_count_an_expired_lease_once(scene: &Scene) {
    let lost = &leased(&scene.admin, "gone", 1).await[0];
    scene.expire(lost.outbox_id).await;
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    assert_eq!(repair(&first).await, [(lost.outbox_id, 1)]);
    assert_eq!(claim(&second, "w", 10).await, []);
    commit(&first).await;
    let hasten = "UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp()";
    scene.admin.batch_execute(hasten).await.unwrap();
    assert_eq!(claim_only(&second, "w").await.attempt_count, 1);
    assert_eq!(scene.attempts_at(lost.outbox_id).await, ["1 ZOMBIE_REQUEUE LEASE_EXPIRED"]);
}

async fn two_repairs_count_an_expired_lease_once(scene: &Scene) {
    let lost = leased(&scene.admin, "gone", 2).await;
    for claim in &lost {
        scene.expire(claim.outbox_id).await;
    }
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    let one = "SELECT count(*) FROM public.repair_expired_leases(1, 'w')";
    assert_eq!(first.query_one(one, &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(repair(&second).await.len(), 1);
    commit(&first).await;
    assert_eq!(repair(&second).await, []);
    for claim in &lost {
        let attempts = scene.attempts_at(claim.outbox_id).await;
        assert_eq!(attempts, ["1 ZOMBIE_REQUEUE LEASE_EXPIRED"]);
    }
}

async fn repair_skips_a_row_that_is_being_extended(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    let (worker, other) = (scene.worker().await, scene.worker().await);
    let extended = extended_shortly_before_its_end(scene, &worker).await;
    assert_eq!(repair(&other).await, []);
    assert_eq!(claim(&other, "v", 10).await, []);
    commit(&worker).await;
    assert_eq!(repair(&other).await, []);
    assert_eq!(complete(&worker, &extended, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
}

async fn a_lease_that_is_being_repaired_is_not_extended(scene: &Scene) {
    let claim = &leased(&scene.admin, "w", 1).await[0];
    scene.expire(claim.outbox_id).await;
    let (worker, other) = (scene.worker().await, scene.worker().await);
    begin(&other).await;
    assert_eq!(repair(&other).await, [(claim.outbox_id, 1)]);
    let claims = [claim];
    let extending = extend(&worker, &claims, 600);
    let answer = scene.while_waiting(&worker, extending, commit(&other)).await;
    assert_eq!(answer, ["lease_lost"]);
    assert_eq!(scene.text_of(claim.outbox_id, "coalesce(claimed_by, 'nobody')").await, "nobody");
}

async fn repair_skips_a_row_that_is_being_completed(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    let (worker, other) = (scene.worker().await, scene.worker().await);
    let claim = extended_shortly_before_its_end(scene, &worker).await;
    assert_eq!(complete(&worker, &claim, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
    assert_eq!(repair(&other).await, []);
    commit(&worker).await;
    assert_eq!(repair(&other).await, []);
    assert_eq!(scene.attempts_at(claim.outbox_id).await, ["1 DISPATCHED"]);
}

async fn a_row_that_is_being_repaired_is_not_completed(scene: &Scene) {
    let claims = leased(&scene.admin, "w", 2).await;
    let (worker, other) = (scene.worker().await, scene.worker().await);
    scene.expire(claims[0].outbox_id).await;
    begin(&other).await;
    assert_eq!(repair(&other).await, [(claims[0].outbox_id, 1)]);
    let completing = complete(&worker, &claims[0], "DISPATCHED");
    let answer = scene.while_waiting(&worker, completing, commit(&other)).await;
    assert_eq!(ended(&answer), "P7002");

    scene.expire(claims[1].outbox_id).await;
    begin(&other).await;
    assert_eq!(repair(&other).await, [(claims[1].outbox_id, 1)]);
    let told = [(&claims[1], "DISPATCHED")];
    let completing = complete_all(&worker, &told);
    let answer = scene.while_waiting(&worker, completing, commit(&other)).await;
    assert_eq!(answer, ["lease_lost"]);
    for claim in &claims {
        let attempts = scene.attempts_at(claim.outbox_id).await;
        assert_eq!(attempts, ["1 ZOMBIE_REQUEUE LEASE_EXPIRED"]);
    }
}

async fn a_claim_skips_a_row_that_is_being_completed(scene: &Scene) {
    let held = &leased(&scene.admin, "w", 1).await[0];
    let (worker, other) = (scene.worker().await, scene.worker().await);
    begin(&worker).await;
    assert_eq!(complete(&worker, held, "RETRYABLE").await.unwrap(), "1 RETRYABLE");
    assert_eq!(claim(&other, "v", 10).await, []);
    commit(&worker).await;
    let third = scene.worker().await;
    assert_eq!(claim_only(&third, "v").await.attempt_count, 1);
}

async fn the_second_of_two_completions_is_told_of_the_first(scene: &Scene) {
    let claims = leased(&scene.admin, "w", 2).await;
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    assert_eq!(complete(&first, &claims[0], "DISPATCHED").await.unwrap(), "1 DISPATCHED");
    let told = [(&claims[0], "DISPATCHED")];
    let answer = scene.while_waiting(&second, complete_all(&second, &told), commit(&first)).await;
    assert_eq!(answer, ["repeat 1 DISPATCHED"]);

    begin(&first).await;
    assert_eq!(complete(&first, &claims[1], "RETRYABLE").await.unwrap(), "1 RETRYABLE");
    let completing = complete(&second, &claims[1], "RETRYABLE");
    let answer = scene.while_waiting(&second, completing, commit(&first)).await;
    assert_eq!(ended(&answer), "P7002");
    assert_eq!(scene.attempts_at(claims[1].outbox_id).await, ["1 RETRYABLE"]);
}

async fn the_second_of_two_completions_counts_when_the_first_is_undone(scene: &Scene) {
    let claim = &leased(&scene.admin, "w", 1).await[0];
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    complete(&first, claim, "FAILED").await.unwrap();
    let undo = async { first.batch_execute("ROLLBACK").await.unwrap() };
    let completing = complete(&second, claim, "DISPATCHED");
    let answer = scene.while_waiting(&second, completing, undo).await;
    assert_eq!(answer.unwrap(), "1 DISPATCHED");
}

async fn a_release_makes_a_waiting_completion_too_late(scene: &Scene) {
    let claim = &leased(&scene.admin, "w", 1).await[0];
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    assert_eq!(release(&first, &[claim]).await, ["done"]);
    let completing = complete(&second, claim, "DISPATCHED");
    let answer = scene.while_waiting(&second, completing, commit(&first)).await;
    assert_eq!(ended(&answer), "P7002");
}

/// Both come to the lower row first, so that neither holds the higher one while it waits.
async fn batches_with_crossed_rows_do_not_wait_for_each_other(scene: &Scene) {
    let claims = leased(&scene.admin, "w", 2).await;
    let [low, high] = &claims[..] else { panic!("two") };
    let (blocker, first, second) =
        (scene.stranger().await, scene.worker().await, scene.worker().await);
    let lock = |claim: &Claim, mode: &str| {
        let id = claim.outbox_id;
        format!("SELECT FROM payment_outbox_pending WHERE outbox_id = '{id}' FOR UPDATE {mode}")
    };
    hold(&blocker, &lock(low, "")).await;
    let meanwhile = async {
        scene.until_waiting(&first).await;
        scene.until_waiting(&second).await;
        assert_eq!(ended(&scene.admin.batch_execute(&lock(high, "NOWAIT")).await), "00000");
        commit(&blocker).await;
    };
    let (upwards, downwards) =
        ([(low, "DISPATCHED"), (high, "FAILED")], [(high, "FAILED"), (low, "DISPATCHED")]);
    let calls =
        tokio::join!(complete_all(&first, &upwards), complete_all(&second, &downwards), meanwhile);
    let mut answers = [calls.0, calls.1];
    answers.sort();
    let told = |result: &str| [format!("{result} 1 DISPATCHED"), format!("{result} 1 FAILED")];
    for (answer, result) in answers.iter_mut().zip(["done", "repeat"]) {
        answer.sort();
        assert_eq!(answer[..], told(result));
    }
}

/// A lease whose first end has passed, extended in a transaction of `worker` that is not committed yet.
async fn extended_shortly_before_its_end(scene: &Scene, worker: &Session) -> Claim {
    let claim = claim_for(worker, "w", 1, 3).await.remove(0);
    begin(worker).await;
    assert_eq!(extend(worker, &[&claim], 600).await, ["done"]);
    scene.until_expired(claim.outbox_id).await;
    claim
}
