//! A role with the rights that `tenure migrate` gives, and no more.

use std::process::Command;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::{Port, eventually, postgres::Postgres, secs};

use crate::scene::{Running, command, gateway, registry};

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_create_tables_takes_and_executes_submissions() {
    let (postgres, folder) = (Postgres::start().await.unwrap(), TempDir::new().unwrap());
    let owner = postgres.connect().await.unwrap();
    owner.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    registry(folder.path(), &gateway().await.0);
    let (port, app) = (Port::claim().unwrap(), postgres.url_as("app", "postgres"));
    let address = port.number().to_string();
    let start = || command(folder.path(), &app, &["--http", &address]);
    let refused = start().output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("run `tenure migrate` as the owner"), "{told}");

    for (arguments, missing) in [
        (&["migrate"][..], Some("run `tenure migrate --with submissions` as the owner")),
        (&["migrate", "--with", "submissions", "--grant-to", "app"], None),
    ] {
        let migrated = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["--db", &postgres.url()])
            .args(arguments)
            .output()
            .unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        if let Some(missing) = missing {
            owner.batch_execute("GRANT SELECT ON tenure_migrations TO app").await.unwrap();
            let told = start().output().unwrap();
            let told = String::from_utf8_lossy(&told.stderr);
            assert!(told.contains(missing), "{told}");
        }
    }
    let _running = Running::of(start().spawn().unwrap());
    let (client, url) = (Client::new(), format!("http://127.0.0.1:{address}"));
    let body = json!({"intentId": "a", "submissionTarget": "otp", "payload": 1});
    eventually("it is accepted", secs(30), async || {
        let request = client.post(format!("{url}/v1/intents?waitSeconds=5")).json(&body);
        let answer = request.send().await.ok()?;
        assert_eq!(answer.status(), StatusCode::OK);
        let intent: Value = answer.json().await.ok()?;
        (intent["status"] == "accepted").then_some(())
    })
    .await;
}
