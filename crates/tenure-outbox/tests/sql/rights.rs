//! Who may do what. Whatever is not listed as allowed ends with SQLSTATE 42501.

use tokio_postgres::Client;

use crate::{
    calls::{claim_only, complete, ended, enqueue},
    scene::{Scene, Session, on_every_version},
};

on_every_version![
    functions_are_called_by_those_they_are_for,
    tables_are_read_and_written_by_those_they_are_for,
    nobody_changes_what_is_installed,
    not_even_symphony_control_removes_the_guard_of_the_attempts,
    attempts_are_append_only_even_for_a_superuser,
];

const CONTROL: &str = "symphony_control";
const INGEST: &str = "symphony_ingest";
const EXECUTOR: &str = "symphony_executor";
const READONLY: &str = "symphony_readonly";
const AUDITOR: &str = "symphony_auditor";
/// Logs in, and belongs to nothing.
const PASSER_BY: &str = "passer_by";
const EVERYBODY: [&str; 6] = [CONTROL, INGEST, EXECUTOR, READONLY, AUDITOR, PASSER_BY];

type Allowed = &'static [&'static str];
const NOBODY: Allowed = &[];
const CONTROL_ALONE: Allowed = &[CONTROL];
const THOSE_WHO_ENQUEUE: Allowed = &[INGEST, CONTROL];
const THOSE_WHO_WORK: Allowed = &[EXECUTOR, CONTROL];
const THOSE_WHO_LOOK: Allowed = &[READONLY, AUDITOR, CONTROL];
const ALL_WHO_SEE_ROWS: Allowed = &[READONLY, AUDITOR, EXECUTOR, CONTROL];

/// A call, how it ends for those who are allowed, and who they are.
const FUNCTIONS: [(&str, &str, Allowed); 23] = [
    ("enqueue_payment_outbox('i', 'p', 'k', 'wire', '{}')", "00000", THOSE_WHO_ENQUEUE),
    (
        "enqueue_payment_outbox_batch('{i}', '{p}', '{k}', '{wire}', ARRAY['{}'::jsonb])",
        "00000",
        THOSE_WHO_ENQUEUE,
    ),
    ("claim_outbox_batch(1, 'w', 30)", "00000", THOSE_WHO_WORK),
    (
        "complete_outbox_attempt(gen_random_uuid(), gen_random_uuid(), 'w', 'DISPATCHED')",
        "P7002",
        THOSE_WHO_WORK,
    ),
    (
        "complete_outbox_attempts('w', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()], '{FAILED}')",
        "00000",
        THOSE_WHO_WORK,
    ),
    (
        "extend_outbox_leases('w', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()], 30)",
        "00000",
        THOSE_WHO_WORK,
    ),
    (
        "release_outbox_leases('w', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()])",
        "00000",
        THOSE_WHO_WORK,
    ),
    ("repair_expired_leases(10, 'w')", "00000", THOSE_WHO_WORK),
    ("bump_participant_outbox_seq('p')", "00000", CONTROL_ALONE),
    ("find_payment_outbox('i', 'k')", "00000", CONTROL_ALONE),
    ("append_lost_outbox_attempts('{}', 'w', now())", "00000", CONTROL_ALONE),
    ("look_for_claimable_outbox(1, now(), '-infinity', '-infinity')", "00000", CONTROL_ALONE),
    ("lock_outbox_leases('w', '{}', '{}')", "00000", CONTROL_ALONE),
    ("is_first_in_order('p', 'wire', 1)", "00000", CONTROL_ALONE),
    ("first_of_ordered_participants(now())", "00000", CONTROL_ALONE),
    ("announce_outbox_work()", "00000", CONTROL_ALONE),
    ("outbox_retry_ceiling()", "00000", CONTROL_ALONE),
    ("uuid_strategy()", "00000", CONTROL_ALONE),
    ("uuid_v7_or_random()", "00000", CONTROL_ALONE),
    ("uuidv7()", "00000", CONTROL_ALONE),
    // Bad parameters are not looked at before the right.
    ("claim_outbox_batch(0, '', 0)", "22023", THOSE_WHO_WORK),
    ("repair_expired_leases(0, '')", "22023", THOSE_WHO_WORK),
    ("enqueue_payment_outbox('', '', '', '', '{}')", "22023", THOSE_WHO_ENQUEUE),
];

/// A relation, a column of it, what an insert says, who reads, who appends, who changes and removes.
const TABLES: [(&str, &str, &str, Allowed, Allowed, Allowed); 5] = [
    (
        "payment_outbox_pending",
        "payload",
        "(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
            VALUES (gen_random_uuid(), 'i', 'other', 1, 'other', 'wire', '{}')",
        ALL_WHO_SEE_ROWS,
        CONTROL_ALONE,
        CONTROL_ALONE,
    ),
    (
        "payment_outbox_attempts",
        "payload",
        "(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
            attempt_no, state)
            VALUES (gen_random_uuid(), 'i', 'other', 1, 'other', 'wire', '{}', 1, 'FAILED')",
        ALL_WHO_SEE_ROWS,
        CONTROL_ALONE,
        NOBODY,
    ),
    (
        "participant_outbox_sequences",
        "next_sequence_id",
        "(participant_id, next_sequence_id) VALUES ('other', 1)",
        CONTROL_ALONE,
        CONTROL_ALONE,
        CONTROL_ALONE,
    ),
    (
        "outbox_ordered_participants",
        "participant_id",
        "(participant_id) VALUES ('other')",
        CONTROL_ALONE,
        CONTROL_ALONE,
        CONTROL_ALONE,
    ),
    (
        "outbox_ordered_rails",
        "rail_type",
        "(rail_type) VALUES ('other')",
        CONTROL_ALONE,
        CONTROL_ALONE,
        CONTROL_ALONE,
    ),
];

const CHANGES: [&str; 13] = [
    "ALTER TABLE public.payment_outbox_attempts DISABLE TRIGGER ALL",
    "ALTER TABLE public.payment_outbox_attempts DISABLE TRIGGER trg_deny_outbox_attempts_mutation",
    "ALTER TABLE public.payment_outbox_pending DROP CONSTRAINT ck_pending_lease_consistency",
    "DROP TRIGGER trg_deny_outbox_attempts_mutation ON public.payment_outbox_attempts",
    "DROP TRIGGER trg_deny_outbox_attempts_truncate ON public.payment_outbox_attempts",
    "DROP INDEX public.payment_outbox_attempts_one_terminal_per_outbox",
    "DROP TABLE public.payment_outbox_attempts",
    "CREATE TRIGGER another BEFORE INSERT ON public.payment_outbox_attempts
        FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE OR REPLACE FUNCTION public.deny_outbox_attempts_mutation() RETURNS trigger
        LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TABLE public.another (n integer)",
    "CREATE FUNCTION public.another() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE VIEW public.another AS SELECT 1",
    "SET session_replication_role = replica",
];

async fn functions_are_called_by_those_they_are_for(scene: &Scene) {
    for name in EVERYBODY {
        let somebody = login(scene, name).await;
        for (call, allowed_end, allowed) in FUNCTIONS {
            let statement = format!("SELECT * FROM public.{call}");
            expect(&somebody, name, &statement, allowed_end, allowed).await;
        }
    }
}

async fn tables_are_read_and_written_by_those_they_are_for(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    for name in EVERYBODY {
        let somebody = login(scene, name).await;
        for (table, column, values, read, append, change) in TABLES {
            for (statement, allowed) in [
                (format!("SELECT {column} FROM public.{table}"), read),
                (format!("SELECT count(*) FROM public.{table}"), read),
                (format!("INSERT INTO public.{table} {values}"), append),
                (format!("UPDATE public.{table} SET {column} = {column}"), change),
                (format!("SELECT {column} FROM public.{table} FOR UPDATE"), change),
                (format!("DELETE FROM public.{table}"), change),
                (format!("TRUNCATE public.{table}"), change),
            ] {
                expect(&somebody, name, &statement, "00000", allowed).await;
            }
        }
        let view = "SELECT pending_count FROM public.supervisor_outbox_status";
        expect(&somebody, name, view, "00000", THOSE_WHO_LOOK).await;
    }
}

async fn nobody_changes_what_is_installed(scene: &Scene) {
    for name in EVERYBODY {
        let somebody = login(scene, name).await;
        for statement in CHANGES {
            expect(&somebody, name, statement, "00000", NOBODY).await;
        }
        expect(&somebody, name, "SET ROLE symphony_control", "00000", CONTROL_ALONE).await;
    }
}

/// A cascade asks for no right on what it takes along.
async fn not_even_symphony_control_removes_the_guard_of_the_attempts(scene: &Scene) {
    let control = scene.member_of(CONTROL).await;
    let drop = "DROP FUNCTION public.deny_outbox_attempts_mutation() CASCADE";
    expect(&control, CONTROL, drop, "00000", NOBODY).await;
}

async fn attempts_are_append_only_even_for_a_superuser(scene: &Scene) {
    enqueue(&scene.admin, "p", "k").await;
    let claim = claim_only(&scene.admin, "w").await;
    complete(&scene.admin, &claim, "DISPATCHED").await.unwrap();
    for role in ["origin", "replica"] {
        let set = format!("SET session_replication_role = {role}");
        scene.admin.batch_execute(&set).await.unwrap();
        for statement in [
            "UPDATE payment_outbox_attempts SET payload = payload",
            "DELETE FROM payment_outbox_attempts",
            "TRUNCATE payment_outbox_attempts",
            "TRUNCATE payment_outbox_attempts, payment_outbox_pending CASCADE",
            "INSERT INTO payment_outbox_attempts SELECT * FROM payment_outbox_attempts
                ON CONFLICT (outbox_id, attempt_no) DO UPDATE SET state = 'FAILED'",
            "MERGE INTO payment_outbox_attempts AS a USING payment_outbox_attempts AS b
                ON a.attempt_id = b.attempt_id WHEN MATCHED THEN DELETE",
        ] {
            assert_eq!(tried(&scene.admin, statement).await, "P0001", "{role}: {statement}");
        }
    }
    assert_eq!(scene.attempts_at(claim.outbox_id).await, ["1 DISPATCHED"]);
}

async fn login(scene: &Scene, name: &str) -> Session {
    if name == PASSER_BY { scene.login(name, "").await } else { scene.member_of(name).await }
}

async fn expect(client: &Client, name: &str, statement: &str, allowed_end: &str, allowed: Allowed) {
    let end = if allowed.contains(&name) { allowed_end } else { "42501" };
    assert_eq!(tried(client, statement).await, end, "{name}: {statement}");
}

/// How it ends, and as if it had not been.
async fn tried(client: &Client, statement: &str) -> String {
    client.batch_execute("BEGIN").await.unwrap();
    let answer = client.batch_execute(statement).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    ended(&answer).to_owned()
}
