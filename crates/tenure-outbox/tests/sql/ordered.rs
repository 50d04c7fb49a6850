//! Where order is asked for, only the lowest pending row is there to be claimed.

use crate::{
    calls::{Claim, claim, complete, complete_after, enqueue, release, repair, try_enqueue},
    scene::{Scene, begin, commit, on_every_version},
};

on_every_version![
    of_an_ordered_participant_only_the_lowest_row_is_claimable,
    the_next_comes_only_after_the_end_of_the_one_before,
    nothing_overtakes_a_row_that_is_tried_later,
    nothing_overtakes_a_row_that_was_released_or_repaired,
    the_lowest_row_is_returned_again_when_its_lease_has_expired,
    a_lowest_row_at_its_ceiling_makes_way,
    an_ordered_rail_orders_each_participant_by_itself,
    two_claimers_at_once_get_one_row_of_a_participant,
    neither_the_ordered_nor_the_others_keep_each_other_waiting,
];

async fn of_an_ordered_participant_only_the_lowest_row_is_claimable(scene: &Scene) {
    order_participants(scene, &["a", "b"]).await;
    for number in 0..5 {
        for participant in ["a", "free", "b"] {
            enqueue(&scene.admin, participant, &format!("{participant}{number}")).await;
        }
    }
    let worker = scene.worker().await;
    let expected = ["a1", "b1", "free1", "free2", "free3", "free4", "free5"];
    assert_eq!(names(&claim(&worker, "w", 100).await), expected);
    assert_eq!(names(&claim(&worker, "w", 100).await), [""; 0]);
}

async fn neither_the_ordered_nor_the_others_keep_each_other_waiting(scene: &Scene) {
    let ordered = ["a", "b", "c", "d", "e", "f"];
    order_participants(scene, &ordered).await;
    for participant in ordered {
        enqueue(&scene.admin, participant, participant).await;
        enqueue(&scene.admin, "free", &format!("beside {participant}")).await;
    }
    let worker = scene.worker().await;
    // Half each, then what is left of either, and all of it in the end.
    let of_the_free = |claims: &[Claim]| claims.iter().filter(|c| c.participant == "free").count();
    let first = claim(&worker, "w", 8).await;
    assert_eq!((first.len(), of_the_free(&first)), (8, 4));
    // An odd place goes to who has waited longer: the fifth ordered one came before the fifth free one.
    let second = claim(&worker, "w", 1).await;
    assert_eq!((second.len(), of_the_free(&second)), (1, 0));
    let third = claim(&worker, "w", 1).await;
    assert_eq!((third.len(), of_the_free(&third)), (1, 1));
    let last = claim(&worker, "w", 8).await;
    assert_eq!((last.len(), of_the_free(&last)), (2, 1));
}

async fn the_next_comes_only_after_the_end_of_the_one_before(scene: &Scene) {
    order_participants(scene, &["a"]).await;
    for key in ["one", "two", "three"] {
        enqueue(&scene.admin, "a", key).await;
    }
    let worker = scene.worker().await;
    for (expected, state) in [("a1", "DISPATCHED"), ("a2", "FAILED"), ("a3", "DISPATCHED")] {
        let claims = claim(&worker, "w", 100).await;
        assert_eq!(names(&claims), [expected]);
        assert_eq!(claim(&worker, "v", 100).await, []);
        complete(&worker, &claims[0], state).await.unwrap();
    }
}

async fn nothing_overtakes_a_row_that_is_tried_later(scene: &Scene) {
    order_participants(scene, &["a"]).await;
    for key in ["one", "two"] {
        enqueue(&scene.admin, "a", key).await;
    }
    let worker = scene.worker().await;
    let head = &claim(&worker, "w", 100).await[0];
    complete_after(&worker, head, Some("RETRYABLE"), 3600).await.unwrap();
    assert_eq!(claim(&worker, "w", 100).await, []);

    let hasten = "UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp()";
    scene.admin.batch_execute(hasten).await.unwrap();
    let again = claim(&worker, "w", 100).await;
    assert_eq!((names(&again), again[0].attempt_count), (vec!["a1".to_owned()], 1));
}

async fn nothing_overtakes_a_row_that_was_released_or_repaired(scene: &Scene) {
    order_participants(scene, &["a"]).await;
    for key in ["one", "two"] {
        enqueue(&scene.admin, "a", key).await;
    }
    let head = &claim(&scene.admin, "w", 100).await[0];
    assert_eq!(release(&scene.admin, &[head]).await, ["done"]);
    let worker = scene.worker().await;
    let again = claim(&worker, "w", 100).await;
    assert_eq!(names(&again), ["a1"]);
    scene.expire(head.outbox_id).await;
    assert_eq!(repair(&worker).await, [(head.outbox_id, 1)]);
    let wait = "UPDATE payment_outbox_pending SET next_attempt_at = now() + interval '1 hour'
        WHERE sequence_id = 1";
    scene.admin.batch_execute(wait).await.unwrap();
    assert_eq!(claim(&worker, "w", 100).await, []);
}

async fn the_lowest_row_is_returned_again_when_its_lease_has_expired(scene: &Scene) {
    order_participants(scene, &["a"]).await;
    for key in ["one", "two", "three"] {
        enqueue(&scene.admin, "a", key).await;
    }
    let worker = scene.worker().await;
    let head = &claim(&worker, "gone", 100).await[0];
    scene.expire(head.outbox_id).await;
    let again = claim(&worker, "w", 100).await;
    assert_eq!((names(&again), again[0].attempt_count), (vec!["a1".to_owned()], 1));
}

async fn a_lowest_row_at_its_ceiling_makes_way(scene: &Scene) {
    order_participants(scene, &["a"]).await;
    for key in ["one", "two"] {
        enqueue(&scene.admin, "a", key).await;
    }
    let worker = scene.worker().await;
    worker.batch_execute("SET symphony.outbox_retry_ceiling = 1").await.unwrap();
    let head = &claim(&worker, "gone", 100).await[0];
    scene.expire(head.outbox_id).await;
    assert_eq!(claim(&worker, "w", 100).await, [], "it was there when the claim looked");
    assert_eq!(names(&claim(&worker, "w", 100).await), ["a2"]);
}

async fn an_ordered_rail_orders_each_participant_by_itself(scene: &Scene) {
    let order = "INSERT INTO outbox_ordered_rails VALUES ('slow')";
    scene.admin.batch_execute(order).await.unwrap();
    for (participant, rail) in [
        ("a", "slow"),
        ("a", "fast"),
        ("a", "slow"),
        ("a", "fast"),
        ("b", "fast"),
        ("b", "slow"),
        ("b", "slow"),
    ] {
        let key = uuid::Uuid::new_v4().to_string();
        try_enqueue(&scene.admin, participant, rail, &key).await.unwrap();
    }
    let worker = scene.worker().await;
    let claims = claim(&worker, "w", 100).await;
    assert_eq!(names(&claims), ["a1", "a2", "a4", "b1", "b2"]);
    // What is over on another rail changes nothing.
    for claim in claims.iter().filter(|claim| names_of(claim) != "b2") {
        complete(&worker, claim, "DISPATCHED").await.unwrap();
    }
    assert_eq!(names(&claim(&worker, "w", 100).await), ["a3"]);
}

async fn two_claimers_at_once_get_one_row_of_a_participant(scene: &Scene) {
    order_participants(scene, &["a"]).await;
    for key in ["one", "two", "three"] {
        enqueue(&scene.admin, "a", key).await;
        enqueue(&scene.admin, "free", &format!("free {key}")).await;
    }
    let (first, second) = (scene.worker().await, scene.worker().await);
    begin(&first).await;
    let claims = claim(&first, "w", 1).await;
    assert_eq!(names(&claims), ["a1"]);
    // It neither waits nor takes the next one, whose turn it would be if the first claim came to nothing.
    assert_eq!(names(&claim(&second, "v", 100).await), ["free1", "free2", "free3"]);
    complete(&first, &claims[0], "DISPATCHED").await.unwrap();
    assert_eq!(claim(&second, "v", 100).await, []);
    commit(&first).await;
    assert_eq!(names(&claim(&second, "v", 100).await), ["a2"]);
}

async fn order_participants(scene: &Scene, participants: &[&str]) {
    let order = "INSERT INTO outbox_ordered_participants SELECT unnest($1::text[])";
    scene.admin.execute(order, &[&participants]).await.unwrap();
}

fn names(claims: &[Claim]) -> Vec<String> {
    let mut names: Vec<_> = claims.iter().map(names_of).collect();
    names.sort_unstable();
    names
}

fn names_of(claim: &Claim) -> String {
    format!("{}{}", claim.participant, claim.sequence_id)
}
