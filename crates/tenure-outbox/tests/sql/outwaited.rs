//! Whoever waits for a row until its lease is over has lost it, whatever it waited for.

use crate::{
    calls::{Claim, claim_for, complete, complete_all, ended, enqueue, extend, release},
    scene::{Scene, Session, commit, hold, on_every_version},
};

on_every_version![
    a_completion_that_waited_beyond_its_lease_is_refused,
    a_batch_that_waited_beyond_a_lease_loses_that_one_alone,
    an_extension_that_waited_beyond_its_lease_is_refused,
    a_release_that_waited_beyond_its_lease_is_refused,
    a_wait_that_ends_in_time_does_no_harm,
];

/// One that changed the row has the waiting statement look at it anew; one that merely locked it does not, and
/// then a clock that was read before the wait is believed.
const BLOCKERS: [&str; 2] = [
    "SELECT FROM payment_outbox_pending FOR UPDATE",
    "UPDATE payment_outbox_pending SET payload = payload",
];

async fn a_completion_that_waited_beyond_its_lease_is_refused(scene: &Scene) {
    for blocker in BLOCKERS {
        let held = Held::by(scene, blocker, 1).await;
        let completing = complete(&held.worker, &held.claim, "DISPATCHED");
        let answer =
            scene.while_waiting(&held.worker, completing, held.beyond_the_lease(scene)).await;
        assert_eq!(ended(&answer), "P7002", "{blocker}");
        held.is_as_it_was(scene).await;
    }
}

async fn a_batch_that_waited_beyond_a_lease_loses_that_one_alone(scene: &Scene) {
    for blocker in BLOCKERS {
        let held = Held::by(scene, blocker, 1).await;
        let other = enqueue(&scene.admin, "p", &format!("other {blocker}")).await;
        let long = claim_for(&scene.admin, "w", 1, 600).await.remove(0);
        assert_eq!(long.outbox_id, other.outbox_id);
        let told = [(&held.claim, "DISPATCHED"), (&long, "DISPATCHED")];
        let completing = complete_all(&held.worker, &told);
        let answer =
            scene.while_waiting(&held.worker, completing, held.beyond_the_lease(scene)).await;
        assert_eq!(answer, ["lease_lost", "done 1 DISPATCHED"], "{blocker}");
        held.is_as_it_was(scene).await;
    }
}

async fn an_extension_that_waited_beyond_its_lease_is_refused(scene: &Scene) {
    for blocker in BLOCKERS {
        let held = Held::by(scene, blocker, 1).await;
        let claims = [&held.claim];
        let extending = extend(&held.worker, &claims, 600);
        let answer =
            scene.while_waiting(&held.worker, extending, held.beyond_the_lease(scene)).await;
        assert_eq!(answer, ["lease_lost"], "{blocker}");
        held.is_as_it_was(scene).await;
    }
}

async fn a_release_that_waited_beyond_its_lease_is_refused(scene: &Scene) {
    for blocker in BLOCKERS {
        let held = Held::by(scene, blocker, 1).await;
        let claims = [&held.claim];
        let releasing = release(&held.worker, &claims);
        let answer =
            scene.while_waiting(&held.worker, releasing, held.beyond_the_lease(scene)).await;
        assert_eq!(answer, ["lease_lost"], "{blocker}");
        held.is_as_it_was(scene).await;
    }
}

async fn a_wait_that_ends_in_time_does_no_harm(scene: &Scene) {
    for blocker in BLOCKERS {
        let held = Held::by(scene, blocker, 600).await;
        let claims = [&held.claim];
        let extending = extend(&held.worker, &claims, 900);
        let answer = scene.while_waiting(&held.worker, extending, commit(&held.blocker)).await;
        assert_eq!(answer, ["done"], "{blocker}");

        hold(&held.blocker, blocker).await;
        let completing = complete(&held.worker, &held.claim, "DISPATCHED");
        let answer = scene.while_waiting(&held.worker, completing, commit(&held.blocker)).await;
        assert_eq!(answer.unwrap(), "1 DISPATCHED", "{blocker}");
    }
}

/// A leased row that somebody else has locked.
struct Held {
    claim: Claim,
    worker: Session,
    blocker: Session,
}

impl Held {
    async fn by(scene: &Scene, statement: &str, seconds: i32) -> Self {
        scene.admin.batch_execute("TRUNCATE payment_outbox_pending").await.unwrap();
        enqueue(&scene.admin, "p", statement).await;
        let (worker, blocker) = (scene.worker().await, scene.stranger().await);
        let claim = claim_for(&worker, "w", 1, seconds).await.remove(0);
        hold(&blocker, statement).await;
        Self { claim, worker, blocker }
    }

    async fn beyond_the_lease(&self, scene: &Scene) {
        scene.until_expired(self.claim.outbox_id).await;
        commit(&self.blocker).await;
    }

    async fn is_as_it_was(&self, scene: &Scene) {
        assert_eq!(scene.attempts_at(self.claim.outbox_id).await, [""; 0]);
        let leased = scene.text_of(self.claim.outbox_id, "lease_token::text").await;
        assert_eq!(leased, self.claim.lease_token.to_string());
        let over = "(lease_expires_at < clock_timestamp())::text";
        assert_eq!(scene.text_of(self.claim.outbox_id, over).await, "true");
    }
}
