//! What the doctor finds when something was changed by hand.

use tenure_outbox::doctor::{self, Finding};

use crate::scene::{Scene, on_every_version};

on_every_version![
    a_dropped_index_is_found,
    an_index_that_is_another_one_is_found,
    a_function_with_another_body_is_found,
    a_function_that_runs_as_its_caller_is_found,
    a_grant_too_many_is_found,
    a_grant_on_a_column_is_found,
    a_grant_that_is_missing_is_found,
    a_trigger_that_was_switched_off_is_found,
    a_constraint_that_was_dropped_is_found,
    a_view_that_says_something_else_is_found,
    the_role_symphony_auth_is_found,
    a_role_that_may_log_in_is_found,
];

async fn a_dropped_index_is_found(scene: &Scene) {
    let index = "payment_outbox_attempts_one_terminal_per_outbox";
    let found = after(scene, &format!("DROP INDEX {index}")).await;
    let [Finding::Missing(missing)] = &found[..] else { panic!("{found:?}") };
    assert!(missing.starts_with(&format!("index CREATE UNIQUE INDEX {index} ")), "{missing}");
}

async fn an_index_that_is_another_one_is_found(scene: &Scene) {
    let change = "DROP INDEX ix_pending_lease_expires;
        CREATE INDEX ix_pending_lease_expires ON payment_outbox_pending (lease_expires_at)";
    differs_in(&after(scene, change).await, "index CREATE INDEX ix_pending_lease_expires ");
}

async fn a_function_with_another_body_is_found(scene: &Scene) {
    let change = "CREATE OR REPLACE FUNCTION outbox_retry_ceiling() RETURNS integer
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public
        AS 'BEGIN RETURN 1000; END'";
    differs_in(&after(scene, change).await, "function outbox_retry_ceiling(): ");
}

async fn a_function_that_runs_as_its_caller_is_found(scene: &Scene) {
    let change = "ALTER FUNCTION claim_outbox_batch(integer, text, integer) SECURITY INVOKER";
    differs_in(&after(scene, change).await, "function claim_outbox_batch(");
    let change = "ALTER FUNCTION repair_expired_leases(integer, text) RESET search_path";
    let found = after(scene, change).await;
    assert!(
        found.iter().any(|finding| text(finding).starts_with("function repair_expired_leases("))
    );
}

async fn a_grant_too_many_is_found(scene: &Scene) {
    let found = after(scene, "GRANT UPDATE ON payment_outbox_pending TO symphony_executor").await;
    differs_in(&found, "grant on payment_outbox_pending to symphony_executor: ");

    let change = "GRANT SELECT ON participant_outbox_sequences TO PUBLIC;
        GRANT EXECUTE ON FUNCTION bump_participant_outbox_seq(text) TO symphony_ingest;
        GRANT CREATE ON SCHEMA public TO PUBLIC";
    let found = after(scene, change).await;
    for expected in [
        "grant on participant_outbox_sequences to PUBLIC: SELECT",
        "grant on function bump_participant_outbox_seq(text) to symphony_ingest",
        "grant on schema public to PUBLIC: CREATE",
    ] {
        let expected = Finding::Unexpected(expected.to_owned());
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
}

async fn a_grant_on_a_column_is_found(scene: &Scene) {
    let change = "GRANT UPDATE (lease_token) ON payment_outbox_pending TO symphony_executor";
    assert_ne!(after(scene, change).await, []);
}

async fn a_grant_that_is_missing_is_found(scene: &Scene) {
    let change =
        "REVOKE ALL ON FUNCTION repair_expired_leases(integer, text) FROM symphony_executor";
    let missing = "grant on function repair_expired_leases(integer, text) to symphony_executor";
    assert_eq!(after(scene, change).await, [Finding::Missing(missing.to_owned())]);
}

async fn a_trigger_that_was_switched_off_is_found(scene: &Scene) {
    let trigger = "trg_deny_outbox_attempts_mutation";
    let table = "ALTER TABLE payment_outbox_attempts";
    // Enabled as triggers are by default, it would not hold while replication is replayed.
    for state in ["DISABLE", "ENABLE", "ENABLE REPLICA"] {
        let found = after(scene, &format!("{table} {state} TRIGGER {trigger}")).await;
        differs_in(&found, &format!("trigger CREATE TRIGGER {trigger} "));
    }
    let found = after(scene, &format!("DROP TRIGGER {trigger} ON payment_outbox_attempts")).await;
    assert!(matches!(&found[..], [Finding::Missing(_)]), "{found:?}");
}

async fn a_constraint_that_was_dropped_is_found(scene: &Scene) {
    let change = "ALTER TABLE payment_outbox_pending DROP CONSTRAINT ck_pending_lease_consistency";
    let found = after(scene, change).await;
    let [Finding::Missing(missing)] = &found[..] else { panic!("{found:?}") };
    assert!(missing.contains("ck_pending_lease_consistency"), "{missing}");

    let change = "ALTER TABLE payment_outbox_pending ADD CONSTRAINT ck_pending_lease_consistency CHECK (true)";
    differs_in(
        &after(scene, change).await,
        "constraint payment_outbox_pending.ck_pending_lease_consistency",
    );
}

async fn a_view_that_says_something_else_is_found(scene: &Scene) {
    let change = "DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW supervisor_outbox_status AS '
        || replace(pg_get_viewdef('supervisor_outbox_status'::regclass), '01:00:00', '02:00:00'); END $$";
    assert_ne!(after(scene, change).await, []);
}

async fn the_role_symphony_auth_is_found(scene: &Scene) {
    let found = after(scene, "CREATE ROLE symphony_auth").await;
    let unexpected = "role symphony_auth: cannot log in";
    assert_eq!(found, [Finding::Unexpected(unexpected.to_owned())]);
}

async fn a_role_that_may_log_in_is_found(scene: &Scene) {
    let found = after(scene, "ALTER ROLE symphony_control LOGIN").await;
    differs_in(&found, "role symphony_control: ");
}

async fn after(scene: &Scene, change: &str) -> Vec<Finding> {
    scene.admin.batch_execute(change).await.unwrap();
    doctor::examine(&scene.admin).await.unwrap()
}

/// One fact is there in another form.
fn differs_in(found: &[Finding], fact: &str) {
    let [Finding::Missing(missing), Finding::Unexpected(unexpected)] = found else {
        panic!("{found:?}")
    };
    assert!(missing.starts_with(fact) && unexpected.starts_with(fact), "{found:?}");
}

fn text(finding: &Finding) -> &str {
    match finding {
        Finding::Missing(text) | Finding::Unexpected(text) => text,
    }
}
