//! The database's clock, as this node knows it.

use std::time::Duration;

use tenure::BootInstant;

use crate::schedule::Micros;

/// A reading of the database's clock, and when it was taken here. What is decided by it is tested again by the
/// database.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseClock {
    read: Micros,
    /// The moment after the answer: so the database is never thought to be ahead of where it is.
    at: BootInstant,
}

impl DatabaseClock {
    pub(super) fn read(now: Micros) -> Self {
        Self { read: now, at: BootInstant::now() }
    }

    pub(super) fn now(&self) -> Micros {
        let since = BootInstant::now().since(self.at).as_micros();
        self.read.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// How long until then.
    pub(super) fn until(&self, moment: Micros) -> Duration {
        let micros = moment.saturating_sub(self.now());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}
