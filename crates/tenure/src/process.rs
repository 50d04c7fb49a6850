//! One process, as the kernel shows it in `/proc`.

use std::{fs, io};

use rustix::io::Errno;

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of its parent; zero where that is out of sight.
    pub parent: i32,
    /// When it started, in ticks since boot. With its number it is told from all others.
    pub started: u64,
    /// It acts no more: it has ended, with all its threads, and its parent has not looked.
    pub has_ended: bool,
}

impl Stat {
    /// `None` when there is no such process in sight.
    pub fn of(pid: i32) -> io::Result<Option<Self>> {
        let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // It ended while it was being read.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = Self::parse(&stat);
        read.map(Some).ok_or_else(|| io::Error::other("/proc shows something else"))
    }

    /// The fields are numbered in proc(5): state 3, parent 4, threads 20, start 22.
    fn parse(stat: &str) -> Option<Self> {
        // The name stands in brackets and may contain anything, brackets too.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let threads: u64 = field(20)?.parse().ok()?;
        // The first thread may have ended before the others.
        let has_ended = matches!(field(3)?, "Z" | "X") && threads <= 1;
        Some(Self { parent: field(4)?.parse().ok()?, started: field(22)?.parse().ok()?, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_is_read_past_and_threads_that_run_count() {
        let stat = |state, threads| {
            format!(
                "7 (a) Z (b) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 4711 1"
            )
        };
        let alive = Stat { parent: 1, started: 4711, has_ended: false };
        assert_eq!(Stat::parse(&stat("S", 3)), Some(alive));
        assert_eq!(Stat::parse(&stat("Z", 2)), Some(alive), "one of its threads still runs");
        assert_eq!(Stat::parse(&stat("Z", 1)), Some(Stat { has_ended: true, ..alive }));
        assert_eq!(Stat::parse("7 (a) S"), None);
    }
}
