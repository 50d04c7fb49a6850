//! The one clock that local deadlines are measured on.
//!
//! `std::time::Instant` stops while a Linux machine sleeps, so a deadline kept with it would still look
//! open after the database had long handed the lease to somebody else.
//! `CLOCK_BOOTTIME` goes on counting, and on macOS `CLOCK_MONOTONIC` does.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Since the Unix epoch by this machine's wall clock, which anybody may set: to show to people, and as the clock
/// of a database that is a file here.
#[must_use]
pub fn unix_time() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A moment on this machine's boot clock, in nanoseconds.
///
/// It may only make a node stop earlier; who holds a lease is decided by the database's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(u64);

impl BootInstant {
    /// Reads the clock.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(CLOCK);
        Self((now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64)
    }

    /// The moment `nanos` nanoseconds after the machine booted.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the machine booted.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the machine booted: the time of a SQLite lease, and of token files.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long after `earlier` this is, or zero when it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long it still takes until this moment, or zero when it has passed.
    #[must_use]
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for BootInstant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Display for BootInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s after boot", self.0 as f64 / 1e9)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards() {
        let first = BootInstant::now();
        assert!(BootInstant::now() >= first);
    }

    #[test]
    fn a_far_deadline_saturates_instead_of_wrapping() {
        let end = BootInstant::from_nanos(5) + Duration::MAX;
        assert!(end > BootInstant::now());
        assert_eq!(BootInstant::from_nanos(5) - Duration::from_secs(1), BootInstant::from_nanos(0));
    }
}
