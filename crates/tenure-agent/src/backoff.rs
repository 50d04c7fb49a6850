//! How long to wait before asking again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
/// The longest pause, whoever asks for one.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

/// Later and later, and never all at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure: anything up to a ceiling that doubles.
    pub fn pause(&mut self) -> Duration {
        let ceiling = ceiling(self.failures);
        self.failures = self.failures.saturating_add(1);
        ceiling.mul_f64(fastrand::f64())
    }

    /// It went well: the next failure is a first one.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

fn ceiling(failures: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_seconds_and_no_further() {
        let ceilings = [0, 1, 2, 5, 6, 7, u32::MAX].map(|n| ceiling(n).as_millis());
        assert_eq!(ceilings, [100, 200, 400, 3_200, 5_000, 5_000, 5_000]);
        let mut backoff = Backoff::default();
        for failures in 0..50 {
            assert!(backoff.pause() <= ceiling(failures));
        }
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
