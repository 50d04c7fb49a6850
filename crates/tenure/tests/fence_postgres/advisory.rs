//! The advisory lock's row: what the fence reads of it, and what an older client still can do with it.

use std::time::SystemTime;

use tenure::{
    Epoch, Term, Timing,
    fence::{Fence, PostgresFence, Raised},
    lock::{
        Acquire, Lock, Renew,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
    },
    schema,
};
use tenure_database::{Deadline, migrate, postgres::Session};
use tenure_testkit::{postgres::Postgres, secs};

use crate::server::{PAY, SCOPE, Server, attempt, candidate, fence_call, over, term};

/// The table, the row and the trigger as an older client made them.
const OLDER_SCHEMA: &str = "
    CREATE TABLE msp_leader_state (
      id                SMALLINT PRIMARY KEY DEFAULT 1,
      scope_key         BIGINT NOT NULL,
      epoch             BIGINT NOT NULL,
      holder_identity   TEXT   NOT NULL,
      last_heartbeat    TIMESTAMPTZ NOT NULL DEFAULT now()
    );
    INSERT INTO msp_leader_state VALUES (1, 906850720199613079, 7, 'older', now());
    CREATE FUNCTION msp_leader_notify() RETURNS trigger AS $$
    BEGIN
      PERFORM pg_notify('msp_leader_change', NEW.holder_identity || ':' || NEW.epoch);
      RETURN NEW;
    END;
    $$ LANGUAGE plpgsql;
    CREATE TRIGGER msp_leader_state_notify
    AFTER UPDATE ON msp_leader_state
    FOR EACH ROW EXECUTE FUNCTION msp_leader_notify()";

const OLDER_BUMP: &str = "UPDATE msp_leader_state
     SET epoch = epoch + 1, holder_identity = 'x', last_heartbeat = now()
     WHERE id = 1 AND scope_key = 906850720199613079 RETURNING epoch";
const OLDER_HEARTBEAT: &str = "UPDATE msp_leader_state SET last_heartbeat = now() WHERE id = 1";

/// A server that an older client has used, after migrating.
async fn converted() -> Server {
    let postgres = Postgres::start().await.expect("a server");
    let mut session = postgres.connect().await.expect("a session");
    session.batch_execute(OLDER_SCHEMA).await.expect("the older schema");
    migrate::postgres::migrate(&mut session, schema::COMPONENT, &schema::POSTGRES)
        .await
        .expect("the schema");
    Server { postgres, timing: heartbeats() }
}

fn heartbeats() -> Timing {
    Timing::heartbeat(secs(20), secs(40)).call_timeout(secs(15)).build().expect("heartbeats")
}

fn lock(server: &Server, holder: &str) -> PostgresAdvisory {
    let settings = AdvisorySettings::at(server.url());
    PostgresAdvisory::new(settings, candidate(SCOPE, holder), heartbeats()).expect("a lock")
}

async fn lead(server: &Server, lock: &mut PostgresAdvisory, holder: &str) -> Term {
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.expect("an answer") else {
        panic!("held");
    };
    let term = term(holder, grant.epoch.get());
    let fence = PostgresFence::new(server.url(), heartbeats());
    assert_eq!(fence.raise(&term, &lock.place()).await.expect("an answer"), Raised::Raised);
    term
}

#[tokio::test]
async fn a_holder_whose_heartbeat_is_later_than_its_threshold_cannot_write() {
    let server = Server::start().await;
    let mut lock = lock(&server, "a");
    let term = lead(&server, &mut lock, "a").await;
    let session = server.session().await;
    let write = format!("BEGIN; {}; {PAY}; COMMIT", fence_call(&term));
    assert_eq!(attempt(&session, &write).await, Ok(()));

    let silence = |seconds: i64| {
        format!(
            "UPDATE msp_leader_state SET last_heartbeat = clock_timestamp() - interval '{seconds} s'"
        )
    };
    session.batch_execute(&silence(41)).await.unwrap();
    assert_eq!(attempt(&session, &write).await, over(), "later than 40 s");
    session.batch_execute(&silence(20)).await.unwrap();
    assert_eq!(attempt(&session, &write).await, Ok(()), "late, and not too late");
    session.batch_execute(&silence(41)).await.unwrap();
    assert!(matches!(lock.renew(term.epoch()).await.unwrap(), Renew::Renewed { .. }));
    assert_eq!(attempt(&session, &write).await, Ok(()), "proven again");
}

#[tokio::test]
async fn a_holder_that_the_advisory_row_does_not_name_cannot_write() {
    let server = Server::start().await;
    let mut first = lock(&server, "a");
    let old = lead(&server, &mut first, "a").await;
    first.release(old.epoch()).await.unwrap();
    let Acquire::Granted(_) = lock(&server, "b").acquire(Epoch::ZERO).await.unwrap() else {
        panic!("held")
    };
    // The fence still names the old term: only the lock's row speaks for the new one.
    assert_eq!(server.fence_row().await, (1, "a".to_owned()));
    assert_eq!(attempt(&server.session().await, &fence_call(&old)).await, over());
}

#[tokio::test]
async fn a_table_with_the_older_key_is_converted_and_keeps_its_row() {
    let server = converted().await;
    let session = server.session().await;
    let query =
        "SELECT format('%s %s %s %s', id, scope_key, epoch, holder_identity) FROM msp_leader_state";
    let rows = session.query(query, &[]).await.unwrap();
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, ["1 906850720199613079 7 older"]);
    let query = "SELECT pg_get_constraintdef(oid) FROM pg_constraint
         WHERE conrelid = 'msp_leader_state'::regclass AND contype IN ('p', 'u')";
    let keys = session.query(query, &[]).await.unwrap();
    let keys: Vec<String> = keys.iter().map(|row| row.get(0)).collect();
    assert_eq!(keys, ["PRIMARY KEY (scope_key, id)"]);
}

#[tokio::test]
async fn a_converted_row_is_led_on_with_the_next_epoch() {
    let server = converted().await;
    let term = lead(&server, &mut lock(&server, "a"), "a").await;
    assert_eq!(term.epoch().get(), 8);
}

#[tokio::test]
async fn one_database_holds_many_scopes_after_the_conversion() {
    let server = converted().await;
    let mut other = PostgresAdvisory::new(
        AdvisorySettings::at(server.url()),
        candidate("shipping", "a"),
        heartbeats(),
    )
    .unwrap();
    let answer = other.acquire(Epoch::ZERO).await.unwrap();
    assert!(matches!(answer, Acquire::Granted(grant) if grant.epoch.get() == 1));
}

#[tokio::test]
async fn an_older_clients_statements_still_work() {
    let server = converted().await;
    let session = server.session().await;
    for epoch in [8_i64, 9] {
        let bumped = session.query(OLDER_BUMP, &[]).await.unwrap();
        assert_eq!(bumped.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [epoch]);
    }
    let moment =
        async |query: &str| -> SystemTime { session.query_one(query, &[]).await.unwrap().get(0) };
    let before = moment("SELECT clock_timestamp()").await;
    assert!(moment("SELECT last_heartbeat FROM msp_leader_state").await < before);
    assert_eq!(session.execute(OLDER_HEARTBEAT, &[]).await.unwrap(), 1);
    assert!(moment("SELECT last_heartbeat FROM msp_leader_state").await >= before);
}

#[tokio::test]
async fn a_transition_is_told_once_and_a_heartbeat_never() {
    let server = converted().await;
    let mut listener: Session = server.url().connect(Deadline::after(secs(10))).await.unwrap();
    listener.batch_execute("LISTEN msp_leader_change; LISTEN done").await.unwrap();

    let session = server.session().await;
    session.batch_execute(OLDER_HEARTBEAT).await.unwrap();
    session.batch_execute(OLDER_BUMP).await.unwrap();
    session.batch_execute(OLDER_HEARTBEAT).await.unwrap();
    session.batch_execute(OLDER_BUMP).await.unwrap();
    let mut lock = lock(&server, "a");
    let term = lead(&server, &mut lock, "a").await;
    for _ in 0..3 {
        assert!(matches!(lock.renew(term.epoch()).await.unwrap(), Renew::Renewed { .. }));
    }
    lock.release(term.epoch()).await.unwrap();
    session.batch_execute("NOTIFY done").await.unwrap();

    let told = async {
        let mut told = Vec::new();
        loop {
            match listener.notification().await.expect("the session lives") {
                news if news.channel() == "done" => return told,
                news => told.push(news.payload().to_owned()),
            }
        }
    };
    let told = tokio::select! {
        told = told => told,
        () = tokio::time::sleep(secs(10)) => panic!("the end was not told"),
    };
    assert_eq!(told, ["x:8", "x:9", "a:10"]);
}
