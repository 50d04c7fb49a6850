//! Webhooks: each sent once, in its term, and its result kept.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use tenure_submissions::{
    contract::Webhook,
    store::{Store, Submitted, WebhookDue},
    webhook::Webhooks,
};
use tenure_testkit::{eventually_true, secs};

use crate::scene::{Scene, leads, submit, submit_many};

on_every_database! {
    a_terminal_intent_is_told_once,
    a_stop_awaits_the_webhooks_that_were_sent_and_leaves_the_others_to_the_next,
    a_new_leader_sends_what_nobody_began,
    a_webhook_is_not_sent_when_the_term_ended_after_the_right_to_it_was_given,
}

async fn none_is_pending(store: &Arc<dyn Store>) {
    eventually_true("every webhook has a result", secs(20), async || {
        store.pending_webhooks(0, 10).await.unwrap().is_empty()
    })
    .await;
}

async fn a_terminal_intent_is_told_once(scene: Scene) {
    let instance = scene.instance();
    leads(&[&instance]).await;
    let _ = submit(&instance, "a", "told").await;
    let ended = scene.ends("a").await;
    none_is_pending(&scene.store()).await;
    let hook = scene.gateway.webhooks().remove(0);
    assert_eq!((hook.event_id.as_str(), hook.event_type.as_str()), ("a", "intent.terminal"));
    assert_eq!(hook.body["eventId"], "a");
    assert_eq!(hook.body["intent"], serde_json::to_value(&ended).unwrap());
    assert_eq!(scene.gateway.webhooks().len(), 1);
}

/// More than are sent at once: some are sent, and some are not.
async fn a_stop_awaits_the_webhooks_that_were_sent_and_leaves_the_others_to_the_next(scene: Scene) {
    scene.gateway.hold_webhooks().await;
    let first = scene.instance();
    leads(&[&first]).await;
    for number in 0..60 {
        let _ = submit(&first, &number.to_string(), "told").await;
    }
    for number in 0..60 {
        scene.ends(&number.to_string()).await;
    }
    let sent = || scene.gateway.webhooks().len();
    eventually_true("as many are under way as may be", secs(10), async || sent() >= 32).await;
    let stopping = tokio::spawn(first.stop());
    scene.gateway.answer_webhooks();
    stopping.await.unwrap().unwrap();
    let left = scene.store().pending_webhooks(0, 100).await.unwrap();
    assert!(left.iter().all(|(_, was_attempted)| !was_attempted), "{left:?}");
    let second = scene.instance();
    leads(&[&second]).await;
    none_is_pending(&scene.store()).await;
    let mut told: Vec<_> = scene.gateway.webhooks().into_iter().map(|hook| hook.event_id).collect();
    told.sort();
    let count = told.len();
    told.dedup();
    assert_eq!((count, told.len()), (60, 60), "each once");
}

/// More than a page, all there before the gate is open.
async fn a_new_leader_sends_what_nobody_began(scene: Scene) {
    scene.gateway.hold_webhooks().await;
    let first = scene.instance();
    leads(&[&first]).await;
    submit_many(&first, 1_200, "told").await;
    for number in 0..1_200 {
        scene.ends(&number.to_string()).await;
    }
    // Without a word; and whatever of it is still on its way to the database is refused from now on.
    drop(first);
    scene.usurp(secs(3)).await;
    let store = scene.store();
    let left = store.pending_webhooks(0, 1_200).await.unwrap();
    let fresh: Vec<_> =
        left.into_iter().filter(|(_, was_begun)| !was_begun).map(|(row, _)| row).collect();
    assert!(fresh.len() > 32, "there is no more than is sent at once");
    scene.gateway.answer_webhooks();
    let second = scene.instance();
    leads(&[&second]).await;
    none_is_pending(&store).await;
    let told = scene.gateway.webhooks();
    let ids: HashSet<_> = told.iter().map(|hook| hook.event_id.as_str()).collect();
    assert_eq!(told.len(), ids.len(), "none twice");
    for intent in store.find_rows(&fresh).await.unwrap() {
        assert!(ids.contains(intent.view.intent_id.as_str()), "{intent:?} was burnt");
    }
}

async fn a_webhook_is_not_sent_when_the_term_ended_after_the_right_to_it_was_given(scene: Scene) {
    let instance = scene.instance();
    leads(&[&instance]).await;
    let Submitted::New(stored) = submit(&instance, "a", "three").await else { panic!("new") };
    let gate = instance.election().gate();
    let token = gate.require_leader().unwrap();
    instance.stop().await.unwrap();
    let webhook = Webhook {
        url: format!("{}/told", scene.gateway.url),
        headers: BTreeMap::new(),
        headers_env: BTreeMap::new(),
        secret_env: None,
    };
    let occurred_at = stored.view.created_at;
    let due = WebhookDue { row: stored.row, intent: stored.view, webhook, occurred_at };
    let webhooks = Webhooks::new(secs(1)).unwrap();
    assert!(webhooks.send(&gate, token, &due).await.is_err());
    assert!(scene.gateway.webhooks().is_empty(), "it was sent all the same");
}
