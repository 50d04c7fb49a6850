//! Every two misfortunes together, each pair as far as a small budget of states goes: a corner of many worlds,
//! where [`checked`](crate::checked) has the whole of a few.

use tenure::Takeover;

use crate::{
    checked::{NOTHING, holds_within, is_full, lease, session},
    world::{Budget, SessionEnds, Setting},
};

type Strikes = fn(&mut Budget);

const OF_ANY_LOCK: [(&str, Strikes); 11] = [
    ("given up", |budget| budget.give_ups = 1),
    ("doubled", |budget| budget.doubled = 1),
    ("crashed", |budget| budget.crashes = 1),
    ("died", |budget| budget.child_deaths = 1),
    ("drained", |budget| budget.drains = 1),
    ("clock set", |budget| budget.clock_steps = 1),
    ("failed over", |budget| budget.failovers = 1),
    ("fence cut", |budget| budget.fence_cuts = 1),
    ("stuck", |budget| budget.stuck = 1),
    ("nudged", |budget| budget.nudges = 1),
    ("stalled", |budget| budget.stalls = 1),
];
const OF_SESSIONS: (&str, Strikes) = ("session ended", |budget| budget.session_ends = 1);

fn every_pair(of: &[(&str, Strikes)], setting: impl Fn(Budget) -> Setting) {
    let most = if is_full() { 2_000_000 } else { 100_000 };
    println!("{most} states for each pair (TENURE_TEST_FULL=1: 2000000)");
    for (at, (one, strikes)) in of.iter().enumerate() {
        for (other, strikes_too) in &of[at + 1..] {
            let mut budget = Budget { writes: 1, ..NOTHING };
            strikes(&mut budget);
            strikes_too(&mut budget);
            let steps = if budget.clock_steps > 0 { vec![-8, 8] } else { Vec::new() };
            // Each of these takes a node out for good, and one must be left.
            let nodes = 1 + usize::from(budget.fence_cuts + budget.stuck).max(1);
            let setting = Setting { nodes, steps, ..setting(budget) };
            holds_within(most, &format!("{one}, {other}"), &setting);
        }
    }
}

#[test]
fn every_two_misfortunes_of_a_lease_are_borne() {
    every_pair(&OF_ANY_LOCK, |budget| lease(2, 3, budget));
}

#[test]
fn every_two_misfortunes_of_a_session_are_borne() {
    let all: Vec<_> = OF_ANY_LOCK.into_iter().chain([OF_SESSIONS]).collect();
    every_pair(&all, |budget| session(Takeover::Wait, SessionEnds::AtAnyTime, budget));
}
