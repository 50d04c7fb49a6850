//! A moment of the boot clock that can be waited for together with files.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tenure_database::BootInstant;

/// Becomes readable at the moment that was set. It counts on while the machine sleeps, and a process that
/// was frozen finds it readable.
pub(super) struct Alarm {
    timer: OwnedFd,
    at: Option<BootInstant>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Boottime, flags)?, at: None })
    }

    /// Sets the moment; one that has passed counts as now.
    pub(super) fn set(&mut self, at: Option<BootInstant>) {
        if self.at == at {
            return;
        }
        self.at = at;
        let nanos = at.map_or(0, |at| at.as_nanos().max(1));
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .expect("a timer takes every moment since the machine booted");
    }

    /// Forgets that it rang.
    pub(super) fn silence(&mut self) {
        let mut rings = [0; 8];
        if rustix::io::read(&self.timer, &mut rings).is_ok() {
            self.at = None;
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
