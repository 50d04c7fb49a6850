//! The laws that every lock obeys, one function each.
//!
//! `lock_conformance!` turns them into one named test per law for a backend. In these laws "expired" means
//! what ends a silent holder's term: the lease's expiry, and for an advisory lock the end of its session.
//! A law that has no meaning for a backend is listed by that backend, with the reason.

pub mod backend;
#[cfg(feature = "etcd")]
mod etcd;
mod postgres;
mod sqlite;
mod sqlserver;

use std::time::Duration;

use futures_util::future::join_all;
use tenure::{
    Epoch,
    lock::{Acquire, Grant, Holding, Lock, Renew},
};

pub use self::backend::{Backend, Blocker};
#[cfg(feature = "etcd")]
pub use self::etcd::EtcdBackend;
pub use self::{
    postgres::{PostgresAdvisoryBackend, PostgresLeaseBackend},
    sqlite::SqliteBackend,
    sqlserver::SqlServerBackend,
};
use crate::{eventually, millis, secs};

/// Names every law, so that no backend can leave one out without saying so.
#[macro_export]
macro_rules! lock_conformance {
    ($backend:expr $(, $attribute:meta)?) => {
        $crate::lock_conformance!(@laws $backend $(, $attribute)?;
            one_winner_among_many_concurrent_starters
            refused_while_held
            taken_after_expiry_with_the_next_epoch
            taken_after_expiry_by_the_same_holder_with_the_next_epoch
            renew_extends_the_term
            renew_refused_after_expiry
            renew_refused_for_another_holder
            renew_refused_for_an_old_epoch
            renew_refused_after_waiting_past_expiry_behind_a_locked_row
            renew_refused_after_waiting_past_expiry_behind_a_changed_row
            release_frees_the_term_at_once
            release_never_frees_another_term
            release_frees_no_epoch_but_the_one_that_it_names
            epochs_survive_release
            epochs_survive_a_restart_of_the_server
            a_win_goes_above_the_highest_epoch_that_the_candidate_has_seen
            a_reply_lost_after_commit_is_safe_and_does_not_cost_a_lease
            a_twin_with_the_same_name_does_not_take_the_term_for_its_own
            two_scopes_do_not_touch_each_other
            a_release_is_heard_of_by_those_who_wait
            two_hundred_candidates_on_one_scope_elect_one
        );
    };
    (@laws $backend:expr, $attribute:meta; $($law:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[$attribute]
            async fn $law() {
                $crate::lock_conformance!(@body $backend, $law);
            }
        )*
    };
    (@laws $backend:expr; $($law:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                $crate::lock_conformance!(@body $backend, $law);
            }
        )*
    };
    (@body $backend:expr, $law:ident) => {
        let backend = $backend.await.unwrap();
        if let Some(reason) = $crate::conformance::Backend::has_no_meaning(&backend, stringify!($law)) {
            println!("no meaning for this lock: {reason}");
            return;
        }
        $crate::conformance::$law(&backend).await;
    };
}

const JOBS: &str = "jobs";

async fn granted(lock: &mut dyn Lock) -> Grant {
    match lock.acquire(Epoch::ZERO).await.unwrap() {
        Acquire::Granted(grant) => grant,
        Acquire::Held(held) => panic!("held by {held:?}"),
    }
}

async fn held(lock: &mut dyn Lock) -> Holding {
    match lock.acquire(Epoch::ZERO).await.unwrap() {
        Acquire::Granted(grant) => panic!("granted: {grant:?}"),
        Acquire::Held(held) => held,
    }
}

/// The term that a candidate gets in the end, however often it has to ask.
async fn granted_in_the_end(lock: &mut dyn Lock) -> Grant {
    let lock = tokio::sync::Mutex::new(lock);
    eventually("the term is granted", secs(20), async || {
        match lock.lock().await.acquire(Epoch::ZERO).await.unwrap() {
            Acquire::Granted(grant) => Some(grant),
            Acquire::Held(_) => None,
        }
    })
    .await
}

/// Whether the term goes on. An error is neither a yes nor a no.
async fn is_renewed(lock: &mut dyn Lock, epoch: Epoch) -> bool {
    matches!(lock.renew(epoch).await.unwrap(), Renew::Renewed { .. })
}

/// Asserts that of many who ask at the same moment one is granted, and that others were told so.
async fn one_wins(mut locks: Vec<Box<dyn Lock>>) {
    let asking = locks.iter_mut().map(|lock| lock.acquire(Epoch::ZERO));
    // A loser's wait may end in an error when it is one of very many; that is neither.
    let answers: Vec<_> = join_all(asking).await.into_iter().flatten().collect();
    let granted = answers.iter().filter(|answer| matches!(answer, Acquire::Granted(_))).count();
    assert_eq!(granted, 1);
    assert!(answers.len() > granted, "nobody lost: they did not meet");
}

pub async fn one_winner_among_many_concurrent_starters(backend: &impl Backend) {
    for round in 0..3 {
        let scope = format!("round-{round}");
        let locks = (0..16).map(|at| backend.one_of_many(&scope, &format!("node-{at}"))).collect();
        one_wins(locks).await;
    }
}

pub async fn refused_while_held(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let grant = granted(&mut *one).await;
    let held = held(&mut *two).await;
    assert_eq!((held.holder.as_str(), held.epoch, held.ours), ("one", grant.epoch, false));
    let seen = two.observe().await.unwrap();
    assert_eq!((seen.held.map(|held| held.epoch), seen.epoch), (Some(grant.epoch), grant.epoch));
}

pub async fn taken_after_expiry_with_the_next_epoch(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let first = granted(&mut *one).await;
    assert_eq!(first.epoch, Epoch::new(1), "the first term of a scope");
    let _silent = backend.fall_silent(one).await;
    assert_eq!(granted_in_the_end(&mut *two).await.epoch, first.epoch.next());
}

pub async fn taken_after_expiry_by_the_same_holder_with_the_next_epoch(backend: &impl Backend) {
    let mut one = backend.candidate(JOBS, "one");
    let first = granted(&mut *one).await;
    let _silent = backend.fall_silent(one).await;
    let mut again = backend.candidate(JOBS, "one");
    assert_eq!(granted_in_the_end(&mut *again).await.epoch, first.epoch.next());
}

pub async fn renew_extends_the_term(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let grant = granted(&mut *one).await;
    let pause = backend.timing().renew_interval();
    for _ in 0..3 {
        tokio::time::sleep(pause).await;
        assert!(is_renewed(&mut *one, grant.epoch).await);
    }
    assert_eq!(held(&mut *two).await.epoch, grant.epoch, "a renewal never changes the epoch");
}

pub async fn renew_refused_after_expiry(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let first = granted(&mut *one).await;
    let mut one = backend.fall_silent(one).await;
    let second = granted_in_the_end(&mut *two).await;
    match one.renew(first.epoch).await {
        Ok(Renew::Lost) => {}
        Err(error) if backend.is_end_of_session(&error) => {}
        other => panic!("neither refused nor cut off: {other:?}"),
    }
    assert!(is_renewed(&mut *two, second.epoch).await);
}

pub async fn renew_refused_for_another_holder(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let grant = granted(&mut *one).await;
    assert!(!is_renewed(&mut *two, grant.epoch).await);
    assert!(is_renewed(&mut *one, grant.epoch).await);
}

pub async fn renew_refused_for_an_old_epoch(backend: &impl Backend) {
    let mut one = backend.candidate(JOBS, "one");
    let first = granted(&mut *one).await;
    one.release(first.epoch).await.unwrap();
    let second = granted_in_the_end(&mut *one).await;
    assert!(second.epoch > first.epoch);
    assert!(!is_renewed(&mut *one, first.epoch).await);
}

pub async fn renew_refused_after_waiting_past_expiry_behind_a_locked_row(backend: &impl Backend) {
    renew_refused_behind(backend, Blocker::Locks).await;
}

pub async fn renew_refused_after_waiting_past_expiry_behind_a_changed_row(backend: &impl Backend) {
    renew_refused_behind(backend, Blocker::Changes).await;
}

/// The renewal is sent while the lease runs, and gets the row only after it has expired.
async fn renew_refused_behind(backend: &impl Backend, blocker: Blocker) {
    let mut one = backend.patient_candidate(JOBS, "one");
    let grant = granted(&mut *one).await;
    let lease = backend.patient_timing().lease_duration();
    let blocked = backend.block(JOBS, blocker).await;
    tokio::time::sleep((grant.sent_at + lease.mul_f64(0.75)).left()).await;
    let (renewed, ()) = tokio::join!(is_renewed(&mut *one, grant.epoch), async {
        tokio::time::sleep((grant.sent_at + lease + millis(100)).left()).await;
        blocked.unblock().await;
    });
    assert!(!renewed, "the lease had expired before the renewal got its row");
}

pub async fn release_frees_the_term_at_once(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let first = granted(&mut *one).await;
    one.release(first.epoch).await.unwrap();
    assert_eq!(granted(&mut *two).await.epoch, first.epoch.next());
}

pub async fn release_never_frees_another_term(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let first = granted(&mut *one).await;
    one.release(first.epoch).await.unwrap();
    let second = granted(&mut *two).await;
    for epoch in [first.epoch, second.epoch, second.epoch.next()] {
        // Whoever has asked has a session, and with it something that it could give back.
        assert_eq!(held(&mut *one).await.epoch, second.epoch);
        one.release(epoch).await.unwrap();
    }
    still_holds(backend, &mut *two, second.epoch).await;
}

pub async fn release_frees_no_epoch_but_the_one_that_it_names(backend: &impl Backend) {
    let mut one = backend.candidate(JOBS, "one");
    let first = granted(&mut *one).await;
    one.release(first.epoch.next()).await.unwrap();
    still_holds(backend, &mut *one, first.epoch).await;
    one.release(first.epoch).await.unwrap();
    let second = granted(&mut *one).await;
    one.release(first.epoch).await.unwrap();
    still_holds(backend, &mut *one, second.epoch).await;
}

/// Everybody sees that the term is held, and so does its holder.
async fn still_holds(backend: &impl Backend, holder: &mut dyn Lock, epoch: Epoch) {
    let seen = backend.candidate(JOBS, "onlooker").observe().await.unwrap();
    assert_eq!(seen.held.map(|held| held.epoch), Some(epoch));
    assert!(is_renewed(holder, epoch).await);
}

pub async fn epochs_survive_release(backend: &impl Backend) {
    let mut last = Epoch::ZERO;
    for at in 0..5 {
        let mut lock = backend.candidate(JOBS, &format!("node-{at}"));
        let grant = granted(&mut *lock).await;
        assert_eq!(grant.epoch, last.next());
        lock.release(grant.epoch).await.unwrap();
        last = grant.epoch;
    }
}

pub async fn epochs_survive_a_restart_of_the_server(backend: &impl Backend) {
    let mut one = backend.candidate(JOBS, "one");
    let first = granted(&mut *one).await;
    one.release(first.epoch).await.unwrap();
    drop(one);
    backend.restart_server().await;
    let mut two = backend.candidate(JOBS, "two");
    assert_eq!(granted_in_the_end(&mut *two).await.epoch, first.epoch.next());
}

pub async fn a_win_goes_above_the_highest_epoch_that_the_candidate_has_seen(
    backend: &impl Backend,
) {
    let mut one = backend.candidate(JOBS, "one");
    let Acquire::Granted(grant) = one.acquire(Epoch::new(41)).await.unwrap() else {
        panic!("held");
    };
    assert_eq!(grant.epoch, Epoch::new(42));
}

pub async fn a_reply_lost_after_commit_is_safe_and_does_not_cost_a_lease(backend: &impl Backend) {
    let mut one = backend.candidate_whose_reply_is_lost(JOBS, "one").await;
    let mut two = backend.candidate(JOBS, "two");
    // Each is granted at its first asking: nobody waits for a lease to end.
    let grant = match one.acquire(Epoch::ZERO).await.unwrap() {
        // The lock went with the connection.
        Acquire::Granted(grant) => grant,
        Acquire::Held(held) => {
            assert!(held.ours, "{held:?}");
            one.release(held.epoch).await.unwrap();
            granted(&mut *one).await
        }
    };
    one.release(grant.epoch).await.unwrap();
    assert!(granted(&mut *two).await.epoch > grant.epoch);
}

pub async fn a_twin_with_the_same_name_does_not_take_the_term_for_its_own(backend: &impl Backend) {
    let (mut one, mut twin) = (backend.candidate(JOBS, "twin"), backend.candidate(JOBS, "twin"));
    let grant = granted(&mut *one).await;
    let seen = held(&mut *twin).await;
    assert_eq!((seen.holder.as_str(), seen.ours), ("twin", false));
    assert!(is_renewed(&mut *one, grant.epoch).await);
}

pub async fn two_scopes_do_not_touch_each_other(backend: &impl Backend) {
    let (mut jobs, mut mail) =
        (backend.candidate(JOBS, "one"), backend.candidate("jobs/mail", "two"));
    let one = granted(&mut *jobs).await;
    let two = granted(&mut *mail).await;
    assert_eq!((one.epoch, two.epoch), (Epoch::new(1), Epoch::new(1)));
    jobs.release(one.epoch).await.unwrap();
    assert!(is_renewed(&mut *mail, two.epoch).await);
    assert!(!is_renewed(&mut *jobs, one.epoch).await);
}

pub async fn a_release_is_heard_of_by_those_who_wait(backend: &impl Backend) {
    let (mut one, mut two) = (backend.candidate(JOBS, "one"), backend.candidate(JOBS, "two"));
    let grant = granted(&mut *one).await;
    let mut news = two.news();
    let held = held(&mut *two).await;
    assert_eq!(held.epoch, grant.epoch);
    backend.listening().await;
    while news.try_recv().is_ok() {}
    one.release(grant.epoch).await.unwrap();
    let heard = tokio::select! {
        heard = news.recv() => heard.is_some(),
        // A lock that waits inside the server needs no news.
        grant = granted_in_the_end(&mut *two), if backend.waits() => grant.epoch > Epoch::ZERO,
        () = tokio::time::sleep(Duration::from_secs(5)) => false,
    };
    assert!(heard, "nobody told the waiter of the release");
}

pub async fn two_hundred_candidates_on_one_scope_elect_one(backend: &impl Backend) {
    let locks = (0..200).map(|at| backend.one_of_many(JOBS, &format!("node-{at}"))).collect();
    one_wins(locks).await;
}
