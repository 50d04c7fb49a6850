//! A worker with rails of its caller's own.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use serde_json::value::RawValue;
use tenure_outbox::{
    claim::Claim,
    install,
    instruction::Instruction,
    observe::Metrics,
    rail::{Outcome, Rail, Rails},
    store::{Lease, Store},
    worker::{self, Settings},
};
use tenure_testkit::{eventually_true, postgres::Postgres, secs};
use tokio_util::sync::CancellationToken;

/// Panics at the first attempt of one instruction.
struct Clumsy;

#[async_trait]
impl Rail for Clumsy {
    async fn dispatch(&self, claim: &Claim) -> Outcome {
        assert!(claim.instruction_id != "i-2" || claim.attempt_count > 0, "clumsy");
        Outcome::dispatched()
    }
}

fn instruction(number: usize) -> Instruction {
    Instruction {
        instruction_id: format!("i-{number}"),
        participant_id: "p".to_owned(),
        idempotency_key: format!("k-{number}"),
        rail_type: "clumsy".to_owned(),
        payload: RawValue::from_string("{}".to_owned()).unwrap(),
    }
}

#[tokio::test]
async fn a_rail_that_panics_loses_its_claim_and_nobody_elses() {
    let postgres = Postgres::start().await.unwrap();
    let admin = postgres.connect().await.unwrap();
    install::install(&admin).await.unwrap();
    let url = postgres.url().parse().unwrap();
    let store = Store::new(&url, secs(5));
    store.enqueue(&(1..=3).map(instruction).collect::<Vec<_>>()).await.unwrap();
    let settings = Settings {
        worker_id: "w".to_owned(),
        lease: Lease::of(1),
        batch: 10,
        concurrency: 10,
        poll_interval: secs(1),
        repair_interval: secs(1),
        repair_batch: 100,
        grace: secs(5),
    };
    let rails = Rails::new(Duration::from_secs(1)).with("clumsy", Arc::new(Clumsy));
    let metrics = Metrics::register(&mut Registry::default());
    let stop = CancellationToken::new();
    let worked = tokio::spawn({
        let stop = stop.clone();
        async move { worker::work(&url, store, rails, settings, metrics, &stop).await }
    });
    eventually_true("all are done", secs(20), async || {
        let left = "SELECT count(*) FROM payment_outbox_pending";
        admin.query_one(left, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    stop.cancel();
    worked.await.unwrap().unwrap();
    let states =
        "SELECT string_agg(state::text, ' ' ORDER BY attempt_no) FROM payment_outbox_attempts
                  GROUP BY instruction_id ORDER BY instruction_id";
    let rows = admin.query(states, &[]).await.unwrap();
    let states: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(states, ["DISPATCHED", "ZOMBIE_REQUEUE DISPATCHED", "DISPATCHED"]);
}
