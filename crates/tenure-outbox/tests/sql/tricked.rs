//! What a caller sets or makes for itself does not change what the functions do.

use tenure_testkit::eventually::{eventually_true, secs};
use tokio_postgres::Client;

use crate::{
    calls::{Claim, claim, claim_only, complete, ended, enqueue, repair},
    scene::{Scene, Session, on_every_version},
};

on_every_version![
    tables_of_a_workers_own_shadow_nothing,
    types_of_a_callers_own_run_nothing_as_symphony_control,
    no_setting_moves_the_ceiling_beyond_its_bounds,
    a_worker_that_sets_a_high_ceiling_meets_the_real_one,
    marks_that_a_worker_sets_do_not_break_its_claims,
    settings_of_a_session_do_not_break_its_calls,
    rows_that_are_due_since_ever_do_not_break_a_claim,
];

async fn tables_of_a_workers_own_shadow_nothing(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    let worker = scene.worker().await;
    let shadows = "
        CREATE TEMP TABLE payment_outbox_pending (LIKE public.payment_outbox_pending);
        CREATE TEMP TABLE payment_outbox_attempts (LIKE public.payment_outbox_attempts);
        CREATE TEMP TABLE participant_outbox_sequences (participant_id text, next_sequence_id bigint);
        CREATE TEMP TABLE outbox_ordered_participants AS SELECT 'p' AS participant_id;
        CREATE TEMP TABLE outbox_ordered_rails AS SELECT 'wire' AS rail_type;
        SET search_path = pg_temp, public";
    worker.batch_execute(shadows).await.unwrap();

    enqueue(&scene.admin, "p", "l").await;
    let claims = claim(&worker, "w", 10).await;
    assert_eq!(claims.len(), 2);
    for (claim, state) in claims.iter().zip(["DISPATCHED", "RETRYABLE"]) {
        complete(&worker, claim, state).await.unwrap();
    }
    let again = claim_only(&worker, "w").await;
    scene.expire(again.outbox_id).await;
    assert_eq!(repair(&worker).await, [(again.outbox_id, 2)]);

    let shadowed = "SELECT count(*) FROM pg_temp.payment_outbox_attempts";
    assert_eq!(worker.query_one(shadowed, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(scene.attempts_at(claims[0].outbox_id).await, ["1 DISPATCHED"]);
}

/// The schema of temporary things comes first for types too, unless a search path names it; and a domain's
/// check is run by whoever makes a value of it.
async fn types_of_a_callers_own_run_nothing_as_symphony_control(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    let mut fooled = Vec::new();
    for name in ["text", "uuid", "timestamptz", "jsonb"] {
        let caller = scene.login("caller", "IN ROLE symphony_executor, symphony_ingest").await;
        let trap = format!(
            "CREATE FUNCTION pg_temp.sprung() RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN
                IF current_user = 'symphony_control' THEN
                    RAISE EXCEPTION 'run as symphony_control' USING ERRCODE = 'XX999';
                END IF;
                RETURN true;
            END $$;
            CREATE DOMAIN pg_temp.{name} AS pg_catalog.{name} CHECK (pg_temp.sprung())"
        );
        caller.batch_execute(&trap).await.unwrap();
        for call in [
            "SELECT * FROM public.enqueue_payment_outbox('i', 'p', 'l', 'wire', '{}')",
            "SELECT * FROM public.enqueue_payment_outbox_batch('{}', '{}', '{}', '{}', '{}')",
            "SELECT * FROM public.claim_outbox_batch(1, 'w', 1)",
            "SELECT * FROM public.repair_expired_leases(1, 'w')",
            "SELECT * FROM public.extend_outbox_leases('w', '{}', '{}', 1)",
            "SELECT * FROM public.release_outbox_leases('w', '{}', '{}')",
            "SELECT * FROM public.complete_outbox_attempts('w', '{}', '{}', '{}')",
        ] {
            let answer = caller.batch_execute(call).await;
            if answer.is_err() {
                fooled.push(format!("by {name}, with {}: {call}", ended(&answer)));
            }
        }
    }
    assert_eq!(fooled, [""; 0]);
}

async fn no_setting_moves_the_ceiling_beyond_its_bounds(scene: &Scene) {
    let control = scene.member_of("symphony_control").await;
    let ask = "SELECT public.outbox_retry_ceiling()";
    assert_eq!(control.query_one(ask, &[]).await.unwrap().get::<_, i32>(0), 20);
    for (setting, ceiling) in [
        ("1000", 20),
        ("21", 20),
        ("20", 20),
        ("7", 7),
        (" +7 ", 7),
        ("1", 1),
        ("0", 1),
        ("-5", 1),
        ("abc", 20),
        ("1e1", 20),
        ("7; DROP TABLE", 20),
        ("", 20),
        ("99999999999999999999", 20),
        ("-99999999999999999999", 1),
    ] {
        set(&control, "symphony.outbox_retry_ceiling", setting).await;
        let found: i32 = control.query_one(ask, &[]).await.unwrap().get(0);
        assert_eq!(found, ceiling, "{setting:?}");
    }
}

async fn a_worker_that_sets_a_high_ceiling_meets_the_real_one(scene: &Scene) {
    let enqueued = enqueue(&scene.admin, "p", "k").await;
    let worker = scene.worker().await;
    set(&worker, "symphony.outbox_retry_ceiling", "1000").await;
    for number in 1..20 {
        let claim = claim_only(&worker, "w").await;
        let answer = complete(&worker, &claim, "RETRYABLE").await.unwrap();
        assert_eq!(answer, format!("{number} RETRYABLE"));
    }
    let last = claim_only(&worker, "w").await;
    assert_eq!(complete(&worker, &last, "RETRYABLE").await.unwrap(), "20 FAILED");
    assert!(!scene.is_pending(enqueued.outbox_id).await);
}

async fn marks_that_a_worker_sets_do_not_break_its_claims(scene: &Scene) {
    let worker = scene.worker().await;
    for (number, marks) in [
        "",
        "abc",
        "{}",
        "{1,2,3}",
        "{1,2,3,4,5}",
        "{1,2,3,NULL}",
        "{-1,-1,-1,-1}",
        "{{1,2},{3,4}}",
        "{99999999999999999,0,0,0}",
        "{0,0,99999999999999999,99999999999999999}",
        "{99999999999999999,99999999999999999,99999999999999999,99999999999999999}",
        "{9223372036854775807,9223372036854775807,9223372036854775807,9223372036854775807}",
        "{99999999999999999999,1,1,1}",
    ]
    .iter()
    .enumerate()
    {
        let enqueued = enqueue(&scene.admin, "p", &number.to_string()).await;
        set(&worker, "symphony.outbox_claim_marks", marks).await;
        assert_eq!(claim_only(&worker, "w").await.outbox_id, enqueued.outbox_id, "{marks:?}");
    }
}

async fn settings_of_a_session_do_not_break_its_calls(scene: &Scene) {
    for setting in [
        "standard_conforming_strings = off",
        "bytea_output = 'escape'",
        "timezone = 'Pacific/Kiritimati'",
        "datestyle = 'German'",
        "intervalstyle = 'iso_8601'",
        "extra_float_digits = -15",
        "transform_null_equals = on",
        "plpgsql.variable_conflict = 'use_variable'",
        "plpgsql.extra_errors = 'all'",
        "default_transaction_isolation = 'serializable'",
        "enable_nestloop = off",
    ] {
        let key = |step: &str| format!("{setting} {step}");
        let (ingest, worker) = (scene.ingest().await, scene.worker().await);
        for session in [&ingest, &worker] {
            session.batch_execute(&format!("SET {setting}")).await.unwrap();
        }
        enqueue(&ingest, "p", &key("one")).await;
        let first = claimed_under(&worker, setting).await;
        assert_eq!(
            complete(&worker, &first, "RETRYABLE").await.unwrap(),
            "1 RETRYABLE",
            "{setting}"
        );
        // The second claim of a session reads what the first one remembered.
        let second = claimed_under(&worker, setting).await;
        assert_eq!(complete(&worker, &second, "FAILED").await.unwrap(), "2 FAILED", "{setting}");
    }
}

async fn rows_that_are_due_since_ever_do_not_break_a_claim(scene: &Scene) {
    for key in ["a", "b", "c"] {
        enqueue(&scene.admin, "p", key).await;
    }
    let hasten = "UPDATE payment_outbox_pending SET next_attempt_at = '-infinity'";
    scene.admin.batch_execute(hasten).await.unwrap();
    let worker = scene.worker().await;
    for left in [2, 1, 0] {
        // They are before every mark, and a sweep that was slow is not repeated at once.
        eventually_true("a row that is due since ever", secs(20), async || {
            let call = "SELECT FROM public.claim_outbox_batch(1, 'w', 60)";
            let answer = worker.query(call, &[]).await;
            assert_eq!(ended(&answer), "00000", "with {left} more");
            answer.unwrap().len() == 1
        })
        .await;
    }
}

async fn claimed_under(worker: &Session, setting: &str) -> Claim {
    let answer =
        worker.batch_execute("BEGIN; SELECT public.claim_outbox_batch(9, 'w', 60); ROLLBACK").await;
    assert_eq!(ended(&answer), "00000", "{setting}");
    claim_only(worker, "w").await
}

async fn set(client: &Client, name: &str, value: &str) {
    client.query("SELECT set_config($1, $2, false)", &[&name, &value]).await.unwrap();
}
