//! What a role can do with grant.sql, and what it cannot.

use tenure::{
    Epoch,
    fence::{Fence, PostgresFence, Raised, postgres},
    lock::{
        Acquire, Lock, Renew,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::postgres::PostgresUrl;
use tokio_postgres::Client;

use crate::server::{PAY, Server, attempt, candidate, lease_rows, term, won};

const DENIED: &str = "42501";

/// A server with a clerk, who has what grant.sql gives and may pay orders.
async fn with_a_clerk() -> (Server, PostgresUrl, Client) {
    let server = Server::start().await;
    let session = server.session().await;
    let role = "CREATE ROLE clerk LOGIN; GRANT SELECT, UPDATE ON orders TO clerk";
    session.batch_execute(role).await.expect("a role");
    session.batch_execute(&schema::grants_to("clerk")).await.expect("grants");
    let url = server.postgres.url_as("clerk", "postgres").parse().expect("a URL");
    let clerk = server.postgres.connect_as("clerk").await.expect("a session");
    (server, url, clerk)
}

#[tokio::test]
async fn a_role_with_the_grants_wins_raises_writes_and_ends_a_term() {
    let (server, url, mut clerk) = with_a_clerk().await;
    let table = LeaseTable::default();
    let mut lease =
        PostgresLease::new(url.clone(), table, candidate("billing", "a"), server.timing).unwrap();
    let term = won(&mut lease, "a").await;
    let fence = PostgresFence::new(url, server.timing);
    assert_eq!(fence.raise(&term, &lease_rows()).await.unwrap(), Raised::Raised);
    assert!(matches!(lease.renew(term.epoch()).await.unwrap(), Renew::Renewed { .. }));

    let fenced = postgres::begin(&mut clerk, &term).await.unwrap();
    fenced.batch_execute(PAY).await.unwrap();
    fenced.commit().await.unwrap();
    assert_eq!(server.order().await, "paid");

    lease.release(term.epoch()).await.unwrap();
    fence.end_term(&term, "released").await.unwrap();
}

#[tokio::test]
async fn a_role_with_the_grants_holds_an_advisory_lock() {
    let (server, url, mut clerk) = with_a_clerk().await;
    let mut lock = PostgresAdvisory::new(
        AdvisorySettings::at(url.clone()),
        candidate("billing", "a"),
        server.timing,
    )
    .unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    let term = term("a", grant.epoch.get());
    let fence = PostgresFence::new(url, server.timing);
    assert_eq!(fence.raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
    assert!(matches!(lock.renew(term.epoch()).await.unwrap(), Renew::Renewed { .. }));
    postgres::begin(&mut clerk, &term).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_role_with_the_grants_cannot_change_the_fence_or_the_history() {
    let (server, _, clerk) = with_a_clerk().await;
    server.lead("a").await;
    let tables = [
        "tenure_fences",
        "tenure_terms",
        "tenure_lease_tables",
        "tenure_migrations",
        "tenure_drains",
    ];
    for table in tables {
        for statement in [
            format!("INSERT INTO {table} SELECT (t).* FROM {table} AS t"),
            format!("UPDATE {table} SET {} = NULL", first_column(table)),
            format!("DELETE FROM {table}"),
            format!("TRUNCATE {table}"),
            format!("SELECT FROM {table} FOR UPDATE"),
            format!("SELECT FROM {table} FOR SHARE"),
            format!("DROP TABLE {table}"),
            format!("ALTER TABLE {table} DISABLE TRIGGER ALL"),
        ] {
            assert_eq!(attempt(&clerk, &statement).await, Err(DENIED.to_owned()), "{statement}");
        }
    }
    for statement in [
        "INSERT INTO tenure_fence_slots SELECT (s).* FROM tenure_fence_slots AS s",
        "UPDATE tenure_fence_slots SET epoch = 9",
        "UPDATE tenure_fence_slots SET holder = 'clerk'",
        "UPDATE tenure_fence_slots SET lock_kind = 'etcd'",
        "DELETE FROM tenure_fence_slots",
        "TRUNCATE tenure_fence_slots",
        "DROP TABLE tenure_fence_slots",
        "ALTER TABLE tenure_fence_slots DISABLE TRIGGER ALL",
        "DELETE FROM tenure_leases",
        "TRUNCATE tenure_leases",
        "DROP TABLE tenure_leases",
        "INSERT INTO msp_leader_state (scope_key, epoch, holder_identity) VALUES (1, 1, 'a')",
        "DELETE FROM msp_leader_state",
        "TRUNCATE msp_leader_state",
        "ALTER TABLE msp_leader_state DISABLE TRIGGER msp_leader_state_notify",
    ] {
        assert_eq!(attempt(&clerk, statement).await, Err(DENIED.to_owned()), "{statement}");
    }
    assert_eq!(server.fence_row().await, (1, "a".to_owned()));
}

fn first_column(table: &str) -> &'static str {
    match table {
        "tenure_lease_tables" => "name",
        "tenure_migrations" => "component",
        _ => "scope",
    }
}

#[tokio::test]
async fn a_role_with_the_grants_cannot_call_what_is_for_the_operator() {
    let (server, _, clerk) = with_a_clerk().await;
    server.lead("a").await;
    for call in [
        "tenure_begin_term('billing', 'a', 2, 'etcd')",
        "tenure_burn_epochs('billing', 1)",
        "tenure_switch_lock('billing')",
        "tenure_create_lease_table('mine')",
        "tenure_fence_of_other_lock('billing', 'a', 1)",
        "tenure_refuse('billing', 'a', 1, 2, 'spite')",
    ] {
        assert_eq!(
            attempt(&clerk, &format!("SELECT {call}")).await,
            Err(DENIED.to_owned()),
            "{call}"
        );
    }
    let callable = "SELECT proname::text FROM pg_proc
         WHERE proname LIKE 'tenure%' AND prorettype <> 'trigger'::regtype
         AND has_function_privilege(oid, 'EXECUTE') ORDER BY proname";
    let callable = clerk.query(callable, &[]).await.unwrap();
    let callable: Vec<&str> = callable.iter().map(|row| row.get(0)).collect();
    let for_everybody_who_leads = [
        "tenure_create_advisory_scope",
        "tenure_drain",
        "tenure_end_drain",
        "tenure_end_term",
        "tenure_fence",
        "tenure_fence_slot",
        "tenure_highest_epoch",
        "tenure_raise_fence",
        "tenure_server_identity",
    ];
    assert_eq!(callable, for_everybody_who_leads);
}

#[tokio::test]
async fn a_role_without_the_grants_can_call_nothing() {
    let server = Server::start().await;
    server.lead("a").await;
    server.session().await.batch_execute("CREATE ROLE stranger LOGIN").await.unwrap();
    let stranger = server.postgres.connect_as("stranger").await.unwrap();
    for call in [
        "tenure_fence('billing', 'a', 1)",
        "tenure_raise_fence('billing', 'b', 2, 'postgres-lease', 'tenure_leases', 1000)",
        "tenure_end_term('billing', 'a', 1, 'spite')",
    ] {
        assert_eq!(
            attempt(&stranger, &format!("SELECT {call}")).await,
            Err(DENIED.to_owned()),
            "{call}"
        );
    }
    let query = "SELECT proname::text FROM pg_proc
         WHERE proname LIKE 'tenure%' AND prorettype <> 'trigger'::regtype
         AND has_function_privilege(oid, 'EXECUTE')";
    let callable = stranger.query(query, &[]).await.unwrap();
    assert!(callable.is_empty(), "{callable:?}");
    let query = "SELECT relname::text FROM pg_class
         WHERE relkind = 'r' AND (relname LIKE 'tenure%' OR relname LIKE 'msp%')
         AND has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')";
    let readable = stranger.query(query, &[]).await.unwrap();
    assert!(readable.is_empty(), "{readable:?}");
}

/// What a role may do, one line for each right.
const RIGHTS: &str = "SELECT p.oid::regprocedure::text || ' EXECUTE'
     FROM pg_proc AS p
     WHERE p.proname LIKE 'tenure%' AND has_function_privilege($1::name, p.oid, 'EXECUTE')
     UNION ALL
     SELECT c.oid::regclass::text || '.' || a.attname || ' ' || kind
     FROM pg_class AS c
     JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
     CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS kind
     WHERE c.relkind = 'r' AND (c.relname LIKE 'tenure%' OR c.relname LIKE 'msp%')
       AND has_column_privilege($1::name, c.oid, a.attnum, kind)
     UNION ALL
     SELECT c.oid::regclass::text || ' ' || kind
     FROM pg_class AS c
     CROSS JOIN unnest(ARRAY['DELETE', 'TRUNCATE', 'TRIGGER']) AS kind
     WHERE c.relkind = 'r' AND (c.relname LIKE 'tenure%' OR c.relname LIKE 'msp%')
       AND has_table_privilege($1::name, c.oid, kind)
     ORDER BY 1";

async fn rights(session: &Client, role: &str) -> Vec<String> {
    let rows = session.query(RIGHTS, &[&role]).await.expect("the rights");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Each gets what the clerk has, whatever its name would be if it were a statement.
#[tokio::test]
async fn the_grants_fit_a_role_with_any_name() {
    let (server, _, _) = with_a_clerk().await;
    let session = server.session().await;
    let expected = rights(&session, "clerk").await;
    assert!(
        expected.contains(&"tenure_fence(text,text,bigint) EXECUTE".to_owned()),
        "{expected:?}"
    );
    for name in [r#"O"Brien; --"#, "it's $$me$$ /*", "{role}", "SELECT", "Clerk ", "Müller"] {
        let create = format!(r#"CREATE ROLE "{}""#, name.replace('"', r#""""#));
        session.batch_execute(&create).await.unwrap();
        assert_ne!(rights(&session, name).await, expected, "{name} had them before");
        session.batch_execute(&schema::grants_to(name)).await.unwrap();
        assert_eq!(rights(&session, name).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_callers_search_path_does_not_reach_into_the_fence() {
    let (server, _, clerk) = with_a_clerk().await;
    let old = server.lead("a").await;
    server.lead("b").await;
    let decoys = "CREATE TEMPORARY TABLE tenure_fences AS
             SELECT 'billing' AS scope, slot::smallint, 1::bigint AS epoch, 'a' AS holder,
                    'postgres-lease' AS lock_kind, 'tenure_leases' AS lock_place, 1000::bigint AS margin_ms
             FROM generate_series(0, 31) AS slot;
         CREATE TEMPORARY TABLE tenure_fence_slots AS TABLE tenure_fences;
         CREATE TEMPORARY TABLE tenure_leases AS
             SELECT 'billing' AS lease_name, 'a' AS holder_id, 1::bigint AS lease_epoch,
                    'infinity'::timestamptz AS expires_at;
         SET search_path = pg_temp, public";
    clerk.batch_execute(decoys).await.unwrap();
    let call = format!("SELECT public.tenure_fence('billing', 'a', {})", old.epoch());
    assert_eq!(attempt(&clerk, &call).await, crate::server::over());
}

/// Name, definer's rights, volatility, whether a null skips it, settings.
const FUNCTIONS: &str = "SELECT format('%s %s %s %s %s', proname,
         CASE WHEN prosecdef THEN 'definer' ELSE 'invoker' END,
         CASE provolatile WHEN 'v' THEN 'volatile' WHEN 's' THEN 'stable' ELSE 'immutable' END,
         CASE WHEN proisstrict THEN 'STRICT' ELSE 'takes-nulls' END,
         coalesce(array_to_string(proconfig, ' '), '-'))
     FROM pg_proc WHERE proname LIKE 'tenure%' ORDER BY proname";

#[tokio::test]
async fn functions_run_with_the_rights_and_the_search_path_that_are_meant() {
    let server = Server::start().await;
    let rows = server.session().await.query(FUNCTIONS, &[]).await.unwrap();
    let functions: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let fixed = "search_path=pg_catalog, public, pg_temp";
    let expected = [
        format!("tenure_begin_term invoker volatile takes-nulls {fixed}"),
        format!("tenure_burn_epochs invoker volatile takes-nulls {fixed}"),
        format!("tenure_create_advisory_scope definer volatile takes-nulls {fixed}"),
        "tenure_create_lease_table invoker volatile takes-nulls \
         search_path=public, pg_catalog, pg_temp"
            .to_owned(),
        format!("tenure_drain definer volatile takes-nulls {fixed}"),
        format!("tenure_end_drain definer volatile takes-nulls {fixed}"),
        format!("tenure_end_term definer volatile takes-nulls {fixed}"),
        format!("tenure_fence definer volatile takes-nulls {fixed}"),
        format!("tenure_fence_of_other_lock invoker volatile takes-nulls {fixed}"),
        "tenure_fence_slot invoker stable takes-nulls -".to_owned(),
        format!("tenure_fill_fence_slots invoker volatile takes-nulls {fixed}"),
        format!("tenure_highest_epoch definer stable takes-nulls {fixed}"),
        format!(
            "tenure_raise_fence definer volatile takes-nulls {fixed} \
             plan_cache_mode=force_generic_plan"
        ),
        format!("tenure_refuse invoker volatile takes-nulls {fixed}"),
        format!("tenure_require_fence invoker volatile takes-nulls {fixed}"),
        format!("tenure_server_identity definer volatile takes-nulls {fixed}"),
        format!("tenure_switch_lock invoker volatile takes-nulls {fixed}"),
    ];
    assert_eq!(functions, expected);
}
