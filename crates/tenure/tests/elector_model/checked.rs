//! The model checker's runs: every schedule within the horizon and the budget of misfortunes.
//!
//! A lease lasts two ticks, so a horizon of three ticks sees a term won, lost and taken over, and one
//! of four sees it taken over twice.

use std::time::Instant;

use stateright::{Checker, Expectation, Model};
use tenure::Takeover;

use crate::{
    database::LockKind,
    world::{Acts, Budget, SessionEnds, Setting},
};

pub const NOTHING: Budget = Budget {
    give_ups: 0,
    doubled: 0,
    crashes: 0,
    child_deaths: 0,
    drains: 0,
    session_ends: 0,
    writes: 0,
    clock_steps: 0,
    failovers: 0,
    fence_cuts: 0,
    stuck: 0,
    nudges: 0,
    stalls: 0,
};

pub fn lease(nodes: usize, horizon: i64, budget: Budget) -> Setting {
    Setting {
        nodes,
        lock: LockKind::Lease,
        takeover: Takeover::Immediate,
        session_ends: SessionEnds::WhenSilent,
        acts: Acts::Itself,
        steps: Vec::new(),
        horizon,
        budget,
        fault: None,
    }
}

pub fn session(takeover: Takeover, session_ends: SessionEnds, budget: Budget) -> Setting {
    Setting {
        lock: LockKind::Session,
        takeover,
        session_ends,
        ..lease(2, longer_in_full(2), budget)
    }
}

pub fn is_full() -> bool {
    std::env::var_os("TENURE_TEST_FULL").is_some()
}

/// The horizon, one tick longer with `TENURE_TEST_FULL=1`.
fn longer_in_full(horizon: i64) -> i64 {
    let horizon = horizon + i64::from(is_full());
    println!("horizon of {horizon} ticks (TENURE_TEST_FULL=1 adds one)");
    horizon
}

/// Checks a setting to the end, or as far as its budget of states goes, and prints what was covered.
fn holds(name: &str, setting: &Setting) {
    holds_within(if is_full() { 200_000_000 } else { 6_000_000 }, name, setting);
}

/// The same, with this budget of states.
pub fn holds_within(most: usize, name: &str, setting: &Setting) {
    #[allow(clippy::disallowed_methods, reason = "how long the check took is only printed")]
    let began = Instant::now();
    let checker = setting.clone().checker().threads(2).target_state_count(most);
    let checker = checker.spawn_dfs().join();
    let is_complete = checker.state_count() < most;
    println!(
        "{name}: {} nodes, {} unique states, {} generated ({}), depth {}, {:.1?}",
        setting.nodes,
        checker.unique_state_count(),
        checker.state_count(),
        if is_complete { "all there are" } else { "cut off at the budget" },
        checker.max_depth(),
        began.elapsed(),
    );
    for property in setting.properties() {
        match property.expectation {
            Expectation::Always => checker.assert_no_discovery(property.name),
            _ if is_complete => drop(checker.assert_any_discovery(property.name)),
            _ => continue,
        }
        println!("  holds: {}", property.name);
    }
}

#[test]
fn a_lease_holds_over_two_takeovers() {
    holds("quiet", &lease(2, longer_in_full(3), NOTHING));
}

#[test]
fn a_lease_holds_when_requests_are_given_up_and_applied_later() {
    holds("given up", &lease(2, longer_in_full(2), Budget { give_ups: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_lease_holds_when_replies_come_twice() {
    holds("doubled", &lease(2, longer_in_full(2), Budget { doubled: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_lease_holds_when_a_node_crashes() {
    holds("crashed", &lease(2, longer_in_full(2), Budget { crashes: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_lease_holds_when_work_dies_and_nodes_are_drained() {
    holds(
        "died",
        &lease(2, longer_in_full(2), Budget { child_deaths: 1, drains: 1, writes: 1, ..NOTHING }),
    );
}

#[test]
fn the_fence_alone_holds_when_the_lock_lives_elsewhere() {
    let setting = lease(2, longer_in_full(2), Budget { writes: 2, ..NOTHING });
    holds("elsewhere", &Setting { lock: LockKind::LeaseElsewhere, ..setting });
}

#[test]
fn a_session_that_is_ended_only_when_silent_keeps_gates_apart() {
    let budget = Budget { session_ends: 1, writes: 1, ..NOTHING };
    holds("silent", &session(Takeover::Immediate, SessionEnds::WhenSilent, budget));
}

#[test]
fn a_session_ended_without_telling_keeps_gates_apart_when_the_winner_waits() {
    let budget = Budget { session_ends: 1, writes: 1, ..NOTHING };
    holds("ended, wait", &session(Takeover::Wait, SessionEnds::AtAnyTime, budget));
}

#[test]
fn a_session_ended_without_telling_is_held_by_the_fence_when_the_winner_does_not_wait() {
    let budget = Budget { session_ends: 1, writes: 2, ..NOTHING };
    holds("ended, immediate", &session(Takeover::Immediate, SessionEnds::AtAnyTime, budget));
}

#[test]
fn a_holder_that_is_seen_gone_need_not_be_sat_out() {
    let budget = Budget { crashes: 1, session_ends: 1, ..NOTHING };
    let setting = session(Takeover::Wait, SessionEnds::AtAnyTime, budget);
    holds("seen gone", &Setting { ..setting });
}

#[test]
fn a_lease_holds_when_the_database_fails_over() {
    holds("failed over", &lease(2, longer_in_full(2), Budget { failovers: 1, ..NOTHING }));
    holds("failed over, written", &lease(2, 2, Budget { failovers: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_session_holds_when_the_database_fails_over() {
    let budget = Budget { failovers: 1, ..NOTHING };
    for takeover in [Takeover::Wait, Takeover::Immediate] {
        holds("session failed over", &session(takeover, SessionEnds::WhenSilent, budget));
    }
}

#[test]
fn a_lease_holds_when_the_clock_is_set() {
    let budget = Budget { clock_steps: 2, ..NOTHING };
    for by in [3, 8] {
        let setting = Setting { steps: vec![-by, by], ..lease(2, longer_in_full(2), budget) };
        holds("clock set", &setting);
    }
    let setting = Setting {
        steps: vec![-1_000],
        ..lease(2, longer_in_full(2), Budget { crashes: 1, clock_steps: 1, ..NOTHING })
    };
    holds("clock set far back", &setting);
}

#[test]
fn a_session_holds_when_the_clock_is_set() {
    let clock_steps = if is_full() { 2 } else { 1 };
    let budget = Budget { clock_steps, session_ends: 1, ..NOTHING };
    let setting = session(Takeover::Wait, SessionEnds::AtAnyTime, budget);
    holds("session, clock set", &Setting { steps: vec![-8, 8], ..setting });
}

#[test]
fn a_lease_holds_when_a_winner_cannot_begin() {
    holds(
        "fence cut",
        &lease(2, longer_in_full(2), Budget { fence_cuts: 1, give_ups: 1, ..NOTHING }),
    );
    holds("stuck", &lease(2, longer_in_full(2), Budget { stuck: 1, writes: 1, ..NOTHING }));
    let budget = Budget { fence_cuts: 1, session_ends: 1, ..NOTHING };
    holds("session, fence cut", &session(Takeover::Wait, SessionEnds::AtAnyTime, budget));
    let budget = Budget { stuck: 1, session_ends: 1, ..NOTHING };
    holds("session, stuck", &session(Takeover::Wait, SessionEnds::WhenSilent, budget));
}

#[test]
fn a_lease_holds_when_news_comes_at_any_time() {
    holds("nudged", &lease(2, longer_in_full(2), Budget { nudges: 2, ..NOTHING }));
    holds("stalled", &lease(2, longer_in_full(2), Budget { stalls: 1, nudges: 1, ..NOTHING }));
}

#[test]
fn delegates_and_children_are_never_two() {
    for acts in [Acts::Delegate, Acts::Child] {
        let setting = lease(2, longer_in_full(2), Budget { writes: 1, ..NOTHING });
        holds("by another", &Setting { acts, ..setting });
        let budget = Budget { session_ends: 1, ..NOTHING };
        let setting = session(Takeover::Wait, SessionEnds::AtAnyTime, budget);
        holds("by another, session", &Setting { acts, ..setting });
    }
}

/// Two misfortunes together.
fn a_pair(name: &str, budget: Budget) {
    let steps = if budget.clock_steps > 0 { vec![-8, 8] } else { Vec::new() };
    let setting = lease(2, longer_in_full(2), budget);
    holds(name, &Setting { steps, ..setting });
}

#[test]
fn a_failover_and_a_crash_are_borne() {
    a_pair("failed over, crashed", Budget { failovers: 1, crashes: 1, ..NOTHING });
}

#[test]
fn a_failover_and_a_drain_are_borne() {
    a_pair("failed over, drained", Budget { failovers: 1, drains: 1, ..NOTHING });
}

#[test]
fn a_failover_and_a_lost_fence_are_borne() {
    a_pair("failed over, fence cut", Budget { failovers: 1, fence_cuts: 1, ..NOTHING });
}

#[test]
fn a_set_clock_and_a_drain_are_borne() {
    a_pair("clock set, drained", Budget { clock_steps: 1, drains: 1, ..NOTHING });
}

#[test]
fn a_set_clock_and_a_failover_are_borne() {
    a_pair("clock set, failed over", Budget { clock_steps: 1, failovers: 1, ..NOTHING });
}

#[test]
fn work_that_stalls_and_cannot_stop_is_borne() {
    a_pair("stuck, stalled", Budget { stuck: 1, stalls: 1, ..NOTHING });
}

#[test]
fn a_lost_fence_and_news_are_borne() {
    a_pair("fence cut, nudged", Budget { fence_cuts: 1, nudges: 1, ..NOTHING });
}

/// Three nodes: more states than two have, so a smaller horizon.
#[test]
fn three_nodes_hold_too() {
    holds("three nodes", &lease(3, longer_in_full(2), NOTHING));
}
