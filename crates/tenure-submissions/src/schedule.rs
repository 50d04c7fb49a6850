//! Which intents are due, and when: in memory, on the leader alone.
//!
//! An intent is known by the number of its row, not by its id: with a million of them that is the difference.
//! Whatever is read from the database is applied only if its version is newer than what is known, so that
//! reading a row twice changes nothing, and an old look never revives a finished intent.

use std::collections::{BTreeSet, HashMap};

/// The number of an intent's row.
pub type Row = i64;
/// A moment by the database's clock, in microseconds since 1970.
pub type Micros = i64;
/// What grows with every write to a row.
pub type Version = i64;

/// What the database says about an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub row: Row,
    /// How often it was written.
    pub version: Version,
    /// When it is due; `None` when it has ended.
    pub due: Option<Micros>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    version: Version,
    due: Micros,
}

/// Due times of pending intents.
#[derive(Debug, Default)]
pub struct Schedule {
    due: BTreeSet<(Micros, Row)>,
    known: HashMap<Row, Known, RowHasher>,
    /// Those that are being tried, with what was seen of them last. They are not due.
    running: HashMap<Row, Change, RowHasher>,
    /// How many looks at the database are under way.
    looks: usize,
    /// While there are any: those that have ended since the first began, which they may still bring back.
    ended: HashMap<Row, Version, RowHasher>,
}

/// What a rebuild has read so far. A million is put in order once, and not one by one.
#[derive(Debug, Default)]
pub struct Gathered {
    due: Vec<(Micros, Row)>,
    known: HashMap<Row, Known, RowHasher>,
}

impl Gathered {
    /// Takes one in; each row once.
    pub fn add(&mut self, Change { row, version, due }: Change) {
        if let Some(due) = due {
            self.known.insert(row, Known { version, due });
            self.due.push((due, row));
        }
    }

    /// In order.
    #[must_use]
    pub fn schedule(mut self) -> Schedule {
        self.due.sort_unstable();
        Schedule { due: self.due.into_iter().collect(), known: self.known, ..Schedule::default() }
    }
}

impl Schedule {
    /// A schedule of these, each row once.
    #[must_use]
    pub fn of(pending: impl IntoIterator<Item = Change>) -> Self {
        let mut gathered = Gathered::default();
        pending.into_iter().for_each(|change| gathered.add(change));
        gathered.schedule()
    }

    /// Takes in what the database says. Whether it was news; of what runs, nothing is.
    pub fn apply(&mut self, change: Change) -> bool {
        let Change { row, version, due } = change;
        if let Some(seen) = self.running.get_mut(&row) {
            // It is looked at again when its attempt is done. What was written meanwhile is mostly our own.
            if version > seen.version {
                *seen = change;
            }
            return false;
        }
        if self.ended.get(&row).is_some_and(|ended| *ended >= version) {
            return false;
        }
        match self.known.get(&row) {
            Some(known) if known.version >= version => return false,
            Some(known) => {
                self.due.remove(&(known.due, row));
            }
            None => {}
        }
        match due {
            Some(due) => {
                self.known.insert(row, Known { version, due });
                self.due.insert((due, row));
            }
            None => {
                self.known.remove(&row);
                if self.looks > 0 {
                    self.ended.insert(row, version);
                }
            }
        }
        true
    }

    /// From here on whatever ends is remembered: what a look reads may be older.
    pub fn begin_look(&mut self) {
        self.looks += 1;
    }

    /// All that the look has read was applied.
    pub fn end_look(&mut self) {
        self.looks = self.looks.saturating_sub(1);
        if self.looks == 0 {
            self.ended = HashMap::default();
        }
    }

    /// Takes out up to `most` that are due by `now`, the longest due first. They run until [`Self::done`].
    pub fn take_due(&mut self, now: Micros, most: usize) -> Vec<Row> {
        let mut taken = Vec::new();
        while taken.len() < most {
            match self.due.first() {
                Some((due, row)) if *due <= now => {
                    let row = *row;
                    self.due.pop_first();
                    let version = self.known.remove(&row).map_or(0, |known| known.version);
                    self.running.insert(row, Change { row, version, due: None });
                    taken.push(row);
                }
                _ => break,
            }
        }
        taken
    }

    /// An attempt is over, and this is what its intent is now.
    pub fn done(&mut self, change: Change) {
        let seen = self.running.remove(&change.row).filter(|seen| seen.version > change.version);
        self.apply(seen.unwrap_or(change));
    }

    /// An attempt is over, and its intent has moved on without it: what was seen of it since holds. What was not
    /// seen yet comes with the next refresh.
    pub fn moved_on(&mut self, row: Row) {
        if let Some(seen) = self.running.remove(&row).filter(|seen| seen.due.is_some()) {
            self.apply(seen);
        }
    }

    /// When the next one is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Micros> {
        self.due.first().map(|(due, _)| *due)
    }

    /// How many are waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether none is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// How many are being tried.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }
}

/// Row numbers come from a sequence, and nobody chooses them: one multiplication spreads them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowHasher;

impl std::hash::BuildHasher for RowHasher {
    type Hasher = Spread;

    fn build_hasher(&self) -> Spread {
        Spread(0)
    }
}

/// The hash of one row number.
#[derive(Clone, Copy, Debug)]
pub struct Spread(u64);

impl std::hash::Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_i64(&mut self, row: i64) {
        self.write_u64(row.cast_unsigned());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(row: Row, version: Version, due: Micros) -> Change {
        Change { row, version, due: Some(due) }
    }

    fn ended(row: Row, version: Version) -> Change {
        Change { row, version, due: None }
    }

    #[test]
    fn what_is_due_comes_out_in_order_and_once() {
        let mut schedule =
            Schedule::of(vec![pending(1, 1, 30), pending(2, 1, 10), pending(3, 1, 20)]);
        assert_eq!(schedule.next_due(), Some(10));
        assert_eq!(schedule.take_due(20, 9), [2, 3]);
        assert!(schedule.take_due(20, 9).is_empty());
        assert_eq!((schedule.len(), schedule.running()), (1, 2));
    }

    #[test]
    fn reading_a_row_twice_changes_nothing() {
        let mut schedule = Schedule::default();
        assert!(schedule.apply(pending(1, 1, 10)));
        assert!(!schedule.apply(pending(1, 1, 10)));
        assert_eq!(schedule.take_due(99, 9), [1]);
        assert!(!schedule.apply(pending(1, 1, 10)), "it is being tried");
        assert!(schedule.take_due(99, 9).is_empty());
    }

    #[test]
    fn an_old_look_never_revives_a_finished_intent() {
        let mut schedule = Schedule::of(vec![pending(1, 1, 10)]);
        assert_eq!(schedule.take_due(99, 1), [1]);
        schedule.begin_look();
        schedule.done(ended(1, 3));
        schedule.begin_look();
        schedule.end_look();
        assert!(!schedule.apply(pending(1, 2, 10)), "read before it ended");
        schedule.end_look();
        assert!(schedule.is_empty());
        let mut schedule = Schedule::of(vec![pending(2, 5, 10)]);
        assert!(!schedule.apply(pending(2, 4, 1)));
        assert!(schedule.apply(ended(2, 6)));
        assert!(schedule.is_empty());
    }

    #[test]
    fn what_changes_while_it_is_tried_counts_when_the_attempt_is_done() {
        let mut schedule = Schedule::of(vec![pending(1, 1, 10)]);
        schedule.take_due(99, 1);
        assert!(!schedule.apply(ended(1, 4)), "no news yet: another leader has ended it");
        schedule.done(pending(1, 3, 50));
        assert!(schedule.is_empty(), "the newer news holds");
    }

    #[test]
    fn whoever_moved_on_without_its_attempt_is_due_as_was_seen_since() {
        let mut schedule = Schedule::of(vec![pending(1, 1, 10), pending(2, 1, 10)]);
        assert_eq!(schedule.take_due(99, 9), [1, 2]);
        assert!(
            !schedule.apply(pending(1, 3, 50)),
            "no news yet, as a reservation of our own is none"
        );
        schedule.moved_on(1);
        schedule.moved_on(2);
        assert_eq!((schedule.len(), schedule.running(), schedule.next_due()), (1, 0, Some(50)));
    }

    #[test]
    fn a_later_due_time_takes_the_place_of_an_earlier_one() {
        let mut schedule = Schedule::of(vec![pending(1, 1, 10)]);
        assert!(schedule.apply(pending(1, 2, 40)));
        assert_eq!((schedule.take_due(30, 9), schedule.next_due()), (vec![], Some(40)));
    }
}
