//! What must hold in every state, and what must be seen in some state so that the rest means anything.

use stateright::Property;
use tenure::Takeover;

use crate::{
    database::LockKind,
    world::{SessionEnds, Setting, World},
};

pub const GATES: &str = "gates are never open together";
pub const WRITES: &str = "no write is accepted behind a newer epoch";
pub const EPOCHS: &str = "epochs grow";
pub const RELEASE: &str = "work has stopped before its term is released";
pub const WAY_BACK: &str = "there is always a way to a leader again";
pub const LED: &str = "somebody leads";
pub const TAKEN_OVER: &str = "somebody leads after somebody else";

pub fn of(setting: &Setting) -> Vec<Property<Setting>> {
    let mut properties = vec![
        Property::always(WRITES, |_, world: &World| !world.database.stale_write_accepted),
        Property::always(EPOCHS, |_, world: &World| !world.database.epoch_went_back),
        Property::always(RELEASE, |_, world: &World| !world.released_while_working),
        Property::always(WAY_BACK, |setting: &Setting, world: &World| {
            world.goes_on_within(setting) || world.comes_to_a_leader(setting)
        }),
        Property::sometimes(LED, |_, world: &World| world.has_leader()),
        Property::sometimes(TAKEN_OVER, |_, world: &World| {
            world.has_leader()
                && world.database.current(world.time()).is_some_and(|(_, epoch)| epoch.get() > 1)
        }),
    ];
    if gates_are_exclusive(setting) {
        properties.push(Property::always(GATES, |setting: &Setting, world: &World| {
            acting(setting, world) <= 1
        }));
    }
    properties
}

/// What the lock gives: only when the server itself frees a session's lock under a live holder, and
/// the winner does not sit that out, two gates may be open; there the fence alone holds.
fn gates_are_exclusive(setting: &Setting) -> bool {
    setting.lock != LockKind::Session
        || setting.takeover == Takeover::Wait
        || setting.session_ends == SessionEnds::WhenSilent
}

fn acting(setting: &Setting, world: &World) -> usize {
    (0..world.nodes.len()).filter(|node| world.acting(setting, *node).is_some()).count()
}
