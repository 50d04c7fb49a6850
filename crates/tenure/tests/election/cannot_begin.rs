//! A node that wins and cannot begin gives the term back, and another leads.

use std::{future::pending, time::Duration};

use async_trait::async_trait;
use tenure::{
    Role, Tenure, Term, Timing, Work,
    election::WorkError,
    fence::{Fence, FenceError, Raised},
    lock::LockPlace,
};
use tenure_testkit::{eventually, log::Log, millis, secs};

use crate::scene::{Scene, becomes};

fn timing() -> Timing {
    Timing::lease(millis(1_500)).prepare_within(millis(700)).build().unwrap()
}

/// A fence that this node does not reach, though it reaches the lock: no answer ever comes.
struct OutOfReach;

#[async_trait]
impl Fence for OutOfReach {
    async fn raise(&self, _: &Term, _: &LockPlace) -> Result<Raised, FenceError> {
        pending().await
    }

    async fn end_term(&self, _: &Term, _: &str) -> Result<(), FenceError> {
        pending().await
    }
}

/// Work that is never ready: its standby does not stop, say.
struct NeverReady;

#[async_trait]
impl Work for NeverReady {
    async fn prepare(&self, _: &Term) -> Result<(), WorkError> {
        pending().await
    }

    async fn lead(&self, tenure: Tenure) {
        tenure.stop.cancelled().await;
    }
}

/// The first has won when the second begins, and never leads.
async fn the_second_leads(scene: &Scene, first: tenure::election::Builder) {
    let first = first.start().unwrap();
    let mut won = first.leadership();
    won.wait_for(|leadership| leadership.has_term).await.unwrap();
    let second = scene.candidate("two").start().unwrap();
    becomes(&second, Role::Leader).await;
    assert_eq!(first.leadership().borrow().role, Role::Follower);
    // While it is out, the other keeps leading.
    let until = scene.timing.lease_duration() * 2;
    let lost = async { becomes(&second, Role::Follower).await };
    assert!(tokio::time::timeout_at(deadline(until), lost).await.is_err());
}

fn deadline(after: Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + after.min(secs(5))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_that_does_not_reach_the_fence_lets_another_lead() {
    let scene = Scene::with(timing());
    let first = scene.candidate("one").fence(OutOfReach);
    the_second_leads(&scene, first).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_that_is_never_ready_lets_another_lead() {
    let scene = Scene::with(timing());
    let first = scene.candidate("one").work(NeverReady);
    the_second_leads(&scene, first).await;
}

/// Nobody else contends, so that it wins again and again.
#[tokio::test(flavor = "multi_thread")]
async fn every_term_that_could_not_begin_is_told_in_the_log() {
    let (log, scene) = (Log::kept(), Scene::with(timing()));
    let _alone = scene.candidate("told-each-time").work(NeverReady).start().unwrap();
    let told = || {
        let all = log.events("leader_could_not_begin").into_iter();
        all.filter(|fields| fields["holder_id"] == "told-each-time").collect::<Vec<_>>()
    };
    let told = eventually("it is told twice", secs(30), async || {
        Some(told()).filter(|told| told.len() >= 2)
    })
    .await;
    for (fields, epoch) in told.iter().zip(1..) {
        assert_eq!((&fields["epoch"], &fields["reason"]), (&epoch.into(), &"cannot_begin".into()));
    }
}
