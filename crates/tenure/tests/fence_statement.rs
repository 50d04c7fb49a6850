//! Fenced writes of one statement, on a real Postgres.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, FenceError, FencedStatement, PostgresFence, Raised},
    lock::{
        Acquire, Lock,
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::migrate;
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio_postgres::{Client, error::SqlState, types::Type};

const ADD: &str = "UPDATE accounts\n   SET balance = balance + 1\n   WHERE id = $4";

struct Scene {
    postgres: Postgres,
    client: Client,
    fence: PostgresFence,
    lock: PostgresLease,
    term: Term,
}

/// Somebody leads in a scope of a database with one account.
async fn scene() -> Scene {
    let postgres = Postgres::start().await.unwrap();
    let mut client = postgres.connect().await.unwrap();
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await.unwrap();
    let accounts = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
                    INSERT INTO accounts VALUES (7, 0)";
    client.batch_execute(accounts).await.unwrap();
    let timing = Timing::lease(secs(60)).build().unwrap();
    let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new("one").unwrap());
    let url: tenure_database::postgres::PostgresUrl = postgres.url().parse().unwrap();
    let table = LeaseTable::default();
    let mut lock = PostgresLease::new(url.clone(), table, candidate.clone(), timing).unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    let term = Term::granted(candidate.scope, candidate.holder, grant.epoch);
    let fence = PostgresFence::new(url, timing);
    assert_eq!(fence.raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
    Scene { postgres, client, fence, lock, term }
}

impl Scene {
    async fn balance(&self) -> i64 {
        let balance = "SELECT balance FROM accounts WHERE id = 7";
        self.client.query_one(balance, &[]).await.unwrap().get(0)
    }

    fn next_term(&self) -> Term {
        let holder = HolderId::new("two").unwrap();
        Term::granted(self.term.scope().clone(), holder, self.term.epoch().next())
    }

    async fn lease_ends(&self) {
        let end = "UPDATE tenure_leases SET expires_at = clock_timestamp()";
        self.client.execute(end, &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_current_term_writes_and_a_row_that_is_not_there_is_no_refusal() {
    let scene = scene().await;
    let add = FencedStatement::prepare(&scene.client, scene.term.scope(), ADD).await.unwrap();
    assert_eq!(add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap(), 1);
    assert_eq!(add.execute(&scene.client, &scene.term, &[&8_i64]).await.unwrap(), 0);
    assert_eq!(scene.balance().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_a_superseded_and_an_unknown_term_are_refused_and_write_nothing() {
    let scene = scene().await;
    let add = FencedStatement::prepare(&scene.client, scene.term.scope(), ADD).await.unwrap();
    let unknown =
        Term::granted(Scope::new("x").unwrap(), scene.term.holder().clone(), Epoch::new(1));
    let refused = add.execute(&scene.client, &unknown, &[&7_i64]).await.unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    scene.lease_ends().await;
    let refused = add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("expired"), "{refused}");
    let raised = scene.fence.raise(&scene.next_term(), &scene.lock.place()).await.unwrap();
    assert_eq!(raised, Raised::Raised);
    let refused = add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap_err();
    assert!(
        matches!(refused, FenceError::Refused { fence, .. } if fence == scene.next_term().epoch())
    );
    let nothing = add.execute(&scene.client, &scene.term, &[&8_i64]).await.unwrap_err();
    assert!(nothing.is_refusal(), "refused also where it would write no row: {nothing}");
    assert_eq!(scene.balance().await, 0);
}

/// The statement is stopped between passing the fence and committing; the takeover waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_waits_for_a_statement_that_has_passed_the_fence() {
    let scene = scene().await;
    let blocker = scene.postgres.connect().await.unwrap();
    blocker.batch_execute("BEGIN; SELECT 1 FROM accounts WHERE id = 7 FOR UPDATE").await.unwrap();
    let writer = scene.postgres.connect().await.unwrap();
    let term = scene.term.clone();
    let writing = tokio::spawn(async move {
        let add = FencedStatement::prepare(&writer, term.scope(), ADD).await.unwrap();
        add.execute(&writer, &term, &[&7_i64]).await
    });
    let waiting = async |count: i64| {
        let query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        scene.client.query_one(query, &[]).await.unwrap().get::<_, i64>(0) == count
    };
    eventually_true("the write waits for the account", secs(10), async || waiting(1).await).await;
    let (next, place) = (scene.next_term(), scene.lock.place());
    let raising = scene.fence.raise(&next, &place);
    let go_on = async {
        eventually_true("the takeover waits for the write", secs(2), async || waiting(2).await)
            .await;
        blocker.batch_execute("COMMIT").await.unwrap();
    };
    let (raised, ()) = tokio::join!(raising, go_on);
    assert_eq!((raised.unwrap(), writing.await.unwrap().unwrap()), (Raised::Raised, 1));
    assert_eq!(scene.balance().await, 1, "ordered before the takeover");
}

/// Whatever the text of the write says, a term that is over cannot get it committed.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_gets_past_the_fence_however_it_is_written() {
    let scene = scene().await;
    let raised = scene.fence.raise(&scene.next_term(), &scene.lock.place()).await.unwrap();
    assert_eq!(raised, Raised::Raised);
    for write in [
        "UPDATE accounts SET balance = 9 WHERE id = $4",
        "UPDATE accounts AS fence SET balance = 9 FROM accounts AS written WHERE fence.id = $4",
        "UPDATE accounts SET balance = 9 WHERE id = $4 OR true -- ",
        "INSERT INTO accounts VALUES ($4::bigint + 1, 9)",
        "DELETE FROM accounts WHERE id = $4",
        "UPDATE accounts SET balance = 9 WHERE id = $4 RETURNING 1), more AS (DELETE FROM accounts",
    ] {
        let fenced =
            FencedStatement::prepare(&scene.client, scene.term.scope(), write).await.unwrap();
        let refused = fenced.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap_err();
        assert!(refused.is_refusal(), "{write}: {refused}");
        assert_eq!(scene.balance().await, 0, "{write}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_lock_a_slot_cannot_change_what_it_says() {
    let scene = scene().await;
    scene.client.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    scene.client.batch_execute(&schema::grants_to("app")).await.unwrap();
    scene.client.batch_execute("GRANT SELECT, UPDATE ON accounts TO app").await.unwrap();
    let app = scene.postgres.connect_as("app").await.unwrap();
    let add = FencedStatement::prepare(&app, scene.term.scope(), ADD).await.unwrap();
    assert_eq!(add.execute(&app, &scene.term, &[&7_i64]).await.unwrap(), 1);
    for forbidden in [
        "UPDATE tenure_fence_slots SET epoch = epoch + 1",
        "UPDATE tenure_fence_slots SET holder = 'app'",
        "DELETE FROM tenure_fence_slots",
        "INSERT INTO tenure_fence_slots SELECT * FROM tenure_fence_slots",
    ] {
        let denied = app.execute(forbidden, &[]).await.unwrap_err();
        assert_eq!(denied.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{forbidden}");
    }
    let epoch = "SELECT epoch FROM tenure_fences WHERE scope = 'jobs'";
    let epoch: i64 = scene.client.query_one(epoch, &[]).await.unwrap().get(0);
    assert_eq!(epoch, scene.term.epoch().get());
}

/// How often this server has called the function, which costs more than all else.
async fn calls(client: &Client) -> i64 {
    let flush = "SELECT pg_stat_force_next_flush()";
    client.batch_execute(flush).await.unwrap();
    let calls = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions
                 WHERE funcname = 'tenure_fence'";
    client.query_one(calls, &[]).await.unwrap().get(0)
}

/// Every kind of lock that the fence knows is looked at in the statement itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_may_write_needs_no_function_whatever_its_lock() {
    let scene = scene().await;
    let epoch = scene.term.epoch().get();
    scene.client.batch_execute("SET track_functions = 'all'").await.unwrap();
    let by_hand = "SELECT tenure_fence('jobs', 'one', $1)";
    scene.client.query_typed(by_hand, &[(&epoch, Type::INT8)]).await.unwrap();
    assert_eq!(calls(&scene.client).await, 1, "a call is counted");
    let leases = "SELECT tenure_create_lease_table('my_leases');
                  INSERT INTO my_leases SELECT * FROM tenure_leases";
    scene.client.batch_execute(leases).await.unwrap();
    let state =
        "INSERT INTO msp_leader_state (scope_key, epoch, holder_identity) VALUES (42, $1, 'one')";
    scene.client.execute(state, &[&epoch]).await.unwrap();
    for (kind, place, end) in [
        ("postgres-lease", "tenure_leases", "UPDATE tenure_leases SET expires_at = now()"),
        ("postgres-lease", "my_leases", "UPDATE my_leases SET expires_at = now()"),
        ("postgres-advisory", "42", "UPDATE msp_leader_state SET last_heartbeat = '-infinity'"),
        ("etcd", "somewhere", "UPDATE tenure_fences SET epoch = epoch + 1"),
    ] {
        let switch = "UPDATE tenure_fences SET lock_kind = $1, lock_place = $2";
        scene.client.execute(switch, &[&kind, &place]).await.unwrap();
        let add = FencedStatement::prepare(&scene.client, scene.term.scope(), ADD).await.unwrap();
        assert_eq!(add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap(), 1, "{kind}");
        assert_eq!(calls(&scene.client).await, 1, "{kind} {place}");
        scene.client.batch_execute(end).await.unwrap();
        let refused = add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap_err();
        assert!(refused.is_refusal(), "{kind} {place}: {refused}");
    }
    assert_eq!(scene.balance().await, 4);
}

/// Prepared for one lock, or before there was any, a statement still serves the lock that there is.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_outlives_a_switch_of_the_lock() {
    let scene = scene().await;
    let too_early = Scope::new("nobody-yet").unwrap();
    let switch = "UPDATE tenure_fences SET lock_kind = 'etcd', lock_place = 'somewhere'";
    let mut prepared =
        vec![FencedStatement::prepare(&scene.client, &too_early, ADD).await.unwrap()];
    prepared.push(FencedStatement::prepare(&scene.client, scene.term.scope(), ADD).await.unwrap());
    scene.client.batch_execute(switch).await.unwrap();
    prepared.push(FencedStatement::prepare(&scene.client, scene.term.scope(), ADD).await.unwrap());
    let back =
        "UPDATE tenure_fences SET lock_kind = 'postgres-lease', lock_place = 'tenure_leases'";
    for place in [switch, back] {
        scene.client.batch_execute(place).await.unwrap();
        for add in &prepared {
            assert_eq!(add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap(), 1);
        }
    }
    scene.lease_ends().await;
    for add in &prepared {
        let refused = add.execute(&scene.client, &scene.term, &[&7_i64]).await.unwrap_err();
        assert!(refused.is_refusal(), "{refused}");
    }
    assert_eq!(scene.balance().await, 6);
}
