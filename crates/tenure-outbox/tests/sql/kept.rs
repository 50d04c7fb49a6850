//! Leases that are extended, and those that are given back.

use crate::{
    calls::{
        Claim, claim, claim_for, claim_only, complete, complete_all, enqueue, extend, leased,
        release, repair,
    },
    scene::{Scene, on_every_version},
};

on_every_version![
    an_extended_lease_outlasts_its_first_end,
    extending_never_shortens,
    a_lease_that_is_over_is_not_extended,
    a_released_row_is_claimable_at_once_and_nothing_was_tried,
    a_released_row_is_not_its_workers_any_more,
    what_is_not_leased_is_not_released,
    a_forged_token_is_not_answered_like_the_true_one_beside_it,
    a_retry_that_is_released_keeps_its_number,
];

async fn an_extended_lease_outlasts_its_first_end(scene: &Scene) {
    let worker = scene.worker().await;
    let outbox_id = enqueue(&scene.admin, "p", "k").await.outbox_id;
    let short = &claim_for(&worker, "w", 1, 60).await[0];
    let end = scene.text_of(outbox_id, "lease_expires_at::text").await;
    assert_eq!(extend(&worker, &[short], 600).await, ["done"]);
    let gained = format!(
        "(lease_expires_at - '{end}' BETWEEN interval '9 minutes' AND interval '10 minutes')::text"
    );
    assert_eq!(scene.text_of(outbox_id, &gained).await, "true");
    assert_eq!(complete(&worker, short, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
}

async fn extending_never_shortens(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    let end = scene.text_of(claim.outbox_id, "lease_expires_at::text").await;
    assert_eq!(extend(&worker, &[claim], 1).await, ["done"]);
    assert_eq!(scene.text_of(claim.outbox_id, "lease_expires_at::text").await, end);
}

async fn a_lease_that_is_over_is_not_extended(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 5).await;
    let [good, expired, repaired, done, foreign] = &claims[..] else { panic!("five") };
    scene.expire(repaired.outbox_id).await;
    repair(&worker).await;
    scene.expire(expired.outbox_id).await;
    complete(&worker, done, "DISPATCHED").await.unwrap();

    let asked = [expired, good, repaired, done, &foreign.forged()];
    let answers = ["lease_lost", "done", "lease_lost", "lease_lost", "lease_lost"];
    assert_eq!(extend(&worker, &asked, 600).await, answers);
    assert_eq!(extend(&worker, &[&good.of("v")], 600).await, ["lease_lost"]);
    // It stays over: whoever comes next takes it.
    assert_eq!(claim_only(&worker, "v").await.outbox_id, expired.outbox_id);
}

async fn a_released_row_is_claimable_at_once_and_nothing_was_tried(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    assert_eq!(release(&worker, &[claim]).await, ["done"]);
    assert_eq!(scene.attempts_at(claim.outbox_id).await, [""; 0]);
    let is_due = "(next_attempt_at <= clock_timestamp())::text";
    assert_eq!(scene.text_of(claim.outbox_id, is_due).await, "true");
    let again = claim_only(&worker, "w").await;
    assert_eq!((again.outbox_id, again.attempt_count), (claim.outbox_id, 0));
}

async fn a_released_row_is_not_its_workers_any_more(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    assert_eq!(release(&worker, &[claim]).await, ["done"]);
    let again = claim_only(&worker, "w").await;
    assert_eq!(release(&worker, &[claim]).await, ["lease_lost"]);
    assert_eq!(extend(&worker, &[claim], 600).await, ["lease_lost"]);
    assert_eq!(complete_all(&worker, &[(claim, "DISPATCHED")]).await, ["lease_lost"]);
    assert_eq!(complete(&worker, &again, "DISPATCHED").await.unwrap(), "1 DISPATCHED");
}

async fn what_is_not_leased_is_not_released(scene: &Scene) {
    let worker = scene.worker().await;
    let claims = leased(&scene.admin, "w", 4).await;
    let [good, expired, done, foreign] = &claims[..] else { panic!("four") };
    scene.expire(expired.outbox_id).await;
    complete(&worker, done, "DISPATCHED").await.unwrap();
    let asked = [expired, done, &foreign.forged(), good];
    let answers = ["lease_lost", "lease_lost", "lease_lost", "done"];
    assert_eq!(release(&worker, &asked).await, answers);
    assert_eq!(release(&worker, &[&foreign.of("v")]).await, ["lease_lost"]);
    // The expired one is not forgotten: it counts as lost.
    assert_eq!(repair(&worker).await, [(expired.outbox_id, 1)]);
}

async fn a_forged_token_is_not_answered_like_the_true_one_beside_it(scene: &Scene) {
    let worker = scene.worker().await;
    let claim = &leased(&scene.admin, "w", 1).await[0];
    let both: [&Claim; 2] = [&claim.forged(), claim];
    assert_eq!(extend(&worker, &both, 600).await, ["lease_lost", "done"]);
    assert_eq!(release(&worker, &both).await, ["lease_lost", "done"]);
}

async fn a_retry_that_is_released_keeps_its_number(scene: &Scene) {
    let worker = scene.worker().await;
    enqueue(&scene.admin, "p", "k").await;
    let first = claim_only(&worker, "w").await;
    complete(&worker, &first, "RETRYABLE").await.unwrap();
    let second = claim_only(&worker, "w").await;
    assert_eq!(release(&worker, &[&second]).await, ["done"]);
    // A session does not always look again at once where it has found nothing; another one does.
    let other = scene.worker().await;
    let third = &claim(&other, "w", 1).await[0];
    assert_eq!(third.attempt_count, 1);
    assert_eq!(complete(&worker, third, "DISPATCHED").await.unwrap(), "2 DISPATCHED");
}
