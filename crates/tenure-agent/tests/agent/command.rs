//! Ops that are programs, from the lease to the result.

use serde_json::{Value, json};
use tenure_agent::Ops;
use tenure_database::BootInstant;
use tenure_testkit::{eventually_true, secs};

use crate::{
    controller::{Node, RESULTS},
    scene::{is_gone, number_in, ops, result_of, settings, shell, start},
};

/// What comes of one job of the op `x`.
async fn ran(ops: Ops, payload: Value) -> Value {
    let node = Node::start();
    let agent = start(settings(&[&node.url]), ops);
    node.lease("l", &[("j", "x", payload)]);
    let result = result_of(&node, "j").await;
    assert_eq!(agent.drained().await, 0);
    result
}

async fn error_of(ops: Ops) -> String {
    let result = ran(ops, json!({})).await;
    assert_eq!(result["status"], "failed", "{result}");
    result["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_program_is_told_its_job_and_says_the_result() {
    let result = ran(shell("cat", ""), json!({"a": [1, "é\n"]})).await;
    let told = json!({
        "job_id": "j", "namespace": "default", "op": "x", "job_epoch": 1, "lease_id": "l", "agent": "a",
        "payload": {"a": [1, "é\n"]},
    });
    assert_eq!(
        result,
        json!({"job_id": "j", "job_epoch": 1, "status": "succeeded", "result": told})
    );
}

#[tokio::test]
async fn no_number_is_changed_on_its_way() {
    let node = Node::start();
    let agent = start(settings(&[&node.url]), shell("echo 12345678901234567890.12300", ""));
    node.lease("l", &[("j", "x", json!({}))]);
    result_of(&node, "j").await;
    let text = &node.calls(RESULTS)[0].text;
    assert!(text.contains(r#""result":12345678901234567890.12300"#), "{text}");
    assert_eq!(agent.drained().await, 0);
}

#[tokio::test]
async fn a_program_that_says_nothing_has_succeeded_with_null() {
    let result = ran(shell("true", ""), json!({})).await;
    assert_eq!(
        result,
        json!({"job_id": "j", "job_epoch": 1, "status": "succeeded", "result": null})
    );
}

#[tokio::test]
async fn a_program_that_fails_says_why_or_how_it_ended() {
    assert_eq!(error_of(shell("echo 1; echo no paper >&2; exit 3", "")).await, "no paper");
    assert!(error_of(shell("exit 3", "")).await.contains("ended with exit status: 3"));
    assert!(error_of(shell("kill -9 $$", "")).await.contains("ended with signal: 9"));
    assert!(
        error_of(ops("[ops.x]\ncommand = ['/no/such']")).await.contains("cannot start /no/such")
    );
}

#[tokio::test]
async fn output_that_is_no_json_is_a_failure_that_says_so() {
    assert!(error_of(shell("echo done", "")).await.contains("its output is not JSON"));
    assert!(error_of(shell("echo 1 2", "")).await.contains("its output is not JSON"));
    let large = "head -c 1048577 /dev/zero | tr '\\0' 1";
    let large = large.replace('\'', "\"");
    assert!(error_of(shell(&large, "")).await.contains("more than 1 MiB"));
}

#[tokio::test]
async fn a_large_job_reaches_a_program_that_answers_while_it_reads() {
    let text = "x".repeat(700_000);
    let result = ran(shell("cat", ""), json!({"text": text})).await;
    assert_eq!(result["result"]["payload"]["text"], text);
    // And one that does not read at all is not waited for.
    assert_eq!(ran(shell("echo 1", ""), json!({"text": text})).await["result"], 1);
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    let line = format!("sleep 300 & echo $! > {}; wait", child.display());
    assert_eq!(error_of(shell(&line, "timeout = '500ms'")).await, "timed out after 500ms");
    let pid = number_in(&child).await;
    eventually_true("nobody is left", secs(10), async || is_gone(pid)).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_killed_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    // It holds the program's output open.
    let line = format!("sleep 300 & echo $! > {}; echo 7", child.display());
    let begun = BootInstant::now();
    assert_eq!(ran(shell(&line, ""), json!({})).await["result"], 7);
    let pid = number_in(&child).await;
    eventually_true("nobody is left", secs(10), async || is_gone(pid)).await;
    // Somebody who has left the group holds it too, and cannot be reached.
    let away = folder.path().join("away").display().to_string();
    let line = format!(
        "setsid sh -c \"echo > {away}; sleep 15\" & until [ -e {away} ]; do :; done; echo 8"
    );
    assert_eq!(ran(shell(&line, ""), json!({})).await["result"], 8);
    assert!(BootInstant::now().since(begun) < secs(12));
}

#[tokio::test]
async fn a_program_has_the_folder_and_the_environment_that_its_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let line = r#"printf "[\"%s\", \"%s\"]" "$PWD" "$COLOUR""#;
    let rest = format!("folder = '{}'\nenvironment = {{ COLOUR = 'red' }}", path.display());
    let result = ran(shell(line, &rest), json!({})).await;
    assert_eq!(result["result"], json!([path.to_str().unwrap(), "red"]));
}

#[tokio::test]
async fn an_op_that_the_agent_does_not_have_is_a_failure() {
    assert!(error_of(Ops::built_in()).await.contains(r#"has no op "x""#));
}

/// The environment of a process is set by whoever starts it, so this starts itself once more.
#[tokio::test]
async fn a_program_does_not_see_the_database_nor_the_tokens_of_its_agent() {
    const NAME: &str = "command::a_program_does_not_see_the_database_nor_the_tokens_of_its_agent";
    let secrets = ["TENURE_DB", "DATABASE_URL", "TENURE_AGENT_TOKEN"];
    if secrets.iter().any(|name| std::env::var_os(name).is_none()) {
        let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
        let again = again.args(["--exact", NAME]).envs(secrets.map(|name| (name, "s3cret")));
        assert!(again.status().await.unwrap().success());
        return;
    }
    let result = ran(shell("env | grep -c s3cret; exit 0", ""), json!({})).await;
    assert_eq!(result["result"], 0);
    let given = "environment = { DATABASE_URL = 's3cret' }";
    assert_eq!(ran(shell("env | grep -c s3cret", given), json!({})).await["result"], 1);
}
