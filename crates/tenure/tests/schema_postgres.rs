//! The schema on Postgres: its migrations, and every statement that is sent to it.

use std::{fs, path::Path, process::Command};

use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{Fence, PostgresFence, Raised, postgres},
    lock::{
        Acquire, Lock, Renew,
        postgres_advisory::{AdvisorySettings, PostgresAdvisory},
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::migrate::{self, Migration, Standing};
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio_postgres::{Client, types::Type};

/// Taken by whoever migrates, see lock_migrations.sql.
const MIGRATION_LOCK: i64 = 8_387_231_331_756_892_013;

/// Statements that Postgres does not prepare.
const UNPREPARED: [&str; 2] = ["call/begin.sql", "lease/listen.sql"];

async fn migrate(client: &mut Client) -> Vec<Migration> {
    let migrated = migrate::postgres::migrate(client, schema::COMPONENT, &schema::POSTGRES).await;
    migrated.expect("the schema")
}

async fn migrated() -> (Postgres, Client) {
    let postgres = Postgres::start().await.expect("a server");
    let mut client = postgres.connect().await.expect("a session");
    migrate(&mut client).await;
    (postgres, client)
}

/// The schema as pg_dump writes it down, without what differs from one version of it to another.
async fn dump(postgres: &Postgres, client: &Client) -> String {
    let query = "SELECT setting || '/pg_dump' FROM pg_config WHERE name = 'BINDIR'";
    let program: String = client.query_one(query, &[]).await.expect("pg_dump").get(0);
    let mut dump = Command::new(program);
    dump.args(["--schema-only", "--no-owner", "--dbname", &postgres.url()]);
    let output = dump.output().expect("pg_dump starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let varies = ["--", "SET ", "SELECT pg_catalog.set_config", "\\restrict", "\\unrestrict"];
    let mut lines: Vec<_> =
        text.lines().filter(|line| !varies.iter().any(|start| line.starts_with(start))).collect();
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    lines.join("\n").trim().to_owned()
}

#[tokio::test]
async fn migrating_twice_is_harmless() {
    let (postgres, mut client) = migrated().await;
    let before = dump(&postgres, &client).await;
    assert_eq!(migrate(&mut client).await.len(), 0);
    assert_eq!(dump(&postgres, &client).await, before);
    let standing = migrate::postgres::standing(&client, schema::COMPONENT, &schema::POSTGRES).await;
    assert!(matches!(standing, Ok(Standing::Current)), "{standing:?}");
}

#[tokio::test]
async fn sessions_that_migrate_at_once_wait_for_each_other() {
    let postgres = Postgres::start().await.unwrap();
    let holder = postgres.connect().await.unwrap();
    holder.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await.unwrap();
    let mut migrating = Vec::new();
    for _ in 0..4 {
        let mut client = postgres.connect().await.unwrap();
        migrating.push(tokio::spawn(async move { migrate(&mut client).await.len() }));
    }
    eventually_true("all four wait", secs(10), async || {
        let query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        holder.query_one(query, &[]).await.is_ok_and(|row| row.get::<_, i64>(0) == 4)
    })
    .await;
    holder.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await.unwrap();

    let mut applied = 0;
    for migrating in migrating {
        applied += migrating.await.unwrap();
    }
    assert_eq!(applied, schema::POSTGRES.len(), "each migration once");
}

#[tokio::test]
async fn the_schema_is_the_golden_one() {
    let (postgres, client) = migrated().await;
    insta::assert_snapshot!("schema", dump(&postgres, &client).await);
}

#[tokio::test]
async fn every_statement_prepares() {
    let (_postgres, client) = migrated().await;
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/postgres");
    let (mut prepared, mut unprepared) = (0, Vec::new());
    for folder in ["advisory", "call", "fence", "lease"] {
        for file in fs::read_dir(sql.join(folder)).unwrap() {
            let file = file.unwrap();
            let name = format!("{folder}/{}", file.file_name().display());
            if UNPREPARED.contains(&name.as_str()) {
                unprepared.push(name);
                continue;
            }
            let text = fs::read_to_string(file.path()).unwrap();
            let statement = text.replace("{table}", "public.tenure_leases");
            let types = documented_types(&text);
            let answer = client.prepare_typed(&statement, &types).await;
            let answer = answer.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(answer.params(), types, "{name} documents its parameters");
            prepared += 1;
        }
    }
    unprepared.sort();
    assert_eq!(unprepared, UNPREPARED);
    assert!(prepared >= 18, "only {prepared} were found");
}

/// The types of `$1`, `$2` and so on, as the header of the file gives them: `$1 text: lease_name`.
fn documented_types(text: &str) -> Vec<Type> {
    let header: Vec<_> = text.lines().map_while(|line| line.strip_prefix("-- ")).collect();
    let header = header.join(" ");
    let named = (1..).map_while(|number| header.split_once(&format!("${number} ")));
    let types = named.map(|(_, rest)| match rest.split(':').next() {
        Some("text") => Type::TEXT,
        Some("bigint") => Type::INT8,
        Some("float8") => Type::FLOAT8,
        other => panic!("of which type is {other:?}?"),
    });
    types.collect()
}

#[tokio::test]
async fn nothing_depends_on_the_search_path() {
    let postgres = Postgres::start().await.unwrap();
    let setup = "CREATE SCHEMA elsewhere; ALTER DATABASE postgres SET search_path = elsewhere";
    postgres.connect().await.unwrap().batch_execute(setup).await.unwrap();
    let mut client = postgres.connect().await.unwrap();
    migrate(&mut client).await;

    let timing = Timing::lease(secs(60)).build().unwrap();
    let (scope, holder) = (Scope::new("billing").unwrap(), HolderId::new("a").unwrap());
    let (url, candidate) =
        (postgres.url().parse().unwrap(), Candidate::new(scope.clone(), holder.clone()));
    let mut lock = PostgresLease::new(url, LeaseTable::default(), candidate, timing).unwrap();
    let answer = lock.acquire(Epoch::ZERO).await.unwrap();
    assert!(matches!(answer, Acquire::Granted(_)), "{answer:?}");
    let term = Term::granted(scope, holder, Epoch::new(1));
    let fence = PostgresFence::new(postgres.url().parse().unwrap(), timing);
    assert_eq!(fence.raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
    postgres::begin(&mut client, &term).await.unwrap().commit().await.unwrap();

    let shipping = Candidate::new(Scope::new("shipping").unwrap(), HolderId::new("a").unwrap());
    let settings = AdvisorySettings::at(postgres.url().parse().unwrap());
    let heartbeat = Timing::heartbeat(secs(20), secs(40)).build().unwrap();
    let mut lock = PostgresAdvisory::new(settings, shipping.clone(), heartbeat).unwrap();
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await.unwrap() else { panic!("held") };
    let term = Term::granted(shipping.scope, shipping.holder, grant.epoch);
    assert_eq!(fence.raise(&term, &lock.place()).await.unwrap(), Raised::Raised);
    postgres::begin(&mut client, &term).await.unwrap().commit().await.unwrap();
    assert!(matches!(lock.renew(grant.epoch).await.unwrap(), Renew::Renewed { .. }));
    lock.release(grant.epoch).await.unwrap();

    let query = "SELECT count(*) FROM pg_class WHERE relnamespace = 'elsewhere'::regnamespace";
    assert_eq!(client.query_one(query, &[]).await.unwrap().get::<_, i64>(0), 0);
}
