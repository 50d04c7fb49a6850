//! What answers say about the server that gave them, and what two of them say together.

use std::{sync::Arc, time::Duration};

use tenure_database::BootInstant;

use crate::elector::Event;

/// What a server said about itself in one answer. A lock that has no server says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Which server, and which history of it: the system identifier and the timeline.
    pub server: Option<Arc<str>>,
    /// The server's clock, and when it was asked by ours.
    pub clock: Option<ClockReading>,
    /// Where the lock runs by a clock that means nothing to people: since the Unix epoch, to show them. Nothing
    /// is decided by it.
    pub shown: Option<Duration>,
}

/// Two clocks side by side: the server's was read somewhere between the two moments of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockReading {
    /// Since the Unix epoch, by the server.
    pub server: Duration,
    /// Before the question was sent.
    pub asked: BootInstant,
    /// After the answer came.
    pub answered: BootInstant,
}

/// What readings together show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Another server, or another history of the same one.
    pub server_changed: bool,
    /// The server's clock went ahead of ours by more than the margin.
    pub clock_jumped: bool,
    /// The server's clock was set back by more than half the margin since the term was granted: an expiry that it
    /// gives now comes too early if the clock is set forth again.
    pub clock_fell_back: bool,
}

/// Remembers what was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    margin: Duration,
    server: Option<Arc<str>>,
    clock: Option<ClockReading>,
    ahead: Option<Ahead>,
}

/// How far the server's clock was ahead of ours at its best, and when that was seen.
///
/// Clocks that run at different rates part slowly, so the mark comes down by a hundredth of the time; a clock that
/// was set back falls below it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ahead {
    by: i128,
    seen_at: BootInstant,
}

impl Ahead {
    /// The least that it can have been: the server's clock was read at the latest when the answer was here.
    fn at_least(clock: &ClockReading) -> Self {
        Self { by: difference(clock.server, clock.answered), seen_at: clock.answered }
    }

    fn by_now(&self, now: BootInstant) -> i128 {
        self.by - i128::from(now.since(self.seen_at).as_nanos() as u64 / 100)
    }
}

fn difference(server: Duration, ours: BootInstant) -> i128 {
    server.as_nanos() as i128 - i128::from(ours.as_nanos())
}

impl Witness {
    /// Whoever has read nothing yet; differences up to the margin are borne.
    #[must_use]
    pub fn new(margin: Duration) -> Self {
        Self { margin, server: None, clock: None, ahead: None }
    }

    /// What an answer of the lock shows beside the earlier ones, and what that makes of it: by a clock that was set
    /// back no renewal extends a term, and a term that is granted is begun with the same caution as after a jump.
    /// From then on its expiries are by the clock as it is.
    pub fn judge(&mut self, reading: Reading, answer: &mut Event) -> Signs {
        let granted_by = reading.clock;
        let mut signs = self.compare(reading);
        match answer {
            Event::Renewed { extends, .. } => *extends &= !signs.clock_fell_back,
            Event::Granted { .. } => {
                signs.clock_jumped |= signs.clock_fell_back;
                self.ahead = granted_by.as_ref().map(Ahead::at_least);
            }
            _ => {}
        }
        signs
    }

    fn compare(&mut self, reading: Reading) -> Signs {
        let signs = Signs {
            clock_fell_back: reading.clock.is_some_and(|clock| self.fell_back(clock)),
            server_changed: differ(self.server.as_ref(), reading.server.as_ref()),
            clock_jumped: match (self.clock, reading.clock) {
                (Some(before), Some(after)) => self.jumped(before, after),
                _ => false,
            },
        };
        self.server = reading.server.or(self.server.take());
        self.clock = reading.clock.or(self.clock);
        signs
    }

    fn jumped(&self, before: ClockReading, after: ClockReading) -> bool {
        let by_server = after.server.saturating_sub(before.server);
        // What may be a jump is taken for one: that costs a wait, and a jump that slow answers hide costs more.
        let at_least_by_us = after.asked.since(before.answered);
        by_server > at_least_by_us + self.margin
    }

    /// A lease counts from before the question was sent, so that is what its clock is compared with.
    fn fell_back(&mut self, clock: ClockReading) -> bool {
        let now = Ahead::at_least(&clock);
        let best = self.ahead.map_or(now.by, |ahead| ahead.by_now(clock.answered));
        if now.by >= best {
            self.ahead = Some(now);
        }
        let borne = (self.margin / 2).as_nanos() as i128;
        difference(clock.server, clock.asked) + borne < best
    }
}

fn differ(before: Option<&Arc<str>>, after: Option<&Arc<str>>) -> bool {
    matches!((before, after), (Some(before), Some(after)) if before != after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{elector::CommandId, term::Epoch};

    const SEC: Duration = Duration::from_secs(1);

    fn at(ours: u64, server: u64) -> Reading {
        let asked = BootInstant::from_nanos(0) + SEC * u32::try_from(ours).unwrap();
        let clock =
            ClockReading { server: SEC * u32::try_from(server).unwrap(), asked, answered: asked };
        Reading { server: Some("7:1".into()), clock: Some(clock), shown: None }
    }

    #[test]
    fn a_clock_that_runs_with_ours_is_trusted() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        assert_eq!(witness.compare(at(20, 1011)), Signs::default());
    }

    #[test]
    fn a_clock_that_jumped_ahead_by_more_than_the_margin_is_noticed() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        assert!(witness.compare(at(20, 1012)).clock_jumped);
        assert!(!witness.compare(at(30, 1022)).clock_jumped, "once");
    }

    #[test]
    fn a_jump_does_not_hide_behind_a_slow_answer() {
        let slow = |reading: Reading| {
            let clock =
                reading.clock.map(|clock| ClockReading { asked: clock.asked - SEC * 4, ..clock });
            Reading { clock, ..reading }
        };
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(slow(at(10, 1000))), Signs::default());
        assert!(witness.compare(at(20, 1013)).clock_jumped);
    }

    #[test]
    fn a_clock_that_was_set_back_is_noticed_until_it_is_right_again() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        assert!(witness.compare(at(20, 1009)).clock_fell_back, "by a second, twice what is borne");
        assert!(witness.compare(at(21, 1010)).clock_fell_back, "still");
        assert_eq!(witness.compare(at(22, 1012)), Signs::default());
        let mut granted = Event::Granted {
            command: CommandId::default(),
            sent_at: BootInstant::default(),
            epoch: Epoch::new(1),
            settle: Duration::ZERO,
        };
        assert!(witness.judge(at(32, 1021), &mut granted).clock_jumped, "cautious");
        let mut renewed = |reading| {
            let (command, sent_at) = (CommandId::default(), BootInstant::default());
            let mut event = Event::Renewed { command, sent_at, extends: true };
            let _ = witness.judge(reading, &mut event);
            matches!(event, Event::Renewed { extends: true, .. })
        };
        assert!(renewed(at(33, 1022)), "that is its clock now");
        assert!(!renewed(at(34, 1021)), "and it was set back again");
    }

    #[test]
    fn steps_back_add_up_and_a_slow_clock_is_borne() {
        let mut witness = Witness::new(SEC * 10);
        assert_eq!(witness.compare(at(0, 1000)), Signs::default());
        assert!(!witness.compare(at(10, 1007)).clock_fell_back);
        assert!(witness.compare(at(20, 1014)).clock_fell_back, "by six seconds in two steps");
        let mut witness = Witness::new(SEC * 10);
        for step in 0..100 {
            let slow = witness.compare(at(step * 200, 1000 + step * 199));
            assert_eq!(slow, Signs::default(), "half a hundredth slower than ours");
        }
    }

    #[test]
    fn a_slow_answer_is_no_step_back() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        let clock = at(12, 1002)
            .clock
            .map(|clock| ClockReading { answered: clock.answered + SEC * 9, ..clock });
        assert!(!witness.compare(Reading { clock, ..at(12, 1002) }).clock_fell_back);
        assert!(!witness.compare(at(22, 1012)).clock_fell_back);
    }

    #[test]
    fn another_timeline_is_another_server() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        let promoted = Reading { server: Some("7:2".into()), ..at(20, 1010) };
        assert!(witness.compare(promoted).server_changed);
    }

    #[test]
    fn an_answer_that_says_nothing_changes_nothing() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        assert_eq!(witness.compare(Reading::default()), Signs::default());
        let promoted = Reading { server: Some("7:2".into()), ..Reading::default() };
        assert!(witness.compare(promoted).server_changed);
    }
}
