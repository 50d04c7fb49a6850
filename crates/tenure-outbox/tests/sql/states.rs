//! What the outcome of an attempt does to its row, and which outcomes are refused.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::{
    calls::{
        Claim, claim, claim_only, complete, complete_after, ended, enqueue, leased, release,
        repair, sqlstate_of,
    },
    scene::{Scene, on_every_version},
};

on_every_version![
    a_terminal_outcome_removes_the_row,
    an_attempt_keeps_what_the_worker_told,
    a_retry_is_due_after_its_delay_and_gives_the_lease_up,
    a_delay_is_one_second_unless_told_and_never_negative,
    a_worker_cannot_complete_under_a_foreign_token,
    a_worker_cannot_complete_what_it_gave_up,
    no_worker_tells_a_state_that_is_not_an_outcome,
    the_lease_is_tested_before_the_state,
    numbers_come_from_the_attempts_and_not_from_the_count,
    an_instruction_ends_at_most_once,
    a_lease_is_there_as_a_whole_or_not_at_all,
];

async fn a_terminal_outcome_removes_the_row(scene: &Scene) {
    let worker = scene.worker().await;
    for state in ["DISPATCHED", "FAILED"] {
        enqueue(&scene.admin, "p", state).await;
        let claim = claim_only(&worker, "w").await;
        assert_eq!(complete(&worker, &claim, state).await.unwrap(), format!("1 {state}"));
        assert!(!scene.is_pending(claim.outbox_id).await);
        assert_eq!(scene.attempts_at(claim.outbox_id).await, [format!("1 {state}")]);
    }
}

async fn an_attempt_keeps_what_the_worker_told(scene: &Scene) {
    let enqueued = enqueue(&scene.admin, "p", "k").await;
    let worker = scene.worker().await;
    let claim = claim_only(&worker, "w").await;
    let claimed_at = scene.text_of(claim.outbox_id, "claimed_at::text").await;
    let call = "SELECT * FROM public.complete_outbox_attempt(
            $1, $2, 'w', 'FAILED', 'reference', 'code', 'ERROR', 'message', 12
        )";
    let told: [&(dyn ToSql + Sync); 2] = [&claim.outbox_id, &claim.lease_token];
    worker.query_one(call, &told).await.unwrap();

    let kept = "SELECT concat_ws('|', instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
            payload, rail_reference, rail_code, error_code, error_message, latency_ms, worker_id)
        FROM payment_outbox_attempts";
    let expected = r#"k|p|1|k|wire|{"amount": 1}|reference|code|ERROR|message|12|w"#;
    assert_eq!(scene.text(kept).await, expected);
    let times = "SELECT concat_ws('|', claimed_at, enqueued_at) FROM payment_outbox_attempts
        WHERE completed_at >= claimed_at AND claimed_at >= enqueued_at";
    assert_eq!(scene.text(times).await, format!("{claimed_at}|{}", enqueued.created_at));
}

async fn a_retry_is_due_after_its_delay_and_gives_the_lease_up(scene: &Scene) {
    let worker = scene.worker().await;
    let retried = &leased(&scene.admin, "w", 1).await[0];
    let answer = complete_after(&worker, retried, Some("RETRYABLE"), 90).await.unwrap();
    assert_eq!(answer, "1 RETRYABLE");

    let left = "concat_ws(' ', attempt_count, claimed_by, lease_token, lease_expires_at)";
    assert_eq!(scene.text_of(retried.outbox_id, left).await, "1");
    assert_eq!(delay_after_the_last_attempt(scene).await, "00:01:30");
    assert_eq!(claim(&worker, "w", 1).await, []);
}

async fn a_delay_is_one_second_unless_told_and_never_negative(scene: &Scene) {
    let worker = scene.worker().await;
    enqueue(&scene.admin, "p", "k").await;
    let claim = claim_only(&worker, "w").await;
    complete_after(&worker, &claim, Some("RETRYABLE"), -60).await.unwrap();
    assert_eq!(delay_after_the_last_attempt(scene).await, "00:00:00");

    let claim = claim_only(&worker, "w").await;
    let call = "SELECT * FROM public.complete_outbox_attempt($1, $2, 'w', 'RETRYABLE')";
    worker.query_one(call, &[&claim.outbox_id, &claim.lease_token]).await.unwrap();
    assert_eq!(delay_after_the_last_attempt(scene).await, "00:00:01");
}

async fn a_worker_cannot_complete_under_a_foreign_token(scene: &Scene) {
    let worker = scene.worker().await;
    let mine = &leased(&scene.admin, "w", 1).await[0];
    let unknown = Claim { outbox_id: Uuid::new_v4(), ..mine.clone() };
    for foreign in [mine.forged(), mine.of("v"), mine.of("W"), mine.of(""), unknown] {
        for state in ["DISPATCHED", "RETRYABLE", "FAILED"] {
            let error = complete(&worker, &foreign, state).await.unwrap_err();
            assert_eq!(sqlstate_of(&error), "P7002", "{foreign:?}");
            assert_eq!(error.as_db_error().unwrap().message(), "LEASE_LOST");
        }
    }
    assert_eq!(scene.attempts_at(mine.outbox_id).await, [""; 0]);
    assert_eq!(complete(&worker, mine, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
}

async fn a_worker_cannot_complete_what_it_gave_up(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 5).await;
    let [dispatched, retried, released, expired, repaired] = &claims[..] else { panic!("five") };
    complete(&worker, dispatched, "DISPATCHED").await.unwrap();
    complete(&worker, retried, "RETRYABLE").await.unwrap();
    assert_eq!(release(&worker, &[released]).await, ["done"]);
    scene.expire(repaired.outbox_id).await;
    assert_eq!(repair(&worker).await, [(repaired.outbox_id, 1)]);
    scene.expire(expired.outbox_id).await;
    for claim in &claims {
        let answer = complete(&worker, claim, "DISPATCHED").await;
        assert_eq!(ended(&answer), "P7002", "{claim:?}");
    }
    assert_eq!(scene.attempts_at(dispatched.outbox_id).await, ["1 DISPATCHED"]);
    assert_eq!(scene.attempts_at(retried.outbox_id).await, ["1 RETRYABLE"]);
    assert_eq!(scene.attempts_at(expired.outbox_id).await, [""; 0]);

    // The next lease is another one.
    let again = claim(&worker, "w", 5).await;
    let again = again.iter().find(|claim| claim.outbox_id == released.outbox_id).unwrap();
    assert_ne!(again.lease_token, released.lease_token);
    assert_eq!(ended(&complete(&worker, released, "DISPATCHED").await), "P7002");
}

async fn no_worker_tells_a_state_that_is_not_an_outcome(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    for state in [Some("DISPATCHING"), Some("ZOMBIE_REQUEUE"), None] {
        let answer = complete_after(&worker, claim, state, 1).await;
        assert_eq!(ended(&answer), "P7003", "{state:?}");
    }
    assert_eq!(scene.attempts_at(claim.outbox_id).await, [""; 0]);
    assert_eq!(complete(&worker, claim, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
}

async fn the_lease_is_tested_before_the_state(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    for state in [Some("DISPATCHING"), Some("ZOMBIE_REQUEUE"), None] {
        let answer = complete_after(&worker, &claim.forged(), state, 1).await;
        assert_eq!(ended(&answer), "P7002", "{state:?}");
    }
    scene.expire(claim.outbox_id).await;
    assert_eq!(ended(&complete(&worker, claim, "DISPATCHING").await), "P7002");
}

async fn numbers_come_from_the_attempts_and_not_from_the_count(scene: &Scene) {
    let worker = scene.worker().await;
    let outbox_id = enqueue(&scene.admin, "p", "k").await.outbox_id;
    for (wrong, number, count) in [(7, 1, 7), (0, 2, 2), (-3, 3, 3)] {
        let spoil = format!("UPDATE payment_outbox_pending SET attempt_count = {wrong}");
        scene.admin.batch_execute(&spoil).await.unwrap();
        let claim = claim_only(&worker, "w").await;
        let answer = complete(&worker, &claim, "RETRYABLE").await.unwrap();
        assert_eq!(answer, format!("{number} RETRYABLE"));
        assert_eq!(scene.text_of(outbox_id, "attempt_count::text").await, count.to_string());
    }
}

async fn an_instruction_ends_at_most_once(scene: &Scene) {
    let worker = scene.worker().await;
    let control = scene.member_of("symphony_control").await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    complete(&worker, claim, "DISPATCHED").await.unwrap();
    for state in ["DISPATCHED", "FAILED"] {
        let append = "INSERT INTO payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
                idempotency_key, rail_type, payload, attempt_no, state)
            VALUES ($1, 'k', 'p', 1, 'k', 'wire', '{}', 2, $2::text::outbox_attempt_state)";
        let error = control.execute(append, &[&claim.outbox_id, &state]).await.unwrap_err();
        assert_eq!(sqlstate_of(&error), "23505");
        let guard = "payment_outbox_attempts_one_terminal_per_outbox";
        assert_eq!(error.as_db_error().unwrap().constraint(), Some(guard));
    }
}

async fn a_lease_is_there_as_a_whole_or_not_at_all(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    for half in [
        "claimed_by = 'w'",
        "lease_token = gen_random_uuid()",
        "lease_expires_at = now()",
        "claimed_by = 'w', lease_token = gen_random_uuid()",
        "claimed_by = 'w', lease_expires_at = now()",
        "lease_token = gen_random_uuid(), lease_expires_at = now()",
    ] {
        let update = format!("UPDATE payment_outbox_pending SET {half}");
        let error = scene.admin.batch_execute(&update).await.unwrap_err();
        assert_eq!(sqlstate_of(&error), "23514", "{half}");
        let check = "ck_pending_lease_consistency";
        assert_eq!(error.as_db_error().unwrap().constraint(), Some(check));
    }
}

/// How long after the latest attempt the only row is due.
async fn delay_after_the_last_attempt(scene: &Scene) -> String {
    let ask =
        "SELECT (next_attempt_at - (SELECT max(completed_at) FROM payment_outbox_attempts))::text
        FROM payment_outbox_pending";
    scene.text(ask).await
}
