//! What `supervisor_outbox_status` says of a known population.

use crate::{
    calls::{claim_only, complete, complete_after, enqueue},
    scene::{Scene, on_every_version},
};

on_every_version![
    an_empty_outbox_is_all_zeros,
    everything_is_counted_once_by_its_latest_attempt,
    the_last_hour_is_told_from_before,
    the_age_is_that_of_the_oldest_row,
];

const COUNTS: &str = "SELECT (to_jsonb(s) - '{generated_at,oldest_pending_age_seconds}'::text[])
    - '{dispatched_last_hour,failed_last_hour,view_version}'::text[] FROM supervisor_outbox_status AS s";

async fn an_empty_outbox_is_all_zeros(scene: &Scene) {
    let counts = counts(scene).await;
    let counts = counts.as_object().unwrap();
    assert_eq!(counts.len(), 14);
    assert!(counts.values().all(|count| count == 0), "{counts:?}");
    let rest =
        "SELECT concat_ws(' ', oldest_pending_age_seconds, dispatched_last_hour, failed_last_hour,
        view_version <> '') FROM supervisor_outbox_status";
    assert_eq!(scene.text(rest).await, "0 0 t");
}

async fn everything_is_counted_once_by_its_latest_attempt(scene: &Scene) {
    // Each is over or leased before the next one comes, so that every claim has one row to take.
    for (key, outcomes) in [
        ("dispatched", &["DISPATCHED"][..]),
        ("dispatched at the second", &["RETRYABLE", "DISPATCHED"]),
        ("dispatched at the fourth", &["RETRYABLE", "RETRYABLE", "RETRYABLE", "DISPATCHED"]),
        ("failed", &["FAILED"]),
        ("failed at the third", &["RETRYABLE", "RETRYABLE", "FAILED"]),
        ("dead", &["RETRYABLE", "RETRYABLE", "RETRYABLE", "RETRYABLE", "FAILED"]),
        ("deader", &["RETRYABLE", "RETRYABLE", "RETRYABLE", "RETRYABLE", "RETRYABLE", "FAILED"]),
    ] {
        enqueue(&scene.admin, "p", key).await;
        for outcome in outcomes {
            let claim = claim_only(&scene.admin, "w").await;
            complete(&scene.admin, &claim, outcome).await.unwrap();
        }
    }
    enqueue(&scene.admin, "p", "tried twice, due in an hour").await;
    for delay in [0, 3600] {
        let claim = claim_only(&scene.admin, "w").await;
        complete_after(&scene.admin, &claim, Some("RETRYABLE"), delay).await.unwrap();
    }
    enqueue(&scene.admin, "p", "leased, lost once").await;
    let lost = claim_only(&scene.admin, "w").await;
    scene.expire(lost.outbox_id).await;
    claim_only(&scene.admin, "w").await;
    enqueue(&scene.admin, "p", "leased").await;
    claim_only(&scene.admin, "w").await;
    enqueue(&scene.admin, "p", "expired").await;
    let expired = claim_only(&scene.admin, "w").await;
    scene.expire(expired.outbox_id).await;
    enqueue(&scene.admin, "p", "due").await;
    enqueue(&scene.admin, "p", "due as well").await;

    let expected = serde_json::json!({
        "pending_count": 6, "due_pending_count": 5, "leased_count": 2, "expired_lease_count": 1,
        "due_unleased_count": 2, "dispatched_count": 3, "failed_count": 4, "retryable_count": 1,
        "dlq_count": 2, "attempt_1": 3, "attempt_2": 2, "attempt_3": 1, "attempt_4": 1,
        "attempt_5_plus": 2,
    });
    assert_eq!(counts(scene).await, expected);
}

async fn the_last_hour_is_told_from_before(scene: &Scene) {
    let append = "INSERT INTO payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
            idempotency_key, rail_type, payload, attempt_no, state, completed_at)
        SELECT gen_random_uuid(), 'i', 'p', 1, 'k', 'wire', '{}', 1, s.state, now() - age
        FROM unnest('{DISPATCHED,DISPATCHED,FAILED,RETRYABLE}'::outbox_attempt_state[]) AS s(state)
        CROSS JOIN unnest('{1 minute,59 minutes,61 minutes,1 day,1 year}'::interval[]) AS age";
    scene.admin.batch_execute(append).await.unwrap();
    let counts = "SELECT concat_ws(' ', dispatched_count, dispatched_last_hour, failed_count, failed_last_hour)
        FROM supervisor_outbox_status";
    assert_eq!(scene.text(counts).await, "10 4 5 2");
}

async fn the_age_is_that_of_the_oldest_row(scene: &Scene) {
    for key in ["young", "old"] {
        enqueue(&scene.admin, key, key).await;
    }
    let age = "UPDATE payment_outbox_pending SET created_at = now() - interval '100 seconds'
        WHERE participant_id = 'old'";
    scene.admin.batch_execute(age).await.unwrap();
    let ask = "SELECT (oldest_pending_age_seconds BETWEEN 100 AND 160)::text FROM supervisor_outbox_status";
    assert_eq!(scene.text(ask).await, "true");
}

async fn counts(scene: &Scene) -> serde_json::Value {
    scene.admin.query_one(COUNTS, &[]).await.unwrap().get(0)
}
