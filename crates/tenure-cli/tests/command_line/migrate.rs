//! `tenure migrate`: once, at once, again, and as an older binary.

use std::process::Child;

use tenure::schema;
use tenure_database::{DatabaseError, Deadline, postgres::PostgresUrl, sqlite};
use tenure_testkit::{eventually_true, postgres::Postgres, secs};

use crate::{
    leaders::{migrated_file, migrated_server},
    process::{Ran, Tenure},
};

const MIGRATION_LOCK: i64 = 8_387_231_331_756_892_013;

fn ended(children: Vec<Child>) -> Vec<String> {
    children.into_iter().map(|child| Ran::of(child).done()).collect()
}

fn count_applied(told: &[String]) -> usize {
    told.iter().filter(|told| told.starts_with("applied migration 1 of engine: ")).count()
}

/// Starts two processes that both wait for the migrations' lock, then lets them go.
async fn two_at_once(postgres: &Postgres, arguments: &str) -> Vec<String> {
    let client = postgres.connect().await.expect("a connection");
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await.expect("the lock");
    let both = (0..2).map(|_| Tenure::on(&postgres.url()).spawn(arguments)).collect();
    eventually_true("both wait", secs(20), async || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        client.query_one(waiting, &[]).await.is_ok_and(|row| row.get::<_, i64>(0) == 2)
    })
    .await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await.expect("a release");
    ended(both)
}

#[tokio::test]
async fn migrating_a_server_twice_is_harmless() {
    let postgres = Postgres::start().await.unwrap();
    let first = Tenure::on(&postgres.url()).run("migrate").done();
    let lines: Vec<_> = first.lines().collect();
    assert_eq!(lines[0], "applied migration 1 of engine: terms, fences and locks");
    assert_eq!(lines.len(), schema::POSTGRES.len());
    let second = Tenure::on(&postgres.url()).run("migrate").done();
    assert!(second.starts_with("nothing to do: postgres://postgres@127.0.0.1:"), "{second}");
}

#[test]
fn migrating_a_file_twice_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("app.db");
    let first = Tenure::on_file(&data).run("migrate").done();
    assert_eq!(first, "applied migration 1 of engine: terms and fences\n");
    let second = Tenure::on_file(&data).run("migrate").done();
    assert!(second.starts_with("nothing to do: sqlite:"), "{second}");
}

#[tokio::test]
async fn of_two_processes_that_migrate_a_fresh_server_at_once_one_applies_it() {
    let postgres = Postgres::start().await.unwrap();
    let told = two_at_once(&postgres, "migrate").await;
    assert_eq!(count_applied(&told), 1, "{told:?}");
}

#[tokio::test]
async fn two_processes_may_grant_to_one_role_at_once() {
    let postgres = migrated_server().await;
    postgres.connect().await.unwrap().batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    for told in two_at_once(&postgres, "migrate --grant-to app").await {
        assert!(told.contains("granted to app"), "{told}");
    }
}

#[test]
fn of_processes_that_migrate_a_fresh_file_at_once_one_applies_it() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("app.db");
        let told = ended((0..4).map(|_| Tenure::on_file(&data).spawn("migrate")).collect());
        assert_eq!(count_applied(&told), 1, "{told:?}");
    }
}

#[tokio::test]
async fn the_printed_script_does_on_a_server_what_migrate_does() {
    let postgres = Postgres::start().await.unwrap();
    let client = postgres.connect().await.unwrap();
    client.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    let tenure = || Tenure::on(&postgres.url()).env("PG_LISTEN_CHANNEL", "leaders");
    let script = tenure().run("migrate --print --grant-to app").done();
    assert!(tenure().run("status").failed().contains("tenure migrate"), "printing changes nothing");

    client.batch_execute(&script).await.unwrap();
    assert!(tenure().run("migrate").done().starts_with("nothing to do"));
    Tenure::on(&postgres.url_as("app", "postgres")).run("status").done();
    let told = tenure().run("migrate --with submissions").done();
    assert!(told.contains("applied migration 1 of submissions"), "{told}");
}

#[test]
fn the_printed_script_does_on_a_file_what_migrate_does() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("app.db");
    let script = Tenure::on_file(&data).run("migrate --with submissions --print").done();
    assert!(!data.exists(), "printing makes no file");

    sqlite::open(&data, secs(1)).unwrap().execute_batch(&script).unwrap();
    let again = Tenure::on_file(&data).run("migrate --with submissions").done();
    assert!(again.starts_with("nothing to do"), "{again}");
}

#[test]
fn a_script_is_printed_without_a_server() {
    let script = Tenure::on("postgres://me@127.0.0.1:1/app").run("migrate --print").done();
    assert!(script.contains("CREATE TABLE tenure_fences"));
    assert!(script.contains(&schema::POSTGRES[0].checksum()));
}

#[tokio::test]
async fn a_grant_to_a_role_that_is_not_there_leaves_the_migration_applied() {
    let postgres = Postgres::start().await.unwrap();
    let ran = Tenure::on(&postgres.url()).run("migrate --grant-to nobody");
    let applied = schema::POSTGRES.len();
    assert_eq!((ran.code, ran.stdout.lines().count()), (1, applied), "{ran:?}");
    assert!(ran.stderr.contains(r#"role "nobody" does not exist"#), "{ran:?}");
    Tenure::on(&postgres.url()).run("status").done();
}

#[test]
fn a_grant_is_refused_on_sqlite_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("app.db");
    let refused = Tenure::on_file(&data).run("migrate --grant-to app").misused();
    assert!(refused.contains("--grant-to app: SQLite has no roles"), "{refused}");
    assert!(!data.exists());
}

#[tokio::test]
async fn a_channel_of_ones_own_is_told_of_new_leaders() {
    let postgres = Postgres::start().await.unwrap();
    let channel = r"o'ps\leaders";
    let tenure = || Tenure::on(&postgres.url()).env("PG_LISTEN_CHANNEL", channel);
    let told = tenure().run("migrate").done();
    assert!(told.contains(channel), "{told}");
    assert!(tenure().run("migrate").done().starts_with("nothing to do"));
    // Who says nothing about the channel does not change it.
    assert!(Tenure::on(&postgres.url()).run("migrate").done().starts_with("nothing to do"));

    let url: PostgresUrl = postgres.url().parse().unwrap();
    let deadline = Deadline::after(secs(10));
    let mut listener = url.connect(deadline).await.unwrap();
    listener.batch_execute(&format!("LISTEN \"{channel}\"")).await.unwrap();
    let lead = "SELECT tenure_create_advisory_scope(7, 'jobs');
                UPDATE msp_leader_state SET holder_identity = 'node-a', epoch = 1";
    postgres.connect().await.unwrap().batch_execute(lead).await.unwrap();
    let heard = async { Ok::<_, DatabaseError>(listener.notification().await) };
    assert_eq!(deadline.run(heard).await.unwrap().unwrap().payload(), "node-a:1");
}

#[tokio::test]
async fn the_channel_can_be_set_back() {
    let postgres = migrated_server().await;
    let migrate =
        |channel| Tenure::on(&postgres.url()).env("PG_LISTEN_CHANNEL", channel).run("migrate");
    assert!(migrate("msp_leader_change").done().starts_with("nothing to do"));
    assert!(migrate("elsewhere").done().contains("channel elsewhere"));
    assert!(migrate("msp_leader_change").done().contains("channel msp_leader_change"));
}

#[test]
fn a_channel_that_postgres_would_refuse_at_the_next_takeover_is_refused_now() {
    let tenure =
        Tenure::on("postgres://me@127.0.0.1:1/app").env("PG_LISTEN_CHANNEL", &"c".repeat(64));
    let refused = tenure.run("migrate").misused();
    assert!(refused.contains("PG_LISTEN_CHANNEL") && refused.contains("64 bytes"), "{refused}");
}

const FROM_THE_FUTURE: &str =
    "INSERT INTO tenure_migrations (component, version, name, checksum, breaking)
                               VALUES ('engine', 99, 'terms in colour', '?', true)";
const HARMLESS: &str = "UPDATE tenure_migrations SET breaking = false WHERE version = 99";

fn refused_as_too_old(tenure: impl Fn() -> Tenure) {
    for command in ["migrate", "status", "scope switch-lock --scope jobs"] {
        let refused = tenure().run(command).failed();
        let wanted = ["too old", "migration 99 of engine", "terms in colour"];
        assert!(wanted.iter().all(|wanted| refused.contains(wanted)), "{command}: {refused}");
    }
}

fn only_warned(tenure: impl Fn() -> Tenure) {
    for (command, told) in [("migrate", "nothing to do"), ("status", "no scopes yet")] {
        let ran = tenure().run(command);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.starts_with(told), "{ran:?}");
        assert!(ran.stderr.contains("WARN") && ran.stderr.contains("newer tenure"), "{ran:?}");
    }
}

#[tokio::test]
async fn an_older_binary_refuses_a_server_after_a_breaking_migration_and_only_warns_after_another()
{
    let postgres = migrated_server().await;
    let client = postgres.connect().await.unwrap();
    client.batch_execute(FROM_THE_FUTURE).await.unwrap();
    refused_as_too_old(|| Tenure::on(&postgres.url()));
    client.batch_execute(HARMLESS).await.unwrap();
    only_warned(|| Tenure::on(&postgres.url()));
}

#[test]
fn an_older_binary_refuses_a_file_after_a_breaking_migration_and_only_warns_after_another() {
    let (_folder, data) = migrated_file();
    let file = sqlite::open(&data, secs(1)).unwrap();
    file.execute_batch(FROM_THE_FUTURE).unwrap();
    refused_as_too_old(|| Tenure::on_file(&data));
    file.execute_batch(HARMLESS).unwrap();
    only_warned(|| Tenure::on_file(&data));
}
