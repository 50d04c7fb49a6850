//! Who descends from whom, and how to end all of them.
//!
//! A process is named by its number, and numbers are used again. So a signal goes through a file that
//! stands for the process, opened first and used only if the process is still a descendant afterwards.

use std::{
    collections::{HashMap, HashSet},
    fs,
    str::FromStr,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process, as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    parent: Option<Pid>,
    /// It has ended, and its parent has not looked.
    is_zombie: bool,
}

/// All that descend from a process and live; not the process itself, and nobody below `except`.
#[must_use]
pub fn descendants(of: Pid, except: &HashSet<Pid>) -> Vec<Pid> {
    let processes = all();
    let mut children: HashMap<Pid, Vec<Process>> = HashMap::new();
    for process in processes {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if except.contains(&child.pid) {
                continue;
            }
            parents.push(child.pid);
            if !child.is_zombie {
                found.push(child.pid);
            }
        }
    }
    found
}

/// The children of a process that have ended and were not waited for.
#[must_use]
pub fn zombies(of: Pid) -> Vec<Pid> {
    let ended = all().filter(|process| process.parent == Some(of) && process.is_zombie);
    ended.map(|process| process.pid).collect()
}

/// Sends a signal to all that descend from a process; returns how many there were.
pub fn signal_descendants(of: Pid, except: &HashSet<Pid>, signal: Signal) -> usize {
    let found: Vec<_> = descendants(of, except)
        .into_iter()
        .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
        .collect();
    // Whoever is still a descendant is the one whose file was opened.
    let still: HashSet<_> = descendants(of, except).into_iter().collect();
    for (pid, file) in &found {
        if still.contains(pid) {
            // It may have ended meanwhile, which is what is wanted.
            let _ = pidfd_send_signal(file, signal);
        }
    }
    still.len()
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = Pid::from_raw(i32::from_str(entry.file_name().to_str()?).ok()?)?;
        read(pid)
    })
}

/// What the kernel says of a process; `None` when there is no such process.
#[must_use]
pub fn read(pid: Pid) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name stands in brackets and may contain anything, brackets too.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = Pid::from_raw(fields.next()?.parse().ok()?);
    Some(Process { pid, parent, is_zombie })
}
