//! What every store promises.

/// A test for each law, on a database that starts by itself.
macro_rules! every_law {
    ($backend:ty $(, $attribute:meta)?) => {
        every_law! { $backend $(, $attribute)?:
            a_submission_is_stored_once_across_instances,
            anything_else_under_an_id_is_a_conflict,
            ids_are_told_apart_by_case,
            an_id_is_kept_as_it_is_whatever_it_holds,
            an_id_that_is_twice_in_a_batch_is_stored_once,
            batches_with_crossed_ids_do_not_fail,
            one_that_the_database_refuses_fails_alone,
            a_refresh_brings_what_a_rebuild_did_not,
            a_refresh_misses_nothing_when_transactions_commit_out_of_order,
            equal_moments_across_a_page_boundary_are_not_skipped,
            attempts_are_numbered_without_gaps_and_appended,
            a_reservation_is_repeated_under_its_number_and_seen_by_nobody,
            a_key_is_held_until_its_outcome_is_known_and_shown_with_each_attempt,
            no_attempt_has_finished_after_it_was_recorded,
            a_stale_term_writes_nothing,
            what_has_moved_on_is_left_out,
            what_is_not_due_by_the_databases_clock_is_not_taken,
            an_intent_whose_deadline_has_passed_is_ended_and_never_begun,
            a_one_shot_of_a_dead_leader_is_given_up_where_that_is_asked_for,
            what_is_given_back_was_never_taken,
            an_id_that_was_deleted_begins_anew,
            a_text_that_is_too_long_is_cut,
            a_webhook_is_begun_once_and_its_result_kept,
            every_write_sets_last_modified_at,
            every_write_is_brought_by_a_refresh,
        }
    };
    ($backend:ty: $($law:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $law() {
                crate::laws::$law(&<$backend>::start().await).await;
            }
        )*
    };
    ($backend:ty, $attribute:meta: $($law:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            #[$attribute]
            async fn $law() {
                let backend = <$backend>::start().await;
                if crate::scene::Backend::shows(&backend, stringify!($law)) {
                    crate::laws::$law(&backend).await;
                }
            }
        )*
    };
}

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use tenure_submissions::{
    contract::{Contract, Policy, Webhook},
    intent::{ExhaustedReason, Status},
    policy::{Next, Outcome},
    store::{Finished, OneShot, Reservation, Reserve, StoreError, Submitted},
};

use crate::scene::{
    Backend, accepted, contract, failed, finished, reserve, submission, submit, with_contract,
};

pub async fn a_submission_is_stored_once_across_instances(backend: &dyn Backend) {
    let stored = submit(backend, submission("a", "{}")).await;
    assert_eq!((stored.view.status, stored.attempts), (Status::Pending, 0));
    for store in [backend.store(), &*backend.another()] {
        let again = store.submit(&[submission("a", "{}")]).await.unwrap().remove(0);
        assert_eq!(again, Submitted::Existing(stored.clone()));
    }
    let found = backend.store().find(&["a", "b"]).await.unwrap();
    assert_eq!(found, backend.store().find_rows(&[stored.row, -1]).await.unwrap());
    assert_eq!(found, [stored]);
}

pub async fn anything_else_under_an_id_is_a_conflict(backend: &dyn Backend) {
    submit(backend, submission("a", "{}")).await;
    let conflict = [Submitted::Conflict { existing_target: "otp".to_owned() }];
    let other = [submission("a", "{ }")];
    assert_eq!(backend.store().submit(&other).await.unwrap(), conflict);
    let mut elsewhere = submission("a", "{}");
    elsewhere.submission_target = "push".to_owned();
    assert_eq!(backend.store().submit(&[elsewhere]).await.unwrap(), conflict);
}

pub async fn ids_are_told_apart_by_case(backend: &dyn Backend) {
    let (small, large) = (submission("a", "1"), submission("A", "2"));
    let answers = backend.store().submit(&[small, large]).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Submitted::New(_))), "{answers:?}");
}

pub async fn an_id_is_kept_as_it_is_whatever_it_holds(backend: &dyn Backend) {
    let ids =
        [r#""a""#, r"a\b", r#"a\"#, "a'b", "a\nb\tc", " a", "größe", "𝄞", "%_[a]", r#"{"a": 1}"#];
    let (store, term) = (backend.store(), backend.term().await);
    let batch: Vec<_> = ids.iter().map(|id| submission(id, "{}")).collect();
    store.submit(&batch).await.unwrap();
    for id in ids {
        let stored = store.find(&[id]).await.unwrap().remove(0);
        assert_eq!(stored.view.intent_id, id);
        let reservation = reserve(backend, &term, stored.row).await;
        store.record(&term, &[accepted(&reservation)]).await.unwrap();
        assert_eq!(store.attempts(id).await.unwrap().len(), 1, "{id:?}");
        let again = store.submit(&[submission(id, "{}")]).await.unwrap().remove(0);
        assert!(matches!(again, Submitted::Existing(_)), "{again:?}");
    }
}

pub async fn an_id_that_is_twice_in_a_batch_is_stored_once(backend: &dyn Backend) {
    let batch =
        [submission("b", "1"), submission("a", "1"), submission("b", "1"), submission("b", "2")];
    let answers = backend.store().submit(&batch).await.unwrap();
    assert!(matches!(&answers[0], Submitted::New(stored) if stored.view.intent_id == "b"));
    assert!(matches!(&answers[1], Submitted::New(stored) if stored.view.intent_id == "a"));
    let (Submitted::New(first), Submitted::Existing(second)) = (&answers[0], &answers[2]) else {
        panic!("{answers:?}")
    };
    assert_eq!(first, second);
    assert!(matches!(answers[3], Submitted::Conflict { .. }));
}

pub async fn batches_with_crossed_ids_do_not_fail(backend: &dyn Backend) {
    let other = backend.another();
    for round in 0..20 {
        let ids: Vec<_> = (0..50).map(|at| format!("{round}-{at}")).collect();
        let there: Vec<_> = ids.iter().map(|id| submission(id, "1")).collect();
        let back: Vec<_> = ids.iter().rev().map(|id| submission(id, "1")).collect();
        let (there, back) = tokio::join!(backend.store().submit(&there), other.submit(&back));
        let (there, mut back) = (there.unwrap(), back.unwrap());
        back.reverse();
        for (one, other) in there.iter().zip(&back) {
            let is_stored =
                |answer: &Submitted| matches!(answer, Submitted::New(_) | Submitted::Existing(_));
            assert!(is_stored(one) && is_stored(other), "{one:?} {other:?}");
            let both_new = [one, other].iter().all(|answer| matches!(answer, Submitted::New(_)));
            assert!(!both_new, "stored twice");
        }
    }
}

pub async fn one_that_the_database_refuses_fails_alone(backend: &dyn Backend) {
    let batch = [submission("a", "1"), submission("b\0", "1"), submission("c", "1")];
    let answers = backend.store().submit(&batch).await.unwrap();
    assert!(matches!(answers[0], Submitted::New(_)), "{answers:?}");
    assert_eq!(answers[1], Submitted::Refused);
    let alone = backend.store().submit(&[submission("d\0", "1")]).await.unwrap();
    assert_eq!(alone, [Submitted::Refused]);
    assert!(matches!(answers[2], Submitted::New(_)), "{answers:?}");
}

pub async fn a_refresh_brings_what_a_rebuild_did_not(backend: &dyn Backend) {
    let first = submit(backend, submission("a", "1")).await;
    let rebuilt = backend.store().rebuild().await.unwrap();
    let rows: Vec<_> = rebuilt.changes.iter().map(|change| change.row).collect();
    assert_eq!(rows, [first.row]);
    assert!(rebuilt.changes[0].due.is_some());

    let nothing = backend.store().refresh(&rebuilt.position).await.unwrap();
    assert!(nothing.changes.is_empty(), "{nothing:?}");
    let second = submit(backend, submission("b", "1")).await;
    let refreshed = backend.store().refresh(&nothing.position).await.unwrap();
    let rows: Vec<_> = refreshed.changes.iter().map(|change| change.row).collect();
    assert_eq!(rows, [second.row]);
    let again = backend.store().refresh(&refreshed.position).await.unwrap();
    assert!(again.changes.is_empty(), "{again:?}");
}

/// A writes, B writes and commits, refresh, A commits, refresh: A must be there.
pub async fn a_refresh_misses_nothing_when_transactions_commit_out_of_order(backend: &dyn Backend) {
    let rebuilt = backend.store().rebuild().await.unwrap();
    let late = backend.store_late("a").await;
    submit(backend, submission("b", "1")).await;
    let first = backend.store().refresh(&rebuilt.position).await.unwrap();
    assert_eq!(first.changes.len(), usize::from(!backend.stalls()));
    late.commit().await;
    let second = backend.store().refresh(&first.position).await.unwrap();
    let rows: HashSet<_> =
        first.changes.iter().chain(&second.changes).map(|change| change.row).collect();
    assert_eq!(rows.len(), 2, "the late one was missed");
    assert_eq!(first.changes.len() + second.changes.len(), 2, "each once");
}

/// Seed 000: "does not skip intents that share the same `last_modified_at`", here across pages.
pub async fn equal_moments_across_a_page_boundary_are_not_skipped(backend: &dyn Backend) {
    let rebuilt = backend.store().rebuild().await.unwrap();
    let batch: Vec<_> = (0..6_000).map(|at| submission(&format!("{at:05}"), "1")).collect();
    let _ = backend.store().submit(&batch).await.unwrap();
    let refreshed = backend.store().refresh(&rebuilt.position).await.unwrap();
    let mut rows: Vec<_> = refreshed.changes.iter().map(|change| change.row).collect();
    assert_eq!(rows.len(), 6_000);
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 6_000, "each once");
}

pub async fn attempts_are_numbered_without_gaps_and_appended(backend: &dyn Backend) {
    let term = backend.term().await;
    let stored = submit(backend, submission("a", "{\"to\":1}")).await;
    for number in 1..=2 {
        let reservation = reserve(backend, &term, stored.row).await;
        assert_eq!((reservation.number, reservation.is_repeat), (number, false));
        assert_eq!(&reservation.payload[..], b"{\"to\":1}");
        let retry = failed(&reservation, Timestamp::UNIX_EPOCH);
        let ended = backend.store().record(&term, &[retry]).await.unwrap();
        assert!(ended[0].change.due.is_some());
    }
    let last = reserve(backend, &term, stored.row).await;
    let ended = backend.store().record(&term, &[accepted(&last)]).await.unwrap();
    assert_eq!(ended[0].change.due, None);
    let attempts = backend.store().attempts("a").await.unwrap();
    let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.attempt_number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(attempts[0].error.as_deref(), Some("gateway returned status 500"));
    assert_eq!(attempts[2].outcome_status.as_deref(), Some("accepted"));
    let now = backend.store().find(&["a"]).await.unwrap().remove(0);
    assert_eq!((now.view.status, now.attempts), (Status::Accepted, 3));
    assert!(now.view.completed_at.is_some());
}

pub async fn a_reservation_is_repeated_under_its_number_and_seen_by_nobody(backend: &dyn Backend) {
    let first = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let reservation = reserve(backend, &first, stored.row).await;
    assert_eq!(backend.store().find(&["a"]).await.unwrap()[0].attempts, 0);
    assert!(backend.store().attempts("a").await.unwrap().is_empty());
    // Its leader has died.
    let second = backend.term().await;
    let again = reserve(backend, &second, stored.row).await;
    assert_eq!((again.number, again.is_repeat), (reservation.number, true));
}

pub async fn a_key_is_held_until_its_outcome_is_known_and_shown_with_each_attempt(
    backend: &dyn Backend,
) {
    let term = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let at = Timestamp::UNIX_EPOCH;
    let rejected = |reason: &str| Outcome::Rejected { reason: reason.to_owned() };
    let not_made = Outcome::Failed { status: None, error: String::new(), may_have_acted: false };
    let lost = Outcome::Failed { status: None, error: String::new(), may_have_acted: true };
    for (sent, outcome) in [
        (1, not_made.clone()),
        (2, lost),
        (2, not_made),
        (2, rejected("duplicate_reference")),
        (2, rejected("provider_failure")),
        (6, rejected("provider_failure")),
    ] {
        let reservation = reserve(backend, &term, stored.row).await;
        assert_eq!(reservation.key_number(), sent, "attempt {}", reservation.number);
        let retry = finished(&reservation, outcome, Next::Retry { at });
        assert_eq!(backend.store().record(&term, &[retry]).await.unwrap().len(), 1);
    }
    // Whoever leads next goes on with it.
    let reservation = reserve(backend, &term, stored.row).await;
    let retry = failed(&reservation, at);
    assert_eq!(backend.store().record(&term, &[retry]).await.unwrap().len(), 1);
    let next = backend.term().await;
    let last = reserve(backend, &next, stored.row).await;
    assert_eq!((last.number, last.key_number()), (8, 7));
    assert_eq!(backend.store().record(&next, &[accepted(&last)]).await.unwrap().len(), 1);
    let attempts = backend.store().attempts("a").await.unwrap();
    let keys: Vec<_> = attempts.iter().map(|attempt| attempt.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["a:1", "a:2", "a:2", "a:2", "a:2", "a:6", "a:7", "a:7"]);
}

/// Whoever makes the call reckons the moment from what the database said before, and may be ahead of it.
pub async fn no_attempt_has_finished_after_it_was_recorded(backend: &dyn Backend) {
    let term = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let reservation = reserve(backend, &term, stored.row).await;
    let ahead = reservation.started_at + jiff::SignedDuration::from_secs(60);
    let done = Finished { finished_at: ahead, ..accepted(&reservation) };
    assert_eq!(backend.store().record(&term, &[done]).await.unwrap().len(), 1);
    let attempt = backend.store().attempts("a").await.unwrap().remove(0);
    let completed_at = backend.store().find(&["a"]).await.unwrap().remove(0).view.completed_at;
    assert!(attempt.started_at <= attempt.finished_at);
    assert!(attempt.finished_at <= completed_at.unwrap(), "{attempt:?}, {completed_at:?}");
}

pub async fn a_stale_term_writes_nothing(backend: &dyn Backend) {
    let stale = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let reservation = reserve(backend, &stale, stored.row).await;
    let term = backend.term().await;
    let refused = |answer: Result<(), StoreError>| match answer {
        Err(StoreError::Fence(error)) => assert!(error.is_refusal(), "{error}"),
        other => panic!("{other:?}"),
    };
    let store = backend.store();
    refused(store.reserve(&stale, &[stored.row], OneShot::Repeat).await.map(drop));
    refused(store.record(&stale, &[accepted(&reservation)]).await.map(drop));
    refused(store.unbegin_webhooks(&stale, &[stored.row]).await);
    refused(store.unreserve(&stale, &[stored.row]).await);
    refused(store.begin_webhooks(&stale, &[stored.row]).await.map(drop));
    refused(store.finish_webhooks(&stale, &[(stored.row, None)]).await);
    assert_eq!(store.find(&["a"]).await.unwrap()[0].view.status, Status::Pending);
    reserve(backend, &term, stored.row).await;
}

pub async fn what_has_moved_on_is_left_out(backend: &dyn Backend) {
    let term = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let first = reserve(backend, &term, stored.row).await;
    let record = async |finished| backend.store().record(&term, &[finished]).await.unwrap().len();
    let retry = || failed(&first, Timestamp::UNIX_EPOCH);
    assert_eq!(record(retry()).await, 1);
    assert_eq!(record(retry()).await, 0, "nothing is under way");
    let second = reserve(backend, &term, stored.row).await;
    assert_eq!(record(retry()).await, 0, "another attempt is under way");
    assert_eq!(record(accepted(&second)).await, 1);
    assert_eq!(record(accepted(&second)).await, 0, "it has ended");
    assert_eq!(backend.store().attempts("a").await.unwrap().len(), 2);
    let ended =
        backend.store().reserve(&term, &[stored.row], OneShot::Repeat).await.unwrap().remove(0);
    assert!(matches!(ended, Reserve::NotNow(change) if change.due.is_none()), "{ended:?}");
}

pub async fn what_is_not_due_by_the_databases_clock_is_not_taken(backend: &dyn Backend) {
    let term = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let reservation = reserve(backend, &term, stored.row).await;
    let later = reservation.started_at.checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
    let _ = backend.store().record(&term, &[failed(&reservation, later)]).await.unwrap();
    let answer =
        backend.store().reserve(&term, &[stored.row], OneShot::Repeat).await.unwrap().remove(0);
    let Reserve::NotNow(change) = answer else { panic!("{answer:?}") };
    assert_eq!(change.due, Some(later.as_microsecond()));
}

pub async fn an_intent_whose_deadline_has_passed_is_ended_and_never_begun(backend: &dyn Backend) {
    let term = backend.term().await;
    let deadline = contract(Policy::Deadline { max_acceptance_seconds: 60 });
    let fresh = submit(backend, with_contract("fresh", "1", &deadline)).await;
    let begun = submit(backend, with_contract("begun", "1", &deadline)).await;
    reserve(backend, &term, begun.row).await;
    for row in [fresh.row, begun.row] {
        backend.age(row, 61).await;
    }
    let answers =
        backend.store().reserve(&term, &[fresh.row, begun.row], OneShot::Repeat).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Reserve::GivenUp(given) if given.reason == ExhaustedReason::DeadlineExceeded)), "{answers:?}");
    for id in ["fresh", "begun"] {
        let now = backend.store().find(&[id]).await.unwrap().remove(0).view;
        let reason = Some(ExhaustedReason::DeadlineExceeded.to_string());
        assert_eq!((now.status, now.exhausted_reason), (Status::Exhausted, reason));
    }
    assert!(backend.store().attempts("fresh").await.unwrap().is_empty());
    let attempts = backend.store().attempts("begun").await.unwrap();
    assert_eq!(attempts[0].error.as_deref(), Some("outcome unknown"));
}

pub async fn a_one_shot_of_a_dead_leader_is_given_up_where_that_is_asked_for(
    backend: &dyn Backend,
) {
    let (store, one_shot) = (backend.store(), contract(Policy::OneShot));
    let dead = backend.term().await;
    let begun = submit(backend, with_contract("begun", "1", &one_shot)).await;
    let fresh = submit(backend, with_contract("fresh", "1", &one_shot)).await;
    let other = submit(backend, submission("other", "1")).await;
    for row in [begun.row, other.row] {
        reserve(backend, &dead, row).await;
    }
    let term = backend.term().await;
    let rows = [begun.row, fresh.row, other.row];
    // In its own term a reservation that was not used is taken again.
    for _ in 0..2 {
        let answers = store.reserve(&term, &rows, OneShot::GiveUp).await.unwrap();
        for answer in answers {
            match answer {
                Reserve::Ready(ready) => assert_ne!(ready.row, begun.row),
                Reserve::GivenUp(given) => {
                    assert_eq!(given.ended.change.row, begun.row);
                    assert_eq!(given.reason, ExhaustedReason::OneShot);
                }
                Reserve::NotNow(change) => assert_eq!((change.row, change.due), (begun.row, None)),
            }
        }
    }
    let now = store.find(&["begun"]).await.unwrap().remove(0);
    assert_eq!((now.view.status, now.attempts), (Status::Exhausted, 1));
    assert_eq!(now.view.exhausted_reason.as_deref(), Some("one_shot"));
    let attempt = store.attempts("begun").await.unwrap().remove(0);
    assert_eq!((attempt.attempt_number, attempt.error.as_deref()), (1, Some("outcome unknown")));
    for id in ["fresh", "other"] {
        assert_eq!(store.find(&[id]).await.unwrap()[0].view.status, Status::Pending);
    }
}

/// A leader that stops in order leaves nothing behind that the next one would take for a call.
pub async fn what_is_given_back_was_never_taken(backend: &dyn Backend) {
    let (store, one_shot) = (backend.store(), contract(Policy::OneShot));
    let first = backend.term().await;
    let stored = submit(backend, with_contract("a", "1", &one_shot)).await;
    reserve(backend, &first, stored.row).await;
    store.unreserve(&first, &[stored.row]).await.unwrap();
    let second = backend.term().await;
    let answer = store.reserve(&second, &[stored.row], OneShot::GiveUp).await.unwrap().remove(0);
    let Reserve::Ready(ready) = answer else { panic!("{answer:?}") };
    assert_eq!((ready.number, ready.is_repeat), (1, false));
    // What a dead leader took may have been called: only its own term could have given it back.
    let third = backend.term().await;
    store.unreserve(&third, &[stored.row]).await.unwrap();
    assert!(reserve(backend, &third, stored.row).await.is_repeat);
}

pub async fn an_id_that_was_deleted_begins_anew(backend: &dyn Backend) {
    let term = backend.term().await;
    for _ in 0..2 {
        let stored = submit(backend, submission("a", "1")).await;
        let reservation = reserve(backend, &term, stored.row).await;
        let ended = backend.store().record(&term, &[accepted(&reservation)]).await.unwrap();
        assert_eq!(ended.len(), 1);
        backend.delete(stored.row).await;
        assert!(backend.store().attempts("a").await.unwrap().is_empty(), "they went with it");
    }
}

pub async fn a_text_that_is_too_long_is_cut(backend: &dyn Backend) {
    let term = backend.term().await;
    let stored = submit(backend, submission("a", "1")).await;
    let reservation = reserve(backend, &term, stored.row).await;
    let outcome =
        Outcome::Failed { status: None, error: "ä\0".repeat(100_000), may_have_acted: true };
    let done = finished(&reservation, outcome, Next::Exhausted(ExhaustedReason::OneShot));
    assert_eq!(backend.store().record(&term, &[done]).await.unwrap().len(), 1);
    let error = backend.store().attempts("a").await.unwrap().remove(0).error.unwrap();
    assert!(error.starts_with("ää") && error.chars().count() == 2_000);
}

fn told() -> Arc<Contract> {
    let webhook = Webhook {
        url: "http://webhook".to_owned(),
        headers: BTreeMap::from([("x-a".to_owned(), "1".to_owned())]),
        headers_env: BTreeMap::from([("x-b".to_owned(), "B".to_owned())]),
        secret_env: Some("SECRET".to_owned()),
    };
    let contract = (*contract(Policy::OneShot)).clone();
    Arc::new(Contract { webhook: Some(webhook), ..contract })
}

pub async fn a_webhook_is_begun_once_and_its_result_kept(backend: &dyn Backend) {
    let term = backend.term().await;
    let stored = submit(backend, with_contract("a", "1", &told())).await;
    let reservation = reserve(backend, &term, stored.row).await;
    let store = backend.store();
    assert!(store.pending_webhooks(0, 10).await.unwrap().is_empty(), "it is not terminal");
    let ended = store.record(&term, &[accepted(&reservation)]).await.unwrap();
    assert!(ended[0].has_webhook);
    assert_eq!(store.pending_webhooks(0, 10).await.unwrap(), [(stored.row, false)]);
    let due = store.begin_webhooks(&term, &[stored.row]).await.unwrap().remove(0);
    assert_eq!(
        (due.intent.status, Some(&due.webhook)),
        (Status::Accepted, told().webhook.as_ref())
    );
    assert!(store.begin_webhooks(&term, &[stored.row]).await.unwrap().is_empty(), "once");
    store.unbegin_webhooks(&term, &[stored.row]).await.unwrap();
    assert_eq!(store.begin_webhooks(&term, &[stored.row]).await.unwrap().len(), 1, "given back");
    assert_eq!(store.pending_webhooks(0, 10).await.unwrap(), [(stored.row, true)]);
    store.finish_webhooks(&term, &[(stored.row, Some("refused".to_owned()))]).await.unwrap();
    assert!(store.pending_webhooks(0, 10).await.unwrap().is_empty());
}

/// Seed 000: "`last_modified_at` is set on insert and updated on **every** update", by the database's clock.
pub async fn every_write_sets_last_modified_at(backend: &dyn Backend) {
    let term = backend.term().await;
    let store = backend.store();
    let deadline = contract(Policy::Deadline { max_acceptance_seconds: 60 });
    let late = submit(backend, with_contract("late", "1", &deadline)).await;
    let stored = submit(backend, with_contract("a", "1", &told())).await;
    let mut before = moved(backend, stored.row, 0, "submit").await;
    let reservation = reserve(backend, &term, stored.row).await;
    before = moved(backend, stored.row, before, "reserve").await;
    let _ = store.record(&term, &[failed(&reservation, Timestamp::UNIX_EPOCH)]).await.unwrap();
    before = moved(backend, stored.row, before, "record, to be tried again").await;
    let reservation = reserve(backend, &term, stored.row).await;
    before = moved(backend, stored.row, before, "reserve again").await;
    store.unreserve(&term, &[stored.row]).await.unwrap();
    before = moved(backend, stored.row, before, "unreserve").await;
    let reservation =
        Reservation { number: reserve(backend, &term, stored.row).await.number, ..reservation };
    let _ = store.record(&term, &[accepted(&reservation)]).await.unwrap();
    before = moved(backend, stored.row, before, "record, terminal").await;
    let _ = store.begin_webhooks(&term, &[stored.row]).await.unwrap();
    before = moved(backend, stored.row, before, "begin_webhooks").await;
    store.unbegin_webhooks(&term, &[stored.row]).await.unwrap();
    before = moved(backend, stored.row, before, "unbegin_webhooks").await;
    let _ = store.begin_webhooks(&term, &[stored.row]).await.unwrap();
    store.finish_webhooks(&term, &[(stored.row, None)]).await.unwrap();
    moved(backend, stored.row, before, "finish_webhooks").await;

    let before = moved(backend, late.row, 0, "submit").await;
    backend.age(late.row, 61).await;
    let _ = store.reserve(&term, &[late.row], OneShot::Repeat).await.unwrap();
    moved(backend, late.row, before, "expire").await;
}

/// The row was written after `before`, and not after now.
async fn moved(backend: &dyn Backend, row: i64, before: i64, what: &str) -> i64 {
    let (modified, now) = backend.modified_and_now(row).await;
    assert!(before < modified && modified <= now, "{what}: {before} {modified} {now}");
    assert!(now - modified < 60_000_000, "{what}: by another clock");
    modified
}

/// Whatever wrote it: a refresh brings the row, with a version above the one before.
pub async fn every_write_is_brought_by_a_refresh(backend: &dyn Backend) {
    let term = backend.term().await;
    let store = backend.store();
    let mut position = store.rebuild().await.unwrap().position;
    let mut version = 0;
    let mut brought = async |row: i64, what: &str| {
        let read = store.refresh(&position).await.unwrap();
        let change = read.changes.iter().find(|change| change.row == row);
        let change = change.unwrap_or_else(|| panic!("{what}: not brought"));
        assert!(change.version > version, "{what}: {change:?} after {version}");
        (position, version) = (read.position, change.version);
    };
    let deadline = contract(Policy::Deadline { max_acceptance_seconds: 60 });
    let deadline = Arc::new(Contract { webhook: told().webhook.clone(), ..(*deadline).clone() });
    let row = submit(backend, with_contract("a", "1", &deadline)).await.row;
    brought(row, "submit").await;
    reserve(backend, &term, row).await;
    brought(row, "reserve").await;
    store.unreserve(&term, &[row]).await.unwrap();
    brought(row, "unreserve").await;
    let reservation = reserve(backend, &term, row).await;
    brought(row, "reserve again").await;
    let _ = store.record(&term, &[failed(&reservation, Timestamp::UNIX_EPOCH)]).await.unwrap();
    brought(row, "record").await;
    backend.age(row, 61).await;
    let _ = store.reserve(&term, &[row], OneShot::Repeat).await.unwrap();
    brought(row, "expire").await;
    let _ = store.begin_webhooks(&term, &[row]).await.unwrap();
    brought(row, "begin_webhooks").await;
    store.unbegin_webhooks(&term, &[row]).await.unwrap();
    brought(row, "unbegin_webhooks").await;
    let _ = store.begin_webhooks(&term, &[row]).await.unwrap();
    brought(row, "begin_webhooks again").await;
    store.finish_webhooks(&term, &[(row, None)]).await.unwrap();
    brought(row, "finish_webhooks").await;
}
