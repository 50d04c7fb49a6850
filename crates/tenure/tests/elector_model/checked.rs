//! The model checker's runs: every schedule within the horizon and the budget of misfortunes.
//!
//! A lease lasts two ticks, so a horizon of three ticks sees a term won, lost and taken over, and one
//! of four sees it taken over twice.

use std::time::Instant;

use stateright::{Checker, Model};
use tenure::Takeover;

use crate::{
    database::LockKind,
    world::{Budget, SessionEnds, Setting},
};

pub const NOTHING: Budget = Budget {
    give_ups: 0,
    doubled: 0,
    crashes: 0,
    child_deaths: 0,
    drains: 0,
    session_ends: 0,
    writes: 0,
};

pub fn lease(nodes: usize, horizon: u64, budget: Budget) -> Setting {
    Setting {
        nodes,
        lock: LockKind::Lease,
        takeover: Takeover::Immediate,
        session_ends: SessionEnds::WhenSilent,
        horizon,
        budget,
        fault: None,
    }
}

pub fn session(takeover: Takeover, session_ends: SessionEnds, budget: Budget) -> Setting {
    Setting { lock: LockKind::Session, takeover, session_ends, ..lease(2, 3, budget) }
}

/// The horizon, one tick longer with `TENURE_TEST_FULL=1`.
fn longer_in_full(horizon: u64) -> u64 {
    let full = std::env::var_os("TENURE_TEST_FULL").is_some();
    let horizon = horizon + u64::from(full);
    println!("horizon of {horizon} ticks (TENURE_TEST_FULL=1 adds one)");
    horizon
}

/// Checks a setting to the end, and prints what was covered.
fn holds(name: &str, setting: &Setting) {
    #[allow(clippy::disallowed_methods, reason = "how long the check took is only printed")]
    let began = Instant::now();
    let checker = setting.clone().checker().threads(2).spawn_dfs().join();
    println!(
        "{name}: {} nodes, {} unique states, {} generated, depth {}, {:.1?}",
        setting.nodes,
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed(),
    );
    for property in setting.properties() {
        println!("  holds: {}", property.name);
    }
    checker.assert_properties();
}

#[test]
fn a_lease_holds_over_two_takeovers() {
    holds("quiet", &lease(2, 4, NOTHING));
}

#[test]
fn a_lease_holds_when_requests_are_given_up_and_applied_later() {
    holds("given up", &lease(2, 3, Budget { give_ups: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_lease_holds_when_replies_come_twice() {
    holds("doubled", &lease(2, 3, Budget { doubled: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_lease_holds_when_a_node_crashes() {
    holds("crashed", &lease(2, 3, Budget { crashes: 1, writes: 1, ..NOTHING }));
}

#[test]
fn a_lease_holds_when_work_dies_and_nodes_are_drained() {
    holds("died", &lease(2, 3, Budget { child_deaths: 1, drains: 1, writes: 1, ..NOTHING }));
}

#[test]
fn the_fence_alone_holds_when_the_lock_lives_elsewhere() {
    let setting = lease(2, 3, Budget { writes: 2, ..NOTHING });
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
    holds("seen gone", &Setting { horizon: longer_in_full(2), ..setting });
}

/// Three nodes: more states than two have, so a smaller horizon.
#[test]
fn three_nodes_hold_too() {
    holds("three nodes", &lease(3, longer_in_full(2), NOTHING));
}
