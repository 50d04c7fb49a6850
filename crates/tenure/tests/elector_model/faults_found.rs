//! Mistakes that the checker must find: a check that never fails proves nothing.

use stateright::{Checker, HasDiscoveries, Model};
use tenure::Takeover;

use crate::{
    checked::{NOTHING, lease, session},
    database::LockKind,
    properties,
    world::{Budget, Fault, SessionEnds, Setting},
};

/// The checker finds this mistake as a violation of this property.
fn finds(fault: Fault, violated: &'static str, setting: &Setting) {
    let setting = Setting { fault: Some(fault), ..setting.clone() };
    let found = HasDiscoveries::AnyOf([violated].into());
    let checker = setting.checker().threads(2).finish_when(found).spawn_bfs().join();
    let path = checker.discovery(violated).unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!(
        "{fault:?}: «{violated}» violated after {} steps, {} states",
        path.into_actions().len(),
        checker.state_count()
    );
}

#[test]
fn a_deadline_anchored_at_the_reply_is_found() {
    finds(Fault::DeadlineAnchoredAtTheReply, properties::GATES, &lease(2, 4, NOTHING));
}

#[test]
fn a_wait_counted_from_the_sending_is_found() {
    let budget = Budget { session_ends: 1, ..NOTHING };
    let setting = session(Takeover::Wait, SessionEnds::AtAnyTime, budget);
    finds(Fault::WaitCountedFromTheSending, properties::GATES, &setting);
}

#[test]
fn an_unconditional_raise_is_found() {
    finds(Fault::UnconditionalRaise, properties::EPOCHS, &lease(2, 3, NOTHING));
}

#[test]
fn a_stale_write_let_in_by_an_unconditional_raise_is_found() {
    let setting = lease(2, 3, Budget { give_ups: 1, writes: 1, ..NOTHING });
    let setting = Setting { lock: LockKind::LeaseElsewhere, ..setting };
    finds(Fault::UnconditionalRaise, properties::WRITES, &setting);
}

#[test]
fn a_release_before_the_work_stopped_is_found() {
    let budget = Budget { drains: 1, ..NOTHING };
    finds(Fault::ReleaseBeforeTheWorkStopped, properties::RELEASE, &lease(2, 3, budget));
}

#[test]
fn a_child_restarted_under_the_same_epoch_is_found() {
    let budget = Budget { child_deaths: 1, writes: 1, ..NOTHING };
    finds(Fault::ChildRestartedUnderTheSameEpoch, properties::WRITES, &lease(2, 3, budget));
}

#[test]
fn earlier_terms_forgotten_with_a_dead_holder_are_found() {
    let budget = Budget { crashes: 1, session_ends: 1, ..NOTHING };
    let setting = session(Takeover::Wait, SessionEnds::AtAnyTime, budget);
    let setting = Setting { horizon: 2, ..setting };
    finds(Fault::EarlierTermsForgottenWithADeadHolder, properties::GATES, &setting);
}

#[test]
fn a_follower_that_trusts_another_server_is_found() {
    let budget = Budget { failovers: 1, ..NOTHING };
    finds(Fault::AnotherServerTrusted, properties::GATES, &lease(2, 4, budget));
}

#[test]
fn a_winner_that_trusts_another_server_is_found_when_a_session_decides() {
    let budget = Budget { failovers: 1, ..NOTHING };
    let setting = session(Takeover::Wait, SessionEnds::WhenSilent, budget);
    finds(Fault::AnotherServerTrusted, properties::GATES, &setting);
}

#[test]
fn a_renewal_that_moves_the_expiry_back_is_found() {
    let budget = Budget { clock_steps: 2, ..NOTHING };
    let setting = Setting { steps: vec![-8, 8], ..lease(2, 2, budget) };
    finds(Fault::RenewalMovesTheExpiryBack, properties::GATES, &setting);
}

#[test]
fn a_winner_that_tries_to_begin_for_ever_is_found() {
    let budget = Budget { fence_cuts: 1, ..NOTHING };
    finds(Fault::TriesToBeginForEver, properties::WAY_BACK, &lease(2, 3, budget));
    let budget = Budget { stuck: 1, ..NOTHING };
    finds(Fault::TriesToBeginForEver, properties::WAY_BACK, &lease(2, 3, budget));
}

/// Further back than the way to a leader is followed.
const FAR: i64 = 1_000;

#[test]
fn an_expiry_that_is_believed_however_far_it_lies_is_found() {
    let budget = Budget { clock_steps: 1, crashes: 1, ..NOTHING };
    let setting = Setting { steps: vec![-FAR], ..lease(2, 3, budget) };
    finds(Fault::ExpiryBelievedHoweverFar, properties::WAY_BACK, &setting);
    let setting =
        session(Takeover::Wait, SessionEnds::AtAnyTime, Budget { session_ends: 1, ..budget });
    let setting = Setting { steps: vec![-FAR], ..setting };
    finds(Fault::ExpiryBelievedHoweverFar, properties::WAY_BACK, &setting);
}
