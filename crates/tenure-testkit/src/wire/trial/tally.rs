//! How many schedules were played, and which of them broke a promise.

use std::collections::BTreeMap;

use super::{Harm, Schedule, Stance};
use crate::wire::Bite;

/// How much of a broken promise is shown: rows are long.
const MOST_CHARS: usize = 600;

/// What came of a schedule.
pub(super) struct Played {
    /// Whether the call said that it failed.
    pub has_failed: bool,
    /// What was wrong with what it left.
    pub verdict: Result<(), String>,
}

/// The schedules of one call.
#[derive(Debug)]
pub struct Tally {
    call: String,
    /// How often each was done to a message.
    bites: BTreeMap<Harm, usize>,
    /// How many calls of the current term failed for it.
    failed: BTreeMap<Harm, usize>,
    /// Messages that cannot fail.
    without_effect: usize,
    broken: Vec<String>,
}

impl Tally {
    pub(super) fn of(call: String) -> Self {
        let (bites, failed) = (BTreeMap::new(), BTreeMap::new());
        Self { call, bites, failed, without_effect: 0, broken: Vec::new() }
    }

    pub(super) fn count(&mut self, schedule: &Schedule, bite: &Bite, played: Played) {
        let Played { has_failed, verdict } = played;
        match bite.has_effect {
            true => *self.bites.entry(schedule.harm).or_default() += 1,
            false => self.without_effect += 1,
        }
        if has_failed && schedule.stance == Stance::Current {
            *self.failed.entry(schedule.harm).or_default() += 1;
        }
        if let Err(wrong) = verdict {
            let Schedule { session, stance, harm, at } = schedule;
            let (call, message) = (&self.call, &bite.message);
            self.broken.push(format!(
                "{call}, {session:?}, {stance:?}, {harm:?} at {at} ({message}): {wrong}"
            ));
        }
    }

    /// How many schedules there were.
    #[must_use]
    pub fn schedules(&self) -> usize {
        self.bites.values().sum()
    }

    /// Prints the counts of all calls.
    ///
    /// # Panics
    /// When a schedule broke a promise, or a harm never bit: that proves nothing.
    pub fn judge(title: &str, tallies: &[Self]) {
        let all: usize = tallies.iter().map(Self::schedules).sum();
        println!("{title}: {all} schedules (fresh sessions in full with TENURE_TEST_FULL=1)");
        for Self { call, bites, failed, without_effect, .. } in tallies {
            let count: usize = bites.values().sum();
            println!("  {call}: {count} {bites:?}; {without_effect} at what cannot fail");
            println!("    failed in the current term: {failed:?}");
        }
        let broken: Vec<_> = tallies.iter().flat_map(|tally| &tally.broken).collect();
        for line in &broken {
            println!("  broken: {}", line.chars().take(MOST_CHARS).collect::<String>());
        }
        assert!(broken.is_empty(), "{title}: {} schedules broke a promise", broken.len());
        for Self { call, bites, .. } in tallies {
            // A call that sends nothing along with its first message cannot be taken over behind its failure.
            let missing = Harm::ALL.iter().filter(|harm| !bites.contains_key(harm));
            let missing: Vec<_> = missing.filter(|harm| **harm != Harm::Unbegun).collect();
            assert!(missing.is_empty(), "{call} was never harmed by {missing:?}");
        }
        let failed = |harm: &Harm| tallies.iter().any(|tally| tally.failed.contains_key(harm));
        assert!(Harm::ALL.iter().all(failed), "{title}: a harm never made a call fail");
    }
}
