//! What answers say about the server that gave them, and what two of them say together.

use std::{sync::Arc, time::Duration};

use tenure_database::BootInstant;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Since the Unix epoch, by the server.
    pub server: Duration,
    /// Before the question was sent.
    pub asked: BootInstant,
    /// After the answer came.
    pub answered: BootInstant,
}

/// What two readings together show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Another server, or another history of the same one.
    pub(crate) server_changed: bool,
    /// The server's clock went ahead of ours by more than the margin.
    pub(crate) clock_jumped: bool,
}

/// Remembers the last reading.
#[derive(Debug)]
pub(crate) struct Witness {
    margin: Duration,
    server: Option<Arc<str>>,
    clock: Option<ClockReading>,
}

impl Witness {
    pub(crate) fn new(margin: Duration) -> Self {
        Self { margin, server: None, clock: None }
    }

    pub(crate) fn compare(&mut self, reading: Reading) -> Signs {
        let signs = Signs {
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
        let at_most_by_us = after.answered.since(before.asked);
        by_server > at_most_by_us + self.margin
    }
}

fn differ(before: Option<&Arc<str>>, after: Option<&Arc<str>>) -> bool {
    matches!((before, after), (Some(before), Some(after)) if before != after)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_clock_that_was_set_back_ends_nobodys_lease_early() {
        let mut witness = Witness::new(SEC);
        assert_eq!(witness.compare(at(10, 1000)), Signs::default());
        assert_eq!(witness.compare(at(20, 500)), Signs::default());
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
