//! Rows that lie behind the marks of a session: a sweep finds them, soon enough.

use tokio_postgres::Client;

use crate::{
    calls::{claim, claim_only, enqueue, release},
    scene::{Scene, on_every_version},
};

on_every_version![
    a_row_that_is_committed_late_is_found_by_a_sweep_within_ten_seconds_of_the_last,
    a_row_that_is_released_is_found_by_who_has_gone_past_it,
];

/// A session that has gone past all that was due a second ago, and whose last sweep took four seconds: its process was
/// frozen.
async fn goes_past(worker: &Client, swept_seconds_ago: i64) {
    let marks = "SELECT set_config('symphony.outbox_claim_marks', format('{%s,%s,%s,4000000}',
            n.now - 1000000, n.now - 1000000, n.now - $1::bigint * 1000000), false)
        FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS n";
    worker.query(marks, &[&swept_seconds_ago]).await.unwrap();
}

async fn a_row_that_is_committed_late_is_found_by_a_sweep_within_ten_seconds_of_the_last(
    scene: &Scene,
) {
    let worker = scene.worker().await;
    let late = enqueue(&scene.admin, "p", "late").await;
    // As if its transaction had begun a minute ago and been committed now.
    let older = "UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() - interval '1 minute'";
    scene.admin.batch_execute(older).await.unwrap();
    goes_past(&worker, 5).await;
    assert!(claim(&worker, "w", 5).await.is_empty(), "the marks are what this is about");
    goes_past(&worker, 11).await;
    assert_eq!(claim_only(&worker, "w").await.outbox_id, late.outbox_id);
}

async fn a_row_that_is_released_is_found_by_who_has_gone_past_it(scene: &Scene) {
    let (one, other) = (scene.worker().await, scene.worker().await);
    enqueue(&scene.admin, "p", "k").await;
    let older = "UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() - interval '1 minute'";
    scene.admin.batch_execute(older).await.unwrap();
    let claimed = claim_only(&one, "w").await;
    assert_eq!(release(&one, &[&claimed]).await, ["done"]);
    goes_past(&other, 1).await;
    assert_eq!(claim_only(&other, "v").await.outbox_id, claimed.outbox_id);
}
