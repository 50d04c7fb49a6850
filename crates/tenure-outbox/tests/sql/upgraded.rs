//! Installing over what is there already, and by whom.

use tenure_outbox::{
    doctor::{self, Finding},
    install,
};
use tokio_postgres::Client;

use crate::{
    calls::{claim, complete, enqueue},
    scene::{Scene, on_every_version},
};

on_every_version![
    on Scene::without_outbox:
    older_tables_are_brought_up_and_keep_their_rows,
    bare_tables_are_given_their_constraints,
    an_older_view_is_replaced,
    an_older_view_that_begins_alike_is_replaced,
    what_was_taken_away_comes_back,
    two_installations_at_once_both_succeed,
    an_owner_of_the_database_who_makes_roles_installs,
    an_installation_in_a_second_database_finds_the_roles,
];

/// As they were before leases.
const OLDER: &str = "
    CREATE TYPE outbox_attempt_state AS ENUM
        ('DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');
    CREATE TABLE participant_outbox_sequences (
        participant_id text PRIMARY KEY, next_sequence_id bigint NOT NULL CHECK (next_sequence_id >= 1)
    );
    CREATE TABLE payment_outbox_pending (
        outbox_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), instruction_id text NOT NULL,
        participant_id text NOT NULL, sequence_id bigint NOT NULL, idempotency_key text NOT NULL,
        rail_type text NOT NULL, payload jsonb NOT NULL, attempt_count integer NOT NULL DEFAULT 0,
        next_attempt_at timestamptz NOT NULL DEFAULT now(), created_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE payment_outbox_attempts (
        attempt_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), outbox_id uuid NOT NULL,
        instruction_id text NOT NULL, participant_id text NOT NULL, sequence_id bigint NOT NULL,
        idempotency_key text NOT NULL, rail_type text NOT NULL, payload jsonb NOT NULL,
        attempt_no integer NOT NULL CHECK (attempt_no >= 1), state outbox_attempt_state NOT NULL,
        claimed_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz, rail_reference text,
        rail_code text, error_code text, error_message text, latency_ms integer, worker_id text,
        created_at timestamptz NOT NULL DEFAULT now()
    );
    INSERT INTO participant_outbox_sequences VALUES ('p', 4);
    INSERT INTO payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
        idempotency_key, rail_type, payload, attempt_no, state)
    VALUES (gen_random_uuid(), 'over', 'p', 1, 'over', 'wire', '{}', 1, 'RETRYABLE');
    INSERT INTO payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
        idempotency_key, rail_type, payload, attempt_no, state)
    SELECT outbox_id, 'over', 'p', 1, 'over', 'wire', '{}', 2, 'DISPATCHED' FROM payment_outbox_attempts;
    INSERT INTO payment_outbox_pending (instruction_id, participant_id, sequence_id, idempotency_key,
        rail_type, payload)
    VALUES ('two', 'p', 2, 'two', 'wire', '{}'), ('three', 'p', 3, 'three', 'wire', '{}')";

async fn older_tables_are_brought_up_and_keep_their_rows(scene: &Scene) {
    scene.admin.batch_execute(OLDER).await.unwrap();
    install::install(&scene.admin).await.unwrap();
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
    they_are_worked(scene).await;
}

/// Only the columns and their keys were there.
async fn bare_tables_are_given_their_constraints(scene: &Scene) {
    let bare =
        OLDER.replace("CHECK (next_sequence_id >= 1)", "").replace("CHECK (attempt_no >= 1)", "");
    scene.admin.batch_execute(&bare).await.unwrap();
    install::install(&scene.admin).await.unwrap();
    they_are_worked(scene).await;
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
}

async fn an_older_view_is_replaced(scene: &Scene) {
    let older = "CREATE VIEW supervisor_outbox_status AS SELECT 0::bigint AS pending_count, now() AS generated_at";
    scene.admin.batch_execute(older).await.unwrap();
    install::install(&scene.admin).await.unwrap();
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
}

async fn an_older_view_that_begins_alike_is_replaced(scene: &Scene) {
    let older = "CREATE VIEW supervisor_outbox_status AS
        SELECT now() AS generated_at, 0::bigint AS pending_count, 0::bigint AS dispatched_count";
    scene.admin.batch_execute(older).await.unwrap();
    install::install(&scene.admin).await.unwrap();
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
}

async fn what_was_taken_away_comes_back(scene: &Scene) {
    install::install(&scene.admin).await.unwrap();
    enqueue(&scene.admin, "p", "k").await;
    let spoil = "
        DROP INDEX idx_payment_outbox_pending_due_claim, ix_pending_claimed_by, ix_attempts_idempotency,
            payment_outbox_attempts_one_terminal_per_outbox;
        ALTER TABLE payment_outbox_pending DROP CONSTRAINT ck_pending_lease_consistency,
            DROP CONSTRAINT ux_pending_idempotency, DROP COLUMN claimed_by;
        ALTER TABLE payment_outbox_attempts DISABLE TRIGGER ALL;
        GRANT ALL ON payment_outbox_attempts, participant_outbox_sequences TO PUBLIC, symphony_executor;
        GRANT UPDATE (payload) ON payment_outbox_pending TO symphony_readonly;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC;
        REVOKE ALL ON FUNCTION claim_outbox_batch(integer, text, integer) FROM symphony_executor;
        GRANT CREATE ON SCHEMA public TO PUBLIC;
        DROP VIEW supervisor_outbox_status;
        DROP FUNCTION bump_participant_outbox_seq(text);
        ALTER FUNCTION repair_expired_leases(integer, text) SECURITY INVOKER";
    scene.admin.batch_execute(spoil).await.unwrap();
    install::install(&scene.admin).await.unwrap();
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
    assert_eq!(claim(&scene.admin, "w", 10).await.len(), 1);
}

async fn two_installations_at_once_both_succeed(scene: &Scene) {
    let other = scene.stranger().await;
    let (one, two) = tokio::join!(install::install(&scene.admin), install::install(&other));
    one.unwrap();
    two.unwrap();
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
}

async fn an_owner_of_the_database_who_makes_roles_installs(scene: &Scene) {
    let owner = scene.login("owner", "CREATEROLE").await;
    scene.admin.batch_execute("ALTER DATABASE postgres OWNER TO owner").await.unwrap();
    for _ in 0..2 {
        install::install(&owner).await.unwrap();
        assert_eq!(doctor::examine(&owner).await.unwrap(), Vec::<Finding>::new());
    }
    enqueue(&*scene.ingest().await, "p", "k").await;
    let worker = scene.worker().await;
    for claim in claim(&worker, "w", 10).await {
        complete(&worker, &claim, "DISPATCHED").await.unwrap();
    }
    let attempts: Vec<String> =
        texts(&scene.admin, "SELECT state::text FROM payment_outbox_attempts").await;
    assert_eq!(attempts, ["DISPATCHED"]);
}

async fn an_installation_in_a_second_database_finds_the_roles(scene: &Scene) {
    install::install(&scene.admin).await.unwrap();
    scene.admin.batch_execute("CREATE DATABASE second").await.unwrap();
    let url = scene.postgres.url_as("postgres", "second");
    let (second, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    install::install(&second).await.unwrap();
    assert_eq!(doctor::examine(&second).await.unwrap(), Vec::<Finding>::new());
}

/// The rows of before are known, numbered on, and claimable.
async fn they_are_worked(scene: &Scene) {
    let over = enqueue(&scene.admin, "p", "over").await;
    assert_eq!((over.sequence_id, over.state.as_str()), (1, "DISPATCHED"));
    let pending = enqueue(&scene.admin, "p", "three").await;
    assert_eq!((pending.sequence_id, pending.state.as_str()), (3, "PENDING"));
    assert_eq!(enqueue(&scene.admin, "p", "four").await.sequence_id, 4);

    let worker = scene.worker().await;
    let claims = claim(&worker, "w", 10).await;
    assert_eq!(claims.len(), 3);
    for claim in &claims {
        assert_eq!(complete(&worker, claim, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
    }
    let all = "SELECT concat_ws(' ', sequence_id, attempt_no, state) FROM payment_outbox_attempts
        ORDER BY sequence_id, attempt_no";
    let expected =
        ["1 1 RETRYABLE", "1 2 DISPATCHED", "2 1 DISPATCHED", "3 1 DISPATCHED", "4 1 DISPATCHED"];
    assert_eq!(texts(&scene.admin, all).await, expected);
}

async fn texts(client: &Client, query: &str) -> Vec<String> {
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}
