//! What holds across restarts, instances, edits, clocks, and leadership that ends at the wrong moment.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;
use tenure::Role;
use tenure_database::clock::unix_time;
use tenure_submissions::{
    instance::{Behaviour, Instance},
    intent::Status,
    registry::Registry,
    store::Submitted,
};
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio::sync::Semaphore;

use crate::{
    gateway::Gateway,
    scene::{Database, Scene, leads, submit},
    tampered::Tampered,
};

on_every_database! {
    leadership_lost_during_a_rebuild_executes_nothing,
    an_intent_is_the_same_after_a_restart_and_on_every_instance,
    an_edit_of_the_registry_leaves_what_was_agreed,
    a_reconcile_finds_what_refreshes_missed,
    a_reconcile_finds_nothing_in_normal_work,
}

async fn leadership_lost_during_a_rebuild_executes_nothing(scene: Scene) {
    let first = scene.instance();
    leads(&[&first]).await;
    first.election().drain();
    for number in 0..10 {
        let _ = submit(&first, &number.to_string(), "three").await;
    }
    first.stop().await.unwrap();
    let held = Arc::new(Tampered { rebuilds: Semaphore::new(0), ..Tampered::with(scene.store()) });
    let calls = || scene.gateway.calls().len();
    let before = calls();
    let instance = scene.instance_on(held.clone(), Scene::behaviour());
    eventually_true("it has won, and reads", secs(10), async || {
        held.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    scene.usurp(secs(3_600)).await;
    held.rebuilds.add_permits(1);
    // It learns of it at its next renewal at the latest.
    eventually_true("it knows who leads", secs(10), async || {
        let leadership = instance.election().leadership().borrow().clone();
        let leader = leadership.leader.map(|(leader, _)| leader);
        leadership.role == Role::Follower
            && leader.is_some_and(|leader| leader != instance.election().gate().holder().as_str())
    })
    .await;
    assert_eq!(calls(), before, "it executed a term that it had lost");
    assert!(instance.election().gate().require_leader().is_err());
}

async fn an_intent_is_the_same_after_a_restart_and_on_every_instance(scene: Scene) {
    let one = scene.instance();
    leads(&[&one]).await;
    let Submitted::New(stored) = submit(&one, "a", "three").await else { panic!("new") };
    assert_eq!(scene.ends("a").await.status, Status::Accepted);
    let two = scene.instance();
    let same = async |instance: &Instance| {
        let Submitted::Existing(again) = submit(instance, "a", "three").await else {
            panic!("it was there before")
        };
        let (was, is) = (&stored.view, &again.view);
        assert_eq!((again.row, is.created_at), (stored.row, was.created_at));
        let conflict = submit(instance, "a", "once").await;
        assert_eq!(conflict, Submitted::Conflict { existing_target: "three".to_owned() });
    };
    same(&two).await;
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    let again = scene.instance();
    same(&again).await;
    leads(&[&again]).await;
    // What is stored later is executed later: were the first one due again, it would be by then.
    let _ = submit(&again, "b", "three").await;
    scene.ends("b").await;
    let keys: Vec<_> = scene.gateway.calls().into_iter().map(|call| call.key).collect();
    assert_eq!(keys, ["a:1", "b:1"]);
}

async fn an_edit_of_the_registry_leaves_what_was_agreed(scene: Scene) {
    scene.gateway.answers(|_| (503, json!({})));
    let one = scene.instance();
    leads(&[&one]).await;
    let _ = submit(&one, "a", "three").await;
    eventually_true("it was tried once", secs(10), async || !scene.attempts("a").await.is_empty())
        .await;
    one.stop().await.unwrap();
    let elsewhere = Gateway::start().await;
    let edited = format!(
        r#"{{"targets": [{{"submissionTarget": "three", "gatewayType": "push", "gatewayUrl": "{}",
             "terminalOutcomes": ["unregistered_token"], "policy": "one_shot"}}]}}"#,
        elsewhere.url
    );
    let edited = Registry::parse(&edited).unwrap();
    let two = scene.instance_of(edited, scene.store(), Scene::behaviour());
    let repeated = submit(&two, "a", "three").await;
    assert!(matches!(repeated, Submitted::Existing(_)), "{repeated:?}");
    let ended = scene.ends("a").await;
    assert_eq!(ended.exhausted_reason.as_deref(), Some("max_attempts"), "as was agreed");
    assert_eq!(scene.attempts("a").await.len(), 3);
    let _ = submit(&two, "b", "three").await;
    assert_eq!(scene.ends("b").await.status, Status::Accepted);
    let keys = |gateway: &Gateway| gateway.calls().into_iter().map(|call| call.key).collect();
    let (here, there): (Vec<_>, Vec<_>) = (keys(&scene.gateway), keys(&elsewhere));
    assert_eq!((here.len(), there), (3, vec!["b:1".to_owned()]));
}

/// Reconciles often.
fn diligent() -> Behaviour {
    Behaviour { reconcile_interval: Duration::from_millis(100), ..Scene::behaviour() }
}

async fn a_reconcile_finds_what_refreshes_missed(scene: Scene) {
    scene.gateway.answers(|_| (503, json!({})));
    let one = scene.instance();
    leads(&[&one]).await;
    let Submitted::New(first) = submit(&one, "a", "minute").await else { panic!("new") };
    one.stop().await.unwrap();
    // The numbers of the rows that come next are known.
    let hiding = Tampered::with(scene.store());
    hiding.hidden.lock().unwrap().extend(first.row + 1..first.row + 100);
    let leader = scene.instance_on(Arc::new(hiding), diligent());
    leads(&[&leader]).await;
    scene.gateway.answers(|_| (200, json!({"status": "accepted"})));
    let Submitted::New(second) = submit(&leader, "b", "three").await else { panic!("new") };
    assert!(second.row < first.row + 100);
    assert_eq!(scene.ends("b").await.status, Status::Accepted);
    assert!(leader.metrics.reconciled.get() >= 1);
}

async fn a_reconcile_finds_nothing_in_normal_work(scene: Scene) {
    let leader = scene.instance_that(diligent());
    leads(&[&leader]).await;
    let follower = scene.instance();
    for number in 0..300 {
        let instance = if number % 2 == 0 { &leader } else { &follower };
        let _ = submit(instance, &number.to_string(), "three").await;
    }
    for number in 0..300 {
        assert_eq!(scene.ends(&number.to_string()).await.status, Status::Accepted);
    }
    assert_eq!(leader.metrics.reconciled.get(), 0);
}

/// Due times and deadlines are by the database's clock, wherever it stands.
async fn clock_off_by(seconds: i64) {
    let postgres = Postgres::with_settable_clock().await.unwrap();
    postgres.step_clock(seconds).unwrap();
    let scene = Scene::on_server(postgres).await;
    let called = std::sync::Mutex::new(std::collections::HashSet::new());
    scene.gateway.answers(move |call| match called.lock().unwrap().insert(call.key.clone()) {
        true => (503, json!({})),
        false => (200, json!({"status": "accepted"})),
    });
    let instance = scene.instance();
    leads(&[&instance]).await;
    for target in ["three", "minute"] {
        let Submitted::New(stored) = submit(&instance, target, target).await else { panic!("new") };
        let here = i64::try_from(unix_time().as_micros()).unwrap();
        let here = jiff::Timestamp::from_microsecond(here).unwrap();
        let ahead = stored.view.created_at.duration_since(here).as_secs();
        assert!((ahead - seconds).abs() < 30, "created by another clock: {ahead}");
        assert_eq!(scene.ends(target).await.status, Status::Accepted, "{target}");
        assert_eq!(scene.attempts(target).await.len(), 2);
    }
    assert_eq!(scene.gateway.calls().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_databases_clock_is_ahead_of_the_nodes() {
    clock_off_by(3_600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_databases_clock_is_behind_the_nodes() {
    clock_off_by(-3_600).await;
}

/// The leader knows the database's clock by its last look, and looks often.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_databases_clock_delays_nothing() {
    let scene = Scene::on_server(Postgres::with_settable_clock().await.unwrap()).await;
    let instance = scene.instance();
    leads(&[&instance]).await;
    let Database::Postgres(postgres) = &scene.database else { panic!("on Postgres") };
    for (at, step) in [0, 3_600, -3_600, -3_600].into_iter().enumerate() {
        postgres.step_clock(step).unwrap();
        let id = at.to_string();
        let _ = submit(&instance, &id, "three").await;
        assert_eq!(scene.ends(&id).await.status, Status::Accepted, "after a step of {step} s");
    }
}
