//! Who descends from whom, and how to end all of them.
//!
//! A process is named by its number, and numbers are used again. So a signal goes through a file that
//! stands for the process, opened first and used only if the process is still a descendant afterwards.

use std::{
    collections::{HashMap, HashSet},
    fs,
    str::FromStr,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tenure::process::Stat;

/// What came of a signal to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signalled {
    /// How many there were.
    pub count: usize,
    /// How many of them this process may not signal: they run as somebody else.
    pub refused: usize,
}

/// All that descend from a process and live; not the process itself, and nobody below `except`.
#[must_use]
pub fn descendants(of: Pid, except: &HashSet<Pid>) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<(Pid, Stat)>> = HashMap::new();
    for (pid, stat) in all() {
        children.entry(stat.parent).or_default().push((pid, stat));
    }
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for (child, stat) in children.remove(&parent.as_raw_pid()).unwrap_or_default() {
            if except.contains(&child) {
                continue;
            }
            parents.push(child);
            if !stat.has_ended {
                found.push(child);
            }
        }
    }
    found
}

/// The children of a process that have ended and were not waited for.
#[must_use]
pub fn zombies(of: Pid) -> Vec<Pid> {
    let ended = all().filter(|(_, stat)| stat.parent == of.as_raw_pid() && stat.has_ended);
    ended.map(|(pid, _)| pid).collect()
}

/// Sends a signal to all that descend from a process.
pub fn signal_descendants(of: Pid, except: &HashSet<Pid>, signal: Signal) -> Signalled {
    let found: Vec<_> = descendants(of, except)
        .into_iter()
        .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
        .collect();
    // Whoever is still a descendant is the one whose file was opened.
    let still: HashSet<_> = descendants(of, except).into_iter().collect();
    let told = found.iter().filter(|(pid, _)| still.contains(pid));
    // It may have ended meanwhile, which is what is wanted.
    let refused = told.filter(|(_, file)| pidfd_send_signal(file, signal) == Err(Errno::PERM));
    Signalled { refused: refused.count(), count: still.len() }
}

fn all() -> impl Iterator<Item = (Pid, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = i32::from_str(entry.file_name().to_str()?).ok()?;
        Some((Pid::from_raw(pid)?, Stat::of(pid).ok()??))
    })
}
