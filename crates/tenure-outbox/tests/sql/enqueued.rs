//! An instruction is enqueued once per key, and numbered per participant.

use std::future::poll_fn;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, error::DbError};

use crate::{
    calls::{
        claim_only, complete, complete_after, ended, enqueue, enqueue_all, sqlstate_of, try_enqueue,
    },
    scene::{Scene, on_every_version},
};

on_every_version![
    a_repeat_returns_the_first_row,
    a_repeat_with_something_else_in_it_is_warned_of_and_returns_the_first_row,
    a_repeat_returns_the_state_of_the_latest_attempt,
    a_repeat_is_known_for_good_and_for_every_participant,
    keys_are_told_apart_by_instruction_and_by_key,
    numbers_count_from_one_for_every_participant,
    a_rolled_back_enqueue_leaves_no_gap,
    a_batch_answers_row_by_row,
    a_batch_repeats_what_is_pending_and_what_is_over,
    a_batch_knows_a_repeat_within_itself,
    single_and_batch_share_their_numbers,
    a_worker_cannot_enqueue,
];

async fn a_repeat_returns_the_first_row(scene: &Scene) {
    let ingest = scene.ingest().await;
    let first = enqueue(&ingest, "p", "k").await;
    assert_eq!((first.sequence_id, first.state.as_str()), (1, "PENDING"));
    for _ in 0..3 {
        assert_eq!(enqueue(&ingest, "p", "k").await, first);
    }
    // Also when it says something else: the first word counts.
    assert_eq!(try_enqueue(&ingest, "p", "another rail", "k").await.unwrap(), first);
    assert_eq!(
        scene.text("SELECT string_agg(rail_type, ' ') FROM payment_outbox_pending").await,
        "wire"
    );
}

/// Somebody who enqueues, and the warnings that it gets.
async fn hearing(scene: &Scene) -> (Client, mpsc::UnboundedReceiver<DbError>) {
    let (client, mut connection) =
        tokio_postgres::connect(&scene.postgres.url(), NoTls).await.unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(warning) = message {
                let _ = tell.send(warning);
            }
        }
    });
    (client, told)
}

/// An amount that was changed does not pass in silence.
async fn a_repeat_with_something_else_in_it_is_warned_of_and_returns_the_first_row(scene: &Scene) {
    let (ingest, mut warnings) = hearing(scene).await;
    let worker = scene.worker().await;
    let first = enqueue(&ingest, "p", "k").await;
    for is_over in [false, true] {
        assert_eq!(enqueue(&ingest, "p", "k").await.outbox_id, first.outbox_id);
        assert!(warnings.try_recv().is_err(), "it is the same");
        let other = "SELECT outbox_id FROM public.enqueue_payment_outbox('k', 'q', 'k', 'card', '{\"amount\": 2}')";
        let row = ingest.query_one(other, &[]).await.unwrap();
        assert_eq!(row.get::<_, uuid::Uuid>(0), first.outbox_id);
        let warning = warnings.try_recv().unwrap();
        assert_eq!(warning.code().code(), "P7004");
        let told =
            "instruction k was enqueued before with another participant_id, rail_type, payload";
        assert_eq!(warning.message(), told);
        let batch = "SELECT result, differs FROM public.enqueue_payment_outbox_batch(
            ARRAY['k', 'k'], ARRAY['p', 'p'], ARRAY['k', 'k'], ARRAY['wire', 'wire'],
            ARRAY['{\"amount\": 1}', '{\"amount\": 1.5}']::jsonb[])";
        let rows = ingest.query(batch, &[]).await.unwrap();
        let told: Vec<(String, Option<String>)> =
            rows.iter().map(|row| (row.get("result"), row.get("differs"))).collect();
        let repeat = || "repeat".to_owned();
        assert_eq!(told, [(repeat(), None), (repeat(), Some("payload".to_owned()))]);
        assert_eq!(warnings.try_recv().unwrap().code().code(), "P7004");
        if !is_over {
            complete(&worker, &claim_only(&worker, "w").await, "DISPATCHED").await.unwrap();
        }
    }
}

async fn a_repeat_returns_the_state_of_the_latest_attempt(scene: &Scene) {
    let (ingest, worker) = (scene.ingest().await, scene.worker().await);
    for last in ["DISPATCHED", "FAILED"] {
        let first = enqueue(&ingest, "p", last).await;
        for state in ["RETRYABLE", last] {
            let claim = claim_only(&worker, "w").await;
            assert_eq!(enqueue(&ingest, "p", last).await, first);
            complete(&worker, &claim, state).await.unwrap();
        }
        let repeat = enqueue(&ingest, "p", last).await;
        assert_eq!(repeat.state, last);
        assert_eq!(repeat.outbox_id, first.outbox_id);
        assert_eq!(repeat.sequence_id, first.sequence_id);
        assert_eq!(repeat.created_at, first.created_at);
    }
}

async fn a_repeat_is_known_for_good_and_for_every_participant(scene: &Scene) {
    let (ingest, worker) = (scene.ingest().await, scene.worker().await);
    let first = enqueue(&ingest, "a", "k").await;
    assert_eq!(enqueue(&ingest, "b", "k").await, first);
    complete(&worker, &claim_only(&worker, "w").await, "DISPATCHED").await.unwrap();
    let over = enqueue(&ingest, "b", "k").await;
    assert_eq!((over.outbox_id, over.state.as_str()), (first.outbox_id, "DISPATCHED"));
    // It took no number, and left nothing to be done.
    assert_eq!(enqueue(&ingest, "b", "another").await.sequence_id, 1);
    assert_eq!(scene.text("SELECT count(*)::text FROM payment_outbox_pending").await, "1");
}

async fn keys_are_told_apart_by_instruction_and_by_key(scene: &Scene) {
    let ingest = scene.ingest().await;
    let mut ids = Vec::new();
    for (instruction, key) in
        [("i", "k"), ("i", "l"), ("j", "k"), ("I", "k"), ("i", "k "), ("i k", "")]
    {
        let call = "SELECT outbox_id FROM public.enqueue_payment_outbox($1, 'p', $2, 'wire', '{}')";
        match ingest.query_one(call, &[&instruction, &key]).await {
            Ok(row) => ids.push(row.get::<_, uuid::Uuid>(0)),
            Err(error) => assert_eq!((key, sqlstate_of(&error)), ("", "22023")),
        }
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

async fn numbers_count_from_one_for_every_participant(scene: &Scene) {
    let ingest = scene.ingest().await;
    for number in 1..=3 {
        for participant in ["a", "b", "B", "ä"] {
            let key = format!("{participant}{number}");
            assert_eq!(enqueue(&ingest, participant, &key).await.sequence_id, number);
            enqueue(&ingest, participant, &key).await;
        }
    }
}

async fn a_rolled_back_enqueue_leaves_no_gap(scene: &Scene) {
    let ingest = scene.ingest().await;
    enqueue(&ingest, "p", "one").await;
    ingest.batch_execute("BEGIN").await.unwrap();
    assert_eq!(enqueue(&ingest, "p", "undone").await.sequence_id, 2);
    ingest.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(enqueue(&ingest, "p", "two").await.sequence_id, 2);
}

async fn a_batch_answers_row_by_row(scene: &Scene) {
    let ingest = scene.ingest().await;
    let told = [("a", "1"), ("b", "2"), ("", "3"), ("a", "4"), ("b", ""), ("a", "1"), ("c", "6")];
    let answers = [
        "done 1 PENDING",
        "done 1 PENDING",
        "invalid",
        "done 2 PENDING",
        "invalid",
        "repeat 1 PENDING",
        "done 1 PENDING",
    ];
    assert_eq!(enqueue_all(&ingest, &told).await, answers);

    let payloads = "SELECT concat_ws(' ', result, sequence_id, state) FROM public.enqueue_payment_outbox_batch(
            ARRAY['7', '8', '9', '10', '11', NULL], ARRAY['a', 'a', 'a', NULL, 'a', 'a'],
            ARRAY['7', '8', '9', '10', '11', '12'], ARRAY['wire', 'wire', '', 'wire', 'wire', 'wire'],
            ARRAY['[]', '{}', '{}', '{}', NULL, '{}']::jsonb[]
        )";
    let answers = ["invalid", "done 3 PENDING", "invalid", "invalid", "invalid", "invalid"];
    assert_eq!(texts(&ingest, payloads).await, answers);
    assert_eq!(scene.text("SELECT count(*)::text FROM payment_outbox_pending").await, "5");
}

async fn a_batch_repeats_what_is_pending_and_what_is_over(scene: &Scene) {
    let (ingest, worker) = (scene.ingest().await, scene.worker().await);
    enqueue(&ingest, "p", "over").await;
    complete(&worker, &claim_only(&worker, "w").await, "FAILED").await.unwrap();
    enqueue(&ingest, "p", "tried").await;
    complete_after(&worker, &claim_only(&worker, "w").await, Some("RETRYABLE"), 60).await.unwrap();
    enqueue(&ingest, "p", "pending").await;
    let told = [("p", "pending"), ("p", "new"), ("p", "over"), ("p", "tried"), ("other", "over")];
    let answers = [
        "repeat 3 PENDING",
        "done 4 PENDING",
        "repeat 1 FAILED",
        "repeat 2 PENDING",
        "repeat 1 FAILED",
    ];
    assert_eq!(enqueue_all(&ingest, &told).await, answers);
    let again: Vec<_> = answers.iter().map(|answer| answer.replace("done", "repeat")).collect();
    assert_eq!(enqueue_all(&ingest, &told).await, again);
    assert_eq!(enqueue_all(&ingest, &[("p", "next")]).await, ["done 5 PENDING"], "no gap");
}

async fn a_batch_knows_a_repeat_within_itself(scene: &Scene) {
    let ingest = scene.ingest().await;
    let told = [("b", "k"), ("a", "k"), ("a", "l"), ("b", "k")];
    let answers = ["done 1 PENDING", "repeat 1 PENDING", "done 1 PENDING", "repeat 1 PENDING"];
    assert_eq!(enqueue_all(&ingest, &told).await, answers);
    assert_eq!(enqueue(&ingest, "a", "m").await.sequence_id, 2);
}

async fn single_and_batch_share_their_numbers(scene: &Scene) {
    let ingest = scene.ingest().await;
    assert_eq!(enqueue(&ingest, "p", "1").await.sequence_id, 1);
    let two = [("p", "2"), ("p", "3")];
    assert_eq!(enqueue_all(&ingest, &two).await, ["done 2 PENDING", "done 3 PENDING"]);
    assert_eq!(enqueue(&ingest, "p", "4").await.sequence_id, 4);
    let bump = "SELECT public.bump_participant_outbox_seq('p')";
    let bumped: i64 = scene.admin.query_one(bump, &[]).await.unwrap().get(0);
    assert_eq!(bumped, 5);
    assert_eq!(enqueue_all(&ingest, &[("p", "6")]).await, ["done 6 PENDING"]);
}

async fn a_worker_cannot_enqueue(scene: &Scene) {
    let worker = scene.worker().await;
    assert_eq!(ended(&try_enqueue(&worker, "p", "wire", "k").await), "42501");
}

async fn texts(client: &Client, query: &str) -> Vec<String> {
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}
