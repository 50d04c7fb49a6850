//! The slots that sessions lock: one for every session, and all of them say what the fence says.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tenure::fence::{Fence, Raised, postgres};

use crate::server::{SCOPE, Server, attempt, lease_rows, over, term};

/// Slots that differ from their scope's fence in anything, or that are missing.
const DIFFERENT: &str = "SELECT FROM generate_series(0, 31) AS n CROSS JOIN tenure_fences AS f
     LEFT JOIN tenure_fence_slots AS s ON s.scope = f.scope AND s.slot = n
     WHERE (s.epoch, s.holder, s.lock_kind, s.lock_place, s.margin_ms)
         IS DISTINCT FROM (f.epoch, f.holder, f.lock_kind, f.lock_place, f.margin_ms)";

/// More sessions than slots, so that every slot has one and some have two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_waits_for_an_open_transaction_in_whatever_slot_it_is() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let mut sessions = join_all((0..40).map(|_| server.session())).await;
    let mut slots = BTreeSet::new();
    for session in &sessions {
        slots.insert(session.query_one("SELECT tenure_fence_slot()", &[]).await.unwrap().get(0));
    }
    assert!(slots.len() > 16 && slots.iter().all(|slot: &i16| (0..32).contains(slot)), "{slots:?}");

    let mut open = Vec::new();
    for session in &mut sessions {
        open.push(postgres::begin(session, &old).await.unwrap());
    }
    let raise = tokio::spawn({
        let fence = server.fence();
        async move { fence.raise(&term("b", 2), &lease_rows()).await }
    });
    for transaction in open {
        server.until_a_session_waits().await;
        assert_eq!(server.fence_row().await, (1, "a".to_owned()));
        transaction.commit().await.unwrap();
    }
    assert_eq!(raise.await.unwrap().unwrap(), Raised::Raised);

    let late = crate::server::fence_call(&old);
    for session in &sessions {
        assert_eq!(attempt(session, &late).await, over(), "no slot lets it by");
    }
}

#[tokio::test]
async fn slots_say_what_the_fence_says_whoever_changed_it() {
    let server = Server::start().await;
    let session = server.session().await;
    for change in [
        "SELECT 1",
        "SELECT tenure_burn_epochs('billing', 7)",
        "SELECT tenure_switch_lock('billing')",
        "UPDATE tenure_fences SET epoch = epoch + 1, holder = 'by hand', margin_ms = 7",
    ] {
        server.lead("a").await;
        session.batch_execute(change).await.unwrap();
        assert!(session.query(DIFFERENT, &[]).await.unwrap().is_empty(), "{change}");
    }
    session.execute("DELETE FROM tenure_fences WHERE scope = $1", &[&SCOPE]).await.unwrap();
    assert!(session.query("SELECT FROM tenure_fence_slots", &[]).await.unwrap().is_empty());
}

/// What the slots are for: a row that several sessions lock at once makes each of them a multixact.
#[tokio::test]
async fn sessions_of_two_slots_do_not_share_a_lock() {
    let server = Server::start().await;
    let term = server.lead("a").await;
    let mut sessions = Vec::new();
    let mut slots = BTreeSet::new();
    while sessions.len() < 8 {
        let session = server.session().await;
        let slot: i16 = session.query_one("SELECT tenure_fence_slot()", &[]).await.unwrap().get(0);
        if slots.insert(slot) {
            sessions.push(session);
        }
    }
    let next = "SELECT next_multixact_id::text FROM pg_control_checkpoint()";
    let probe = server.session().await;
    let multixact = async || -> String {
        probe.batch_execute("CHECKPOINT").await.unwrap();
        probe.query_one(next, &[]).await.unwrap().get(0)
    };
    let before = multixact().await;
    let mut open = Vec::new();
    for session in &mut sessions {
        open.push(postgres::begin(session, &term).await.unwrap());
    }
    drop(open);
    assert_eq!(multixact().await, before);

    let share = "BEGIN; SELECT FROM tenure_fence_slots WHERE slot = 0 FOR SHARE";
    for session in &sessions[..2] {
        session.batch_execute(share).await.unwrap();
    }
    assert_ne!(multixact().await, before, "one slot for both would have made one");
}
