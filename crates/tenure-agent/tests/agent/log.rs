//! What an agent writes into its log, and what it never does.

use serde_json::json;
use tenure_agent::{Ops, Settings};
use tenure_testkit::{eventually_true, log::Log, secs};

use crate::{
    controller::{Answer, Node, RESULTS},
    scene::{settings, start},
};

#[tokio::test]
async fn a_token_is_sent_and_never_logged() {
    let log = Log::kept();
    let (node, gone) = (Node::start(), Node::down());
    node.on(|call| (call.path == RESULTS).then(|| Answer::Json(401, json!({"error": "no"}))));
    let settings =
        Settings { token: Some("s3cret".to_owned()), ..settings(&[&gone.url, &node.url]) };
    let agent = start(settings, Ops::built_in());
    node.lease("l", &[("j", "echo", json!(1))]);
    let was_logged = |words: &str| log.text().contains(words);
    for words in ["agent_not_heard", "agent_token_refused"] {
        eventually_true(words, secs(20), async || was_logged(words)).await;
    }
    agent.hurry.cancel();
    assert_eq!(agent.task.await.unwrap().not_handed_in, 1);
    assert!(was_logged("agent_result_not_handed_in"));
    assert_eq!(node.calls(RESULTS)[0].authorization.as_deref(), Some("Bearer s3cret"));
    assert!(!was_logged("s3cret"));
}
