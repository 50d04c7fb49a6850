//! The schema: its migrations, and every statement that is sent to it.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use tenure_database::migrate::{Standing, postgres::standing};
use tenure_jobs::schema;
use tenure_testkit::postgres::Postgres;
use tokio_postgres::Client;

use super::{OnPostgres, migrate};
use crate::scene::TABLES;

async fn migrated() -> (Postgres, Client) {
    let postgres = Postgres::start().await.unwrap();
    let mut client = postgres.connect().await.unwrap();
    let all = tenure::schema::POSTGRES.len() + schema::POSTGRES.len();
    assert_eq!(migrate(&mut client).await, all);
    (postgres, client)
}

/// The jobs' tables as pg_dump writes them down, without what differs from one version of it to another.
async fn dump(postgres: &Postgres, client: &Client) -> String {
    let query = "SELECT setting || '/pg_dump' FROM pg_config WHERE name = 'BINDIR'";
    let program: String = client.query_one(query, &[]).await.unwrap().get(0);
    let mut dump = Command::new(program);
    dump.args(["--schema-only", "--no-owner", "--dbname", &postgres.url()]);
    dump.args(["--table", "tenure_job*"]);
    let output = dump.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
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
    assert_eq!(migrate(&mut client).await, 0);
    assert_eq!(dump(&postgres, &client).await, before);
    let standing = standing(&client, schema::COMPONENT, &schema::POSTGRES).await;
    assert!(matches!(standing, Ok(Standing::Current)), "{standing:?}");
    let changes = client.query("SELECT scope, event_number FROM tenure_job_changes", &[]).await;
    assert_eq!(changes.unwrap().len(), 1, "there is one row");
}

#[tokio::test]
async fn the_schema_is_the_golden_one() {
    let (postgres, client) = migrated().await;
    let dump = dump(&postgres, &client).await;
    for table in TABLES {
        assert!(dump.contains(&format!("CREATE TABLE public.{table} (")), "{table}");
    }
    insta::assert_snapshot!("schema", dump);
}

/// Every statement in the files, put together as the store does.
pub fn statements() -> BTreeMap<String, String> {
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/postgres");
    let text = |name: &str| fs::read_to_string(sql.join(name)).unwrap();
    let (tell, job) = (text("fragment/tell.sql"), text("fragment/job.sql"));
    let take_back = text("write/take_back.sql");
    let mut statements = BTreeMap::new();
    for folder in ["read", "write", "write/take_back"] {
        for file in fs::read_dir(sql.join(folder)).unwrap() {
            let file = file.unwrap();
            let name = format!("{folder}/{}", file.file_name().display());
            if !file.file_type().unwrap().is_file() || name == "write/take_back.sql" {
                continue;
            }
            let statement = match folder {
                "write/take_back" => take_back.replace("{which}", &text(&name)),
                _ => text(&name),
            };
            let statement = statement.replace("{tell}", &tell).replace("{job}", &job);
            statements.insert(name, statement);
        }
    }
    assert_eq!(statements.len(), 11 + 12 + 5, "{:?}", statements.keys());
    statements
}

#[tokio::test]
async fn every_statement_prepares_and_documents_its_parameters() {
    let (_postgres, client) = migrated().await;
    for (name, statement) in statements() {
        let prepared = client.prepare(&statement).await;
        let prepared = prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let comments: String =
            statement.lines().filter_map(|line| line.trim().strip_prefix("--")).collect();
        for number in 1..=prepared.params().len() {
            assert!(comments.contains(&format!("${number}")), "{name} says nothing of ${number}");
        }
        let more = format!("${}", prepared.params().len() + 1);
        assert!(!comments.contains(&more), "{name} has no {more}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_depends_on_the_search_path() {
    let backend = OnPostgres::start().await;
    let setup = "CREATE SCHEMA elsewhere; ALTER DATABASE postgres SET search_path = elsewhere";
    backend.client.batch_execute(setup).await.unwrap();
    let client = backend.postgres.connect().await.unwrap();
    for (name, statement) in statements() {
        let prepared = client.prepare(&statement).await;
        prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}
