//! The fence from a shell script, with the real psql.

use std::process::{Command, Output};

use tenure::Term;

use crate::server::Server;

/// What a child of `tenure run` would write, with the environment that it gets.
const SCRIPT: &str = r#"
psql "$URL" --no-psqlrc --set ON_ERROR_STOP=on --set VERBOSITY=verbose \
    --set scope="$TENURE_SCOPE" --set holder="$TENURE_NODE_ID" --set epoch="$TENURE_EPOCH" <<'SQL'
BEGIN;
SELECT tenure_fence(:'scope', :'holder', :epoch);
UPDATE orders SET state = 'paid' WHERE id = 1;
COMMIT;
SQL
"#;

async fn run_script(server: &Server, term: &Term) -> Output {
    let query = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
    let session = server.session().await;
    let programs: String = session.query_one(query, &[]).await.expect("the programs").get(0);
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("sh")
        .args(["-c", SCRIPT])
        .env("PATH", format!("{programs}:{path}"))
        .env("URL", server.postgres.url())
        .env("TENURE_SCOPE", term.scope().as_str())
        .env("TENURE_NODE_ID", term.holder().as_str())
        .env("TENURE_EPOCH", term.epoch().to_string())
        .output()
        .expect("a shell")
}

#[tokio::test]
async fn a_script_in_the_current_term_writes_and_exits_with_0() {
    let server = Server::start().await;
    let term = server.lead("it's me").await;
    let output = run_script(&server, &term).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(server.order().await, "paid");
}

#[tokio::test]
async fn a_script_in_a_term_that_is_over_fails_and_shows_the_sqlstate() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    server.lead("b").await;
    let output = run_script(&server, &old).await;
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{shown}");
    assert!(shown.contains("TN001: term 1 of a in 'billing' is over"), "{shown}");
    assert_eq!(server.order().await, "new");
}
