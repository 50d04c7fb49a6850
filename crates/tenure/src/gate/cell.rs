//! The gate's state in two words, read without a lock and never torn.
//!
//! `pass` holds the local deadline in nanoseconds with the lowest bit saying who is admitted; zero is
//! shut. `epoch` holds the term. The writer shuts the gate before it changes the epoch, and a later
//! term always has a later deadline, so no value of `pass` ever stands for two terms: a reader that
//! finds the same `pass` before and after reading the epoch has read the epoch of that `pass`.
//! A writer that is paused half-way leaves the gate shut, and readers never wait for it.

use super::atomic::{AtomicI64, AtomicU64, Ordering};

const SHUT: u64 = 0;
const RUNNING_WORK_ONLY: u64 = 1;

/// What a reader saw, all of it from one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) epoch: i64,
    /// The gate is shut from this nanosecond of the boot clock on.
    pub(crate) until_nanos: u64,
    pub(crate) admits_new_work: bool,
}

#[derive(Debug)]
pub(crate) struct Cell {
    pass: AtomicU64,
    epoch: AtomicI64,
}

impl Cell {
    pub(crate) fn shut() -> Self {
        Self { pass: AtomicU64::new(SHUT), epoch: AtomicI64::new(0) }
    }

    /// Opens or extends the gate. One writer at a time: the election's driver.
    pub(crate) fn open(&self, open: Pass) {
        if self.epoch.load(Ordering::Relaxed) != open.epoch {
            self.pass.store(SHUT, Ordering::Release);
            self.epoch.store(open.epoch, Ordering::Release);
        }
        let admits = if open.admits_new_work { 0 } else { RUNNING_WORK_ONLY };
        self.pass.store((open.until_nanos & !RUNNING_WORK_ONLY) | admits, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        self.pass.store(SHUT, Ordering::Release);
    }

    /// What the gate lets through, or `None` when it is shut.
    #[inline]
    pub(crate) fn read(&self) -> Option<Pass> {
        loop {
            let before = self.pass.load(Ordering::Acquire);
            if before == SHUT {
                return None;
            }
            let epoch = self.epoch.load(Ordering::Acquire);
            if self.pass.load(Ordering::Acquire) == before {
                return Some(Pass {
                    epoch,
                    until_nanos: before & !RUNNING_WORK_ONLY,
                    admits_new_work: before & RUNNING_WORK_ONLY == 0,
                });
            }
        }
    }

    /// The term that the gate was last opened for.
    pub(crate) fn last_epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }
}
