//! Random schedules over the same world: longer, with more nodes and more misfortune than can be checked
//! one by one. A failure prints its seed, and the seed replays it.

use fastrand::Rng;
use stateright::{Expectation, Model};
use tenure::Takeover;

use crate::{
    checked::lease,
    database::LockKind,
    properties,
    world::{Action, Acts, Budget, SessionEnds, Setting, World},
};

const SEED: &str = "TENURE_SIM_SEED";
const STEPS: usize = 600;

/// A setting drawn from the seed: any lock, two to five nodes, plenty of misfortune.
fn setting(random: &mut Rng) -> Setting {
    let budget = Budget {
        give_ups: random.u8(..8),
        doubled: random.u8(..8),
        crashes: random.u8(..4),
        child_deaths: random.u8(..3),
        drains: random.u8(..3),
        session_ends: random.u8(..4),
        writes: 40,
        failovers: random.u8(..3),
        // One of the nodes stays well.
        fence_cuts: random.u8(..2),
        stuck: 0,
        nudges: random.u8(..4),
        stalls: random.u8(..2),
        clock_steps: 0,
    };
    let locks = [LockKind::Lease, LockKind::LeaseElsewhere, LockKind::Session];
    let acts = [Acts::Itself, Acts::Delegate, Acts::Child];
    let setting = Setting {
        acts: acts[random.usize(..3)],
        lock: locks[random.usize(..3)],
        takeover: if random.bool() { Takeover::Wait } else { Takeover::Immediate },
        session_ends: if random.bool() { SessionEnds::AtAnyTime } else { SessionEnds::WhenSilent },
        ..lease(random.usize(2..6), 40, budget)
    };
    match random.u8(..3) {
        // A clock that is set, and nodes that were all there before.
        0 => stepped(&setting, random),
        // Somebody who never comes to an end.
        1 => Setting { budget: Budget { stuck: 1, fence_cuts: 0, ..budget }, ..setting },
        _ => setting,
    }
}

fn stepped(setting: &Setting, random: &mut Rng) -> Setting {
    let by = random.i64(1..20);
    let budget = Budget { clock_steps: random.u8(1..5), crashes: 0, ..setting.budget };
    Setting { steps: vec![by, -by], budget, ..setting.clone() }
}

/// Time passes seldom enough for messages to be answered, often enough for leases to end.
fn weight(action: &Action) -> usize {
    match action {
        Action::Tick => 4,
        Action::Crash(_)
        | Action::EndSession
        | Action::ChildDies(_)
        | Action::Drain(_)
        | Action::FailOver { .. }
        | Action::SetClock(_)
        | Action::CutFence(_)
        | Action::GetStuck(_)
        | Action::Stall(_) => 1,
        Action::GiveUp(..) | Action::DeliverAndKeep(_) => 2,
        _ => 8,
    }
}

fn pick(random: &mut Rng, actions: &[Action]) -> Option<Action> {
    let total: usize = actions.iter().map(weight).sum();
    let mut at = random.usize(..total.max(1));
    actions.iter().copied().find(|action| {
        let found = at < weight(action);
        at = at.saturating_sub(weight(action));
        found
    })
}

/// One schedule; returns how many terms were won, or which property broke after which actions.
fn run(seed: u64) -> Result<i64, String> {
    let mut random = Rng::with_seed(seed);
    let setting = setting(&mut random);
    let mut world = setting.start();
    let mut trace = Vec::new();
    for _ in 0..STEPS {
        let mut actions = Vec::new();
        setting.actions(&world, &mut actions);
        let Some(action) = pick(&mut random, &actions) else { break };
        trace.push(action);
        world = setting.next_state(&world, action).unwrap_or(world);
        check(&setting, &world, &trace, |name| name != properties::WAY_BACK)?;
    }
    if !world.comes_to_a_leader(&setting) {
        return Err(format!("no way to a leader in {setting:?} after {trace:#?}"));
    }
    Ok(world.database.current(world.time()).map_or(0, |(_, epoch)| epoch.get()))
}

fn check(
    setting: &Setting,
    world: &World,
    trace: &[Action],
    which: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let all = setting.properties();
    let broken = all.iter().find(|property| {
        property.expectation == Expectation::Always
            && which(property.name)
            && !(property.condition)(setting, world)
    });
    match broken {
        None => Ok(()),
        Some(property) => Err(format!("«{}» broken in {setting:?} by {trace:#?}", property.name)),
    }
}

#[test]
fn random_schedules_keep_every_property() {
    if let Some(seed) = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()) {
        println!("replaying {SEED}={seed}: {:?} terms", run(seed).unwrap());
        return;
    }
    let schedules = if std::env::var_os("TENURE_TEST_FULL").is_some() { 1_000_000 } else { 20_000 };
    let first = fastrand::u64(..u64::MAX - schedules);
    println!(
        "{schedules} schedules of up to {STEPS} steps, seeds from {first} (TENURE_TEST_FULL=1 for 1000000)"
    );
    let mut terms = 0;
    for seed in first..first + schedules {
        terms += run(seed).unwrap_or_else(|broken| {
            panic!("{broken}\nreplay: {SEED}={seed} cargo nextest run -p tenure random_schedules")
        });
    }
    println!("{terms} terms won");
    assert!(terms > 0, "no schedule ever elected anybody");
}
