//! New work is announced to those who wait for it, once per transaction.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
};

use tenure_testkit::eventually::{eventually_true, secs};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::{
    calls::{claim_only, complete, enqueue, enqueue_all, leased, release},
    scene::{Scene, begin, commit, on_every_version},
};

on_every_version![
    new_work_is_announced_on_both_channels,
    a_transaction_announces_once_however_much_it_enqueues,
    nothing_is_announced_before_it_is_committed_or_when_it_is_undone,
    a_repeat_is_not_announced,
    a_release_is_announced,
];

const NEWS: [&str; 2] = ["symphony_outbox:", "outbox_pending:new_work"];

async fn new_work_is_announced_on_both_channels(scene: &Scene) {
    let listener = Listener::at(scene).await;
    enqueue(&scene.admin, "p", "k").await;
    assert_eq!(listener.heard().await, NEWS);
    enqueue_all(&scene.admin, &[("p", "l"), ("q", "m")]).await;
    assert_eq!(listener.heard().await, NEWS);
}

async fn a_transaction_announces_once_however_much_it_enqueues(scene: &Scene) {
    let listener = Listener::at(scene).await;
    begin(&scene.admin).await;
    for number in 0..10 {
        enqueue(&scene.admin, "p", &number.to_string()).await;
        enqueue_all(&scene.admin, &[("q", &format!("batch {number}")), ("p", "0")]).await;
    }
    commit(&scene.admin).await;
    assert_eq!(listener.heard().await, NEWS);
}

async fn nothing_is_announced_before_it_is_committed_or_when_it_is_undone(scene: &Scene) {
    let listener = Listener::at(scene).await;
    begin(&scene.admin).await;
    enqueue(&scene.admin, "p", "k").await;
    assert_eq!(listener.heard().await, [""; 0]);
    commit(&scene.admin).await;
    assert_eq!(listener.heard().await, NEWS);

    begin(&scene.admin).await;
    enqueue(&scene.admin, "p", "l").await;
    scene.admin.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(listener.heard().await, [""; 0]);
}

async fn a_repeat_is_not_announced(scene: &Scene) {
    enqueue(&scene.admin, "p", "pending").await;
    enqueue(&scene.admin, "p", "over").await;
    for claim in crate::calls::claim(&scene.admin, "w", 10).await {
        let state = if claim.sequence_id == 2 { "DISPATCHED" } else { "RETRYABLE" };
        complete(&scene.admin, &claim, state).await.unwrap();
    }
    let listener = Listener::at(scene).await;
    for key in ["pending", "over"] {
        enqueue(&scene.admin, "p", key).await;
        enqueue(&scene.admin, "q", key).await;
        enqueue_all(&scene.admin, &[("p", key), ("q", key), ("", "")]).await;
    }
    assert_eq!(listener.heard().await, [""; 0]);
}

async fn a_release_is_announced(scene: &Scene) {
    let claim = &leased(&scene.admin, "w", 1).await[0];
    let listener = Listener::at(scene).await;
    assert_eq!(release(&scene.admin, &[&claim.forged()]).await, ["lease_lost"]);
    assert_eq!(listener.heard().await, [""; 0]);
    assert_eq!(release(&scene.admin, &[claim]).await, ["done"]);
    assert_eq!(listener.heard().await, NEWS);
    let worker = scene.worker().await;
    claim_only(&worker, "w").await;
    assert_eq!(listener.heard().await, [""; 0]);
}

/// Somebody who listens on both channels.
struct Listener {
    client: Client,
    /// `channel:payload` of what came.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    async fn at(scene: &Scene) -> Self {
        let url = scene.postgres.url();
        let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = heard.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(news) = message {
                    hearing.lock().unwrap().push(format!("{}:{}", news.channel(), news.payload()));
                }
            }
        });
        client.batch_execute("LISTEN symphony_outbox; LISTEN outbox_pending").await.unwrap();
        Self { client, heard }
    }

    /// What came since it was last asked. News come in the order of their commits, so that whatever was
    /// announced before has come once its own word is back.
    async fn heard(&self) -> Vec<String> {
        self.client.batch_execute("NOTIFY outbox_pending, 'nothing else'").await.unwrap();
        let is_back =
            || self.heard.lock().unwrap().iter().any(|news| news.ends_with("nothing else"));
        eventually_true("the own word", secs(10), async || is_back()).await;
        let mut heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.pop();
        heard
    }
}
