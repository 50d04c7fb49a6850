//! The tests that seed 000 says must exist, by those names.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::{BootInstant, Role};
use tenure_submissions::{instance::Behaviour, intent::Status};
use tenure_testkit::{eventually, eventually_true, secs};

use crate::{
    forced::Forced,
    scene::{Scene, leads, submit, submit_many},
    tampered::Tampered,
};

on_every_database! {
    single_leader_on_concurrent_start,
    failover_after_expiry,
    no_execution_without_leadership,
    leader_stops_executing_immediately_on_lease_loss,
    leader_is_lost_at_once_when_a_read_fails_and_what_was_begun_is_recorded,
    leader_picks_up_follower_submitted_intents_via_schedule_refresh,
}

/// Seed 000, 1: "Single leader on concurrent start."
async fn single_leader_on_concurrent_start(scene: Scene) {
    let instances: Vec<_> = (0..3).map(|_| scene.instance()).collect();
    let all: Vec<_> = instances.iter().collect();
    let (_, epoch) = leads(&all).await;
    for (at, instance) in instances.iter().enumerate() {
        for number in 0..20 {
            let _ = submit(instance, &format!("{at}-{number}"), "three").await;
        }
    }
    for at in 0..3 {
        for number in 0..20 {
            let ended = scene.ends(&format!("{at}-{number}")).await;
            assert_eq!(ended.status, Status::Accepted);
        }
    }
    let leaders = all.iter().filter(|one| one.election().gate().is_leader()).count();
    assert_eq!(leaders, 1);
    let calls = scene.gateway.calls();
    assert!(calls.iter().all(|call| call.epoch == epoch.get()), "somebody else executed");
    let keys: HashSet<_> = calls.iter().map(|call| &call.key).collect();
    assert_eq!((calls.len(), keys.len()), (60, 60), "each once");
}

/// Seed 000, 2: "Failover after expiry."
async fn failover_after_expiry(scene: Scene) {
    let (one, two) = (scene.instance(), scene.instance());
    let (leader, first) = leads(&[&one, &two]).await;
    let (dies, lives) = if leader == 0 { (one, two) } else { (two, one) };
    // Without a word: its lease has to run out.
    drop(dies);
    let _ = submit(&lives, "a", "three").await;
    let (_, second) = leads(&[&lives]).await;
    assert!(second > first);
    assert_eq!(scene.ends("a").await.status, Status::Accepted);
    assert_eq!(scene.gateway.calls()[0].epoch, second.get());
}

/// Seed 000, 3: "No execution without leadership." Due intents are forced into a follower's schedule, and its loop
/// runs: it begins nothing, until the same gate is open.
async fn no_execution_without_leadership(scene: Scene) {
    let leads = scene.usurp(secs(3_600)).await;
    for number in 0..10 {
        scene.stored(&number.to_string(), "three").await;
    }
    scene.untold(&leads, "untold").await;
    let follower = scene.contender().start().unwrap();
    let gate = follower.gate();
    eventually_true("it follows", secs(10), async || {
        follower.leadership().borrow().leader.is_some()
    })
    .await;
    let forced = Forced::behind(&scene, &gate).await;
    assert_eq!(forced.takes(), 0, "it has taken something to execute it");
    assert_eq!(forced.schedule(), 10);
    assert!(!gate.is_leader());
    assert!(scene.gateway.calls().is_empty(), "somebody executed without leading");
    assert!(scene.gateway.webhooks().is_empty(), "somebody told without leading");

    scene.expire().await;
    for number in 0..10 {
        assert_eq!(scene.ends(&number.to_string()).await.status, Status::Accepted);
    }
    let epoch = gate.require_leader().unwrap().epoch;
    assert!(epoch > leads.epoch());
    let calls = scene.gateway.calls();
    assert!(calls.len() == 10 && calls.iter().all(|call| call.epoch == epoch.get()), "{calls:?}");
    let told = || scene.gateway.webhooks().len();
    eventually_true("the webhook is sent", secs(10), async || told() == 1).await;
}

/// Seed 000, 4: "Leader stops executing immediately on lease loss."
async fn leader_stops_executing_immediately_on_lease_loss(scene: Scene) {
    let leader = scene.instance_that(Behaviour {
        concurrency: 4,
        refresh_interval: Duration::from_millis(50),
        gateway_timeout: Duration::from_millis(1_200),
        record_within: Duration::from_millis(100),
        ..Behaviour::default()
    });
    let (_, epoch) = leads(&[&leader]).await;
    scene.gateway.wait().await;
    submit_many(&leader, 200, "three").await;
    let calls = || scene.gateway.calls().len();
    eventually_true("as many are under way as may be", secs(10), async || calls() == 4).await;
    scene.usurp(secs(3_600)).await;
    scene.gateway.go_on();
    let mut leadership = leader.election().leadership();
    let lost = leadership.wait_for(|leadership| leadership.role == Role::Follower);
    tokio::select! {
        lost = lost => drop(lost.unwrap()),
        () = tokio::time::sleep(secs(10)) => panic!("it goes on leading"),
    }
    // Much longer than it would take to execute the rest.
    tokio::time::sleep(secs(2)).await;
    assert_eq!(calls(), 4, "a new attempt began after the loss");
    let pending = scene.store().rebuild().await.unwrap().changes.len();
    assert_eq!(pending, 200, "something was recorded after the loss");
    assert!(scene.gateway.calls().iter().all(|call| call.epoch == epoch.get()));
}

/// Seed 000, 5: "Leader picks up follower-submitted intents via schedule refresh."
async fn leader_picks_up_follower_submitted_intents_via_schedule_refresh(scene: Scene) {
    // Without news the refresh alone must find it.
    let deaf = Tampered { is_deaf: true, ..Tampered::with(scene.store()) };
    let leader = scene.instance_on(Arc::new(deaf), Scene::behaviour());
    let (_, epoch) = leads(&[&leader]).await;
    let follower = scene.instance();
    for number in 0..10 {
        let id = number.to_string();
        let submitted = BootInstant::now();
        let _ = submit(&follower, &id, "three").await;
        assert_eq!(scene.ends(&id).await.status, Status::Accepted);
        println!(
            "executed {:?} after it was submitted to a follower",
            BootInstant::now().since(submitted)
        );
    }
    let calls = eventually("ten calls", secs(5), async || {
        let calls = scene.gateway.calls();
        (calls.len() == 10).then_some(calls)
    })
    .await;
    assert!(calls.iter().all(|call| call.epoch == epoch.get()));
    assert!(!follower.election().gate().is_leader());
}

/// Seed 000: an error of the database deposes. The gate does not wait for the gateway.
async fn leader_is_lost_at_once_when_a_read_fails_and_what_was_begun_is_recorded(scene: Scene) {
    let failing = Arc::new(Tampered::with(scene.store()));
    let patient = Behaviour {
        refresh_interval: Duration::from_millis(50),
        gateway_timeout: Duration::from_millis(900),
        record_within: Duration::from_millis(200),
        ..Behaviour::default()
    };
    let instance = scene.instance_on(failing.clone(), patient);
    let (_, first) = leads(&[&instance]).await;
    scene.gateway.wait().await;
    let _ = submit(&instance, "a", "once").await;
    eventually_true("the call was sent", secs(10), async || scene.gateway.calls().len() == 1).await;
    failing.fails.store(true, Ordering::SeqCst);
    eventually_true("it leads no more", secs(10), async || !instance.election().gate().is_leader())
        .await;
    assert!(scene.attempts("a").await.is_empty(), "the gateway has not answered yet");
    failing.fails.store(false, Ordering::SeqCst);
    scene.gateway.go_on();
    assert_eq!(scene.ends("a").await.status, Status::Accepted);
    assert_eq!(scene.gateway.calls().len(), 1, "the call that was sent was recorded");
    let (_, second) = leads(&[&instance]).await;
    assert!(second > first);
}
