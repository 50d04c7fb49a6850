//! An executor whose loop runs although its node does not lead.
//!
//! A follower has no loop, so that nothing of it could act. Here the election of another scope lends its terms to
//! the executor: the loop runs, its schedule is full, and the fence lets it through. Whether it acts is up to the
//! gate alone, which is that of a node that contends for the executor's own scope.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use prometheus_client::registry::Registry as MetricsRegistry;
use tenure::{
    Election, LeaderGate, Role, Timing,
    election::{Tenure, Work},
};
use tenure_submissions::{
    executor::{Executor, OfTerms, Pace},
    gateway::Gateway as Caller,
    observe::Metrics,
    store::OneShot,
    webhook::Webhooks,
};
use tenure_testkit::{eventually_true, millis, secs};
use tokio::sync::Notify;

use crate::{
    scene::{LEASE_NAME, Scene},
    tampered::Tampered,
};

on_every_database! {
    what_was_taken_is_not_called_once_the_gate_is_shut,
    a_webhook_that_was_noted_is_not_sent_once_the_gate_is_shut,
    what_was_taken_is_not_called_with_too_little_time_left,
    a_node_that_drains_takes_nothing_new,
}

pub struct Forced {
    pub store: Arc<Tampered>,
    metrics: Metrics,
    lender: Election,
}

impl Forced {
    pub async fn behind(scene: &Scene, gate: &LeaderGate) -> Self {
        Self::attempting_for(scene, gate, secs(1)).await
    }

    /// That is how long an attempt may take, with the record of its outcome.
    async fn attempting_for(scene: &Scene, gate: &LeaderGate, attempt: Duration) -> Self {
        let store = Arc::new(Tampered::with(scene.store()));
        let metrics = Metrics::register(&mut MetricsRegistry::default());
        let pace = Pace {
            concurrency: 16,
            refresh_interval: millis(50),
            reconcile_interval: secs(300),
            retry_after: jiff::SignedDuration::from_secs(5),
            record_within: attempt / 2,
            one_shot: OneShot::Repeat,
        };
        let caller = Caller::new(attempt / 2).unwrap();
        let webhooks = Webhooks::new(attempt / 2).unwrap();
        let executor = Executor::new(store.clone(), caller, webhooks, metrics.clone(), pace);
        executor.behind(gate.clone());
        let timing = Timing::lease(secs(60)).drain_grace(secs(2)).build().unwrap();
        let lender =
            scene.contender_for("elsewhere", timing).work(OfTerms(executor)).start().unwrap();
        let forced = Self { store, metrics, lender };
        forced.goes_round().await;
        forced
    }

    /// Waits until the loop has come by what is due, and more than once.
    pub async fn goes_round(&self) {
        let refreshes = || self.store.refreshes.load(Ordering::SeqCst);
        let before = refreshes();
        eventually_true("the loop goes round", secs(20), async || refreshes() > before + 3).await;
    }

    /// How often it has taken intents, or noted webhooks, to act on them.
    pub fn takes(&self) -> usize {
        self.store.takes.load(Ordering::SeqCst)
    }

    /// How many intents wait in its schedule.
    pub fn schedule(&self) -> usize {
        usize::try_from(self.metrics.queue_depth.get()).unwrap()
    }

    async fn has_taken(&self, times: usize) {
        eventually_true("it was taken", secs(10), async || self.takes() == times).await;
    }
}

/// A node that leads.
async fn leader(scene: &Scene) -> Election {
    let election = scene.contender().start().unwrap();
    let gate = election.gate();
    eventually_true("it leads", secs(10), async || gate.is_leader()).await;
    election
}

async fn what_was_taken_is_not_called_once_the_gate_is_shut(scene: Scene) {
    let node = leader(&scene).await;
    let gate = node.gate();
    let forced = Forced::behind(&scene, &gate).await;
    let permits = forced.store.hold_answers();
    scene.stored("a", "three").await;
    forced.has_taken(1).await;
    node.stop().await.unwrap();
    let refused = gate.refused_total();
    forced.store.answers.add_permits(permits);
    eventually_true("the gate refuses", secs(10), async || gate.refused_total() > refused).await;
    forced.goes_round().await;
    assert_eq!(gate.refused_total(), refused + 1, "and it is not taken again");
    forced.lender.stop().await.unwrap();
    assert!(scene.gateway.calls().is_empty(), "it was called all the same");
    assert!(scene.attempts("a").await.is_empty());
}

async fn a_webhook_that_was_noted_is_not_sent_once_the_gate_is_shut(scene: Scene) {
    let node = leader(&scene).await;
    let gate = node.gate();
    let forced = Forced::behind(&scene, &gate).await;
    scene.gateway.wait().await;
    scene.stored("a", "told").await;
    let calls = || scene.gateway.calls().len();
    eventually_true("the intent is called", secs(10), async || calls() == 1).await;
    let permits = forced.store.hold_answers();
    scene.gateway.go_on();
    forced.has_taken(2).await;
    node.stop().await.unwrap();
    let refused = gate.refused_total();
    forced.store.answers.add_permits(permits);
    eventually_true("the gate refuses", secs(10), async || gate.refused_total() > refused).await;
    forced.goes_round().await;
    assert_eq!(gate.refused_total(), refused + 1, "and it is not noted again");
    forced.lender.stop().await.unwrap();
    assert!(scene.gateway.webhooks().is_empty(), "it was sent all the same");
    let left = scene.store().pending_webhooks(0, 10).await.unwrap();
    assert!(matches!(left[..], [(_, false)]), "as if it had never been noted: {left:?}");
}

/// The next renewal is far away, so that the gate is open all the time, and for an attempt only at first.
async fn what_was_taken_is_not_called_with_too_little_time_left(scene: Scene) {
    let (open, needs) = (secs(40), secs(36));
    let timing = Timing::lease(secs(50)).renew_interval(secs(36)).build().unwrap();
    assert_eq!(timing.gate_open_for(), open);
    let node = scene.contender_for(LEASE_NAME, timing).start().unwrap();
    let gate = node.gate();
    eventually_true("it leads", secs(10), async || gate.is_leader()).await;
    let forced = Forced::attempting_for(&scene, &gate, needs).await;
    let permits = forced.store.hold_answers();
    scene.stored("a", "three").await;
    forced.has_taken(1).await;
    let left = || gate.open_until().unwrap().left();
    eventually_true("there is too little time", secs(10), async || left() < needs).await;
    forced.store.answers.add_permits(permits);
    let calls = || scene.gateway.calls().len();
    eventually_true("its turn is over", secs(10), async || calls() + forced.schedule() == 1).await;
    assert_eq!((calls(), forced.takes()), (0, 1), "it was called all the same");
    forced.goes_round().await;
    assert_eq!(forced.takes(), 1, "it was taken again, with too little time");
    assert!(gate.is_leader());
}

/// Work that ends when it is allowed to.
struct Lingers(Arc<Notify>);

#[async_trait]
impl Work for Lingers {
    async fn lead(&self, tenure: Tenure) {
        tenure.stop.cancelled().await;
        self.0.notified().await;
    }
}

async fn a_node_that_drains_takes_nothing_new(scene: Scene) {
    let may_end = Arc::new(Notify::new());
    let timing = Timing::lease(secs(3)).drain_grace(secs(60)).build().unwrap();
    let work = Lingers(Arc::clone(&may_end));
    let node = scene.contender_for(LEASE_NAME, timing).work(work).start().unwrap();
    let gate = node.gate();
    eventually_true("it leads", secs(10), async || gate.is_leader()).await;
    let forced = Forced::behind(&scene, &gate).await;
    node.drain();
    let role = || node.leadership().borrow().role;
    eventually_true("it drains", secs(10), async || role() == Role::Draining).await;
    scene.stored("a", "three").await;
    eventually_true("it is due", secs(10), async || forced.schedule() == 1).await;
    forced.goes_round().await;
    assert_eq!(role(), Role::Draining, "what has begun may still end");
    assert_eq!(forced.takes(), 0, "something new was taken");
    may_end.notify_one();
    node.stop().await.unwrap();
}
