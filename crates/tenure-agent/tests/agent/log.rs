//! What an agent writes into its log, and what it never does.

use std::{
    io,
    sync::{Arc, Mutex},
};

use serde_json::json;
use tenure_agent::{Ops, Settings};
use tenure_testkit::{eventually_true, secs};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    controller::{Answer, Node, RESULTS},
    scene::{settings, start},
};

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_token_is_sent_and_never_logged() {
    let log = Log::default();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).init();
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
