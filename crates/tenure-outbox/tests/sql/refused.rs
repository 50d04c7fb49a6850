//! Parameters that make no sense end with one SQLSTATE each, and leave nothing.

use crate::{
    calls::ended,
    scene::{Scene, on_every_version},
};

on_every_version![
    parameters_that_make_no_sense_are_refused,
    a_payload_must_be_an_object,
    a_refused_enqueue_leaves_nothing,
];

const WITHOUT_SENSE: [&str; 31] = [
    "claim_outbox_batch(0, 'w', 30)",
    "claim_outbox_batch(-1, 'w', 30)",
    "claim_outbox_batch(NULL, 'w', 30)",
    "claim_outbox_batch(1, '', 30)",
    "claim_outbox_batch(1, NULL, 30)",
    "claim_outbox_batch(1, 'w', 0)",
    "claim_outbox_batch(1, 'w', -30)",
    "claim_outbox_batch(1, 'w', NULL)",
    "repair_expired_leases(0, 'w')",
    "repair_expired_leases(NULL, 'w')",
    "repair_expired_leases(1, '')",
    "repair_expired_leases(1, NULL)",
    "extend_outbox_leases('w', ARRAY[gen_random_uuid()], '{}', 30)",
    "extend_outbox_leases('w', ARRAY[gen_random_uuid()], NULL, 30)",
    "extend_outbox_leases('w', '{}', '{}', 0)",
    "extend_outbox_leases('w', '{}', '{}', NULL)",
    "release_outbox_leases('w', ARRAY[gen_random_uuid()], '{}')",
    "release_outbox_leases('w', NULL, ARRAY[gen_random_uuid()])",
    "complete_outbox_attempts('w', ARRAY[gen_random_uuid()], '{}', '{FAILED}')",
    "complete_outbox_attempts('w', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()], '{}')",
    "complete_outbox_attempts('w', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()], NULL)",
    "complete_outbox_attempts('w', '{}', '{}', '{}', p_rail_codes => '{a}')",
    "complete_outbox_attempts('w', '{}', '{}', '{}', p_retry_delays_seconds => '{1}')",
    "enqueue_payment_outbox('', 'p', 'k', 'wire', '{}')",
    "enqueue_payment_outbox('i', '', 'k', 'wire', '{}')",
    "enqueue_payment_outbox('i', 'p', '', 'wire', '{}')",
    "enqueue_payment_outbox('i', 'p', 'k', '', '{}')",
    "enqueue_payment_outbox('i', 'p', 'k', 'wire', NULL)",
    "enqueue_payment_outbox(NULL, 'p', 'k', 'wire', '{}')",
    "enqueue_payment_outbox_batch('{i}', '{p}', '{k}', '{wire}', '{}')",
    "enqueue_payment_outbox_batch('{i,j}', '{p}', '{k}', '{wire}', ARRAY['{}'::jsonb])",
];

async fn parameters_that_make_no_sense_are_refused(scene: &Scene) {
    for call in WITHOUT_SENSE {
        let answer = scene.admin.batch_execute(&format!("SELECT * FROM public.{call}")).await;
        assert_eq!(ended(&answer), "22023", "{call}");
    }
    // Nothing to do is no mistake.
    for call in [
        "complete_outbox_attempts('w', '{}', '{}', '{}')",
        "extend_outbox_leases('w', '{}', '{}', 30)",
        "release_outbox_leases('w', '{}', '{}')",
        "enqueue_payment_outbox_batch('{}', '{}', '{}', '{}', '{}')",
    ] {
        let answer = scene.admin.query(&format!("SELECT * FROM public.{call}"), &[]).await;
        assert_eq!(ended(&answer), "00000", "{call}");
        assert_eq!(answer.unwrap().len(), 0, "{call}");
    }
}

async fn a_payload_must_be_an_object(scene: &Scene) {
    for payload in ["[]", "[{}]", "1", "\"{}\"", "true", "null"] {
        let call =
            format!("SELECT public.enqueue_payment_outbox('i', 'p', 'k', 'wire', '{payload}')");
        let answer = scene.admin.batch_execute(&call).await;
        assert_eq!(ended(&answer), "23514", "{payload}");
        let error = answer.unwrap_err();
        let check = "ck_pending_payload_is_object";
        assert_eq!(error.as_db_error().unwrap().constraint(), Some(check));
    }
}

async fn a_refused_enqueue_leaves_nothing(scene: &Scene) {
    let refused = "SELECT public.enqueue_payment_outbox('i', 'p', 'k', 'wire', '[]')";
    scene.admin.batch_execute(refused).await.unwrap_err();
    // As an answer a refusal does not undo what the same call wrote.
    let invalid = "SELECT public.enqueue_payment_outbox_batch('{i}', '{p}', '{k}', '{wire}', ARRAY['[]'::jsonb])";
    scene.admin.batch_execute(invalid).await.unwrap();
    for table in
        ["payment_outbox_pending", "payment_outbox_attempts", "participant_outbox_sequences"]
    {
        let count = scene.text(&format!("SELECT count(*)::text FROM {table}")).await;
        assert_eq!(count, "0", "{table}");
    }
}
