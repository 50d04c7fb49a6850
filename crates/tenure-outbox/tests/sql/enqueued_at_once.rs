//! Two who enqueue at once: one row per key, and numbers that are committed in their order.

use tokio::task::JoinSet;

use crate::{
    calls::{claim_only, complete, ended, enqueue, enqueue_all},
    scene::{Scene, begin, commit, hold, on_every_version},
};

on_every_version![
    many_callers_of_one_key_share_one_row_and_one_number,
    numbers_are_committed_in_their_order,
    other_participants_do_not_wait,
    a_repeat_waits_for_a_first_that_is_not_committed,
    a_repeat_takes_the_place_of_a_first_that_is_undone,
    a_key_that_another_participant_had_first_is_found_after_a_wait,
    a_key_that_was_finished_while_an_enqueue_waited_is_found,
    a_key_that_was_finished_at_the_moment_of_the_insert_is_found,
    batches_with_crossed_participants_do_not_wait_for_each_other,
    batches_with_crossed_keys_do_not_wait_for_each_other,
];

const CROWD: usize = 16;

async fn many_callers_of_one_key_share_one_row_and_one_number(scene: &Scene) {
    let mut crowd = JoinSet::new();
    for number in 0..CROWD {
        let caller = scene.ingest().await;
        crowd.spawn(async move {
            if number % 4 == 0 {
                enqueue_all(&caller, &[("p", "k")]).await;
            }
            enqueue(&caller, "p", "k").await
        });
    }
    let mut answers = crowd.join_all().await;
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].sequence_id, 1);
    assert_eq!(enqueue(&scene.admin, "p", "next").await.sequence_id, 2);
    assert_eq!(scene.text("SELECT count(*)::text FROM payment_outbox_pending").await, "2");
}

async fn numbers_are_committed_in_their_order(scene: &Scene) {
    let (first, second) = (scene.ingest().await, scene.ingest().await);
    // Both when the participant is new and when it is known.
    for number in [1, 3] {
        begin(&first).await;
        let one = enqueue(&first, "p", &format!("one {number}")).await;
        let key = format!("two {number}");
        let enqueuing = enqueue(&second, "p", &key);
        let two = scene.while_waiting(&second, enqueuing, commit(&first)).await;
        assert_eq!((one.sequence_id, two.sequence_id), (number, number + 1));
    }
    begin(&first).await;
    enqueue_all(&first, &[("p", "five"), ("p", "six")]).await;
    let seventh = [("p", "seven")];
    let enqueuing = enqueue_all(&second, &seventh);
    let answer = scene.while_waiting(&second, enqueuing, commit(&first)).await;
    assert_eq!(answer, ["done 7 PENDING"]);
}

async fn other_participants_do_not_wait(scene: &Scene) {
    let (first, second) = (scene.ingest().await, scene.ingest().await);
    begin(&first).await;
    enqueue(&first, "a", "a").await;
    assert_eq!(enqueue(&second, "b", "b").await.sequence_id, 1);
    assert_eq!(enqueue_all(&second, &[("c", "c")]).await, ["done 1 PENDING"]);
    commit(&first).await;
}

async fn a_repeat_waits_for_a_first_that_is_not_committed(scene: &Scene) {
    let (first, second) = (scene.ingest().await, scene.ingest().await);
    begin(&first).await;
    let one = enqueue(&first, "p", "k").await;
    let two = scene.while_waiting(&second, enqueue(&second, "p", "k"), commit(&first)).await;
    assert_eq!(two, one);

    begin(&first).await;
    enqueue(&first, "p", "l").await;
    let told = [("p", "l"), ("p", "m")];
    let answer = scene.while_waiting(&second, enqueue_all(&second, &told), commit(&first)).await;
    assert_eq!(answer, ["repeat 2 PENDING", "done 3 PENDING"]);
}

async fn a_repeat_takes_the_place_of_a_first_that_is_undone(scene: &Scene) {
    let (first, second) = (scene.ingest().await, scene.ingest().await);
    begin(&first).await;
    let one = enqueue(&first, "p", "k").await;
    let undo = async { first.batch_execute("ROLLBACK").await.unwrap() };
    let two = scene.while_waiting(&second, enqueue(&second, "p", "k"), undo).await;
    assert_eq!((two.sequence_id, two.state.as_str()), (1, "PENDING"));
    assert_ne!(two.outbox_id, one.outbox_id);
}

/// The participants differ, so that the key alone is what they meet at.
async fn a_key_that_another_participant_had_first_is_found_after_a_wait(scene: &Scene) {
    let (first, second) = (scene.ingest().await, scene.ingest().await);
    begin(&first).await;
    let one = enqueue(&first, "a", "k").await;
    let two = scene.while_waiting(&second, enqueue(&second, "b", "k"), commit(&first)).await;
    assert_eq!(two, one);

    begin(&first).await;
    enqueue(&first, "a", "l").await;
    let told = [("c", "m"), ("c", "l"), ("c", "n")];
    let answer = scene.while_waiting(&second, enqueue_all(&second, &told), commit(&first)).await;
    assert_eq!(answer[1], "repeat 2 PENDING");
    assert!(answer[0].starts_with("done") && answer[2].starts_with("done"), "{answer:?}");
    assert_eq!(scene.text("SELECT count(*)::text FROM payment_outbox_pending").await, "4");
}

/// The enqueue has looked once, and waits for its participant's number.
async fn a_key_that_was_finished_while_an_enqueue_waited_is_found(scene: &Scene) {
    let (blocker, late) = (scene.stranger().await, scene.ingest().await);
    enqueue_all(&scene.admin, &[("b", "known")]).await;
    complete(&scene.admin, &claim_only(&scene.admin, "w").await, "DISPATCHED").await.unwrap();
    let lock = "SELECT FROM participant_outbox_sequences WHERE participant_id = 'b' FOR UPDATE";
    for key in ["single", "batch"] {
        hold(&blocker, lock).await;
        let meanwhile = async {
            enqueue(&scene.admin, "a", key).await;
            let claim = claim_only(&scene.admin, "w").await;
            complete(&scene.admin, &claim, "DISPATCHED").await.unwrap();
            commit(&blocker).await;
        };
        if key == "single" {
            let answer = scene.while_waiting(&late, enqueue(&late, "b", key), meanwhile).await;
            assert_eq!((answer.sequence_id, answer.state.as_str()), (1, "DISPATCHED"));
        } else {
            let told = [("b", key)];
            let answer = scene.while_waiting(&late, enqueue_all(&late, &told), meanwhile).await;
            assert_eq!(answer, ["repeat 2 DISPATCHED"]);
        }
        assert_eq!(scene.text("SELECT count(*)::text FROM payment_outbox_pending").await, "0");
    }
}

/// The enqueue has looked twice, and waits for the one who inserts the same key: whose row is gone when it
/// commits, so that nothing is in the way of a second one.
async fn a_key_that_was_finished_at_the_moment_of_the_insert_is_found(scene: &Scene) {
    let (first, late) = (scene.stranger().await, scene.ingest().await);
    for key in ["single", "batch"] {
        begin(&first).await;
        let one = enqueue(&first, "a", key).await;
        let claim = claim_only(&first, "w").await;
        complete(&first, &claim, "FAILED").await.unwrap();
        if key == "single" {
            let answer = scene.while_waiting(&late, enqueue(&late, "b", key), commit(&first)).await;
            assert_eq!((answer.outbox_id, answer.state.as_str()), (one.outbox_id, "FAILED"));
            assert_eq!(answer.created_at, one.created_at);
        } else {
            let told = [("b", "fresh"), ("b", key)];
            let answer =
                scene.while_waiting(&late, enqueue_all(&late, &told), commit(&first)).await;
            assert_eq!(answer[1], "repeat 2 FAILED");
            assert!(answer[0].starts_with("done"), "{answer:?}");
        }
        let left =
            "SELECT coalesce(string_agg(instruction_id, ' '), '') FROM payment_outbox_pending";
        assert_eq!(scene.text(left).await, if key == "single" { "" } else { "fresh" });
    }
}

/// Both come to the lower participant first, so that neither holds the higher one while it waits.
async fn batches_with_crossed_participants_do_not_wait_for_each_other(scene: &Scene) {
    let (blocker, first, second) =
        (scene.stranger().await, scene.ingest().await, scene.ingest().await);
    enqueue_all(&scene.admin, &[("a", "a1"), ("b", "b1")]).await;
    let lock = |participant: &str, mode: &str| {
        format!(
            "SELECT FROM participant_outbox_sequences WHERE participant_id = '{participant}'
            FOR UPDATE {mode}"
        )
    };
    hold(&blocker, &lock("a", "")).await;
    let meanwhile = async {
        scene.until_waiting(&first).await;
        scene.until_waiting(&second).await;
        assert_eq!(ended(&scene.admin.batch_execute(&lock("b", "NOWAIT")).await), "00000");
        commit(&blocker).await;
    };
    let (upwards, downwards) = ([("a", "x"), ("b", "y")], [("b", "v"), ("a", "w")]);
    let (one, two, ()) =
        tokio::join!(enqueue_all(&first, &upwards), enqueue_all(&second, &downwards), meanwhile);
    let mut answers = [one, two].concat();
    answers.sort_unstable();
    let expected = ["done 2 PENDING", "done 2 PENDING", "done 3 PENDING", "done 3 PENDING"];
    assert_eq!(answers, expected);
}

/// The same keys for different participants, which do not keep the batches apart.
async fn batches_with_crossed_keys_do_not_wait_for_each_other(scene: &Scene) {
    let (blocker, first, second) =
        (scene.ingest().await, scene.ingest().await, scene.ingest().await);
    begin(&blocker).await;
    enqueue(&blocker, "c", "1").await;
    let meanwhile = async {
        scene.until_waiting(&first).await;
        scene.until_waiting(&second).await;
        blocker.batch_execute("ROLLBACK").await.unwrap();
    };
    let (upwards, downwards) = ([("a", "1"), ("a", "2")], [("b", "2"), ("b", "1")]);
    let (one, two, ()) =
        tokio::join!(enqueue_all(&first, &upwards), enqueue_all(&second, &downwards), meanwhile);
    let is_all =
        |answers: &[String], result: &str| answers.iter().all(|answer| answer.starts_with(result));
    let [done, repeat] = if is_all(&one, "done") { [one, two] } else { [two, one] };
    assert!(is_all(&done, "done") && is_all(&repeat, "repeat"), "{done:?} {repeat:?}");
    assert_eq!(scene.text("SELECT count(*)::text FROM payment_outbox_pending").await, "2");
}
