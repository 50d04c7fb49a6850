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

/// Those who descend from a process, found from parent to child: quick, however many processes there are. It
/// may miss somebody who is just passed on to another parent, so it proves nothing.
#[must_use]
pub fn nearest(of: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        let Some(children) = children(parent) else {
            // Some kernels do not say who the children are.
            return descendants(of, &HashSet::new());
        };
        found.extend(&children);
        parents.extend(children);
    }
    found
}

/// The children of all threads of a process; `None` where the kernel does not say.
fn children(of: Pid) -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    let threads = fs::read_dir(format!("/proc/{}/task", of.as_raw_pid()));
    for thread in threads.into_iter().flatten().flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(listed) => {
                let pids = listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
                children.extend(pids.filter_map(Pid::from_raw));
            }
            // It has ended meanwhile.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

/// Sends signals, one after the other, to those whom `find` finds.
pub fn signal(find: impl Fn() -> Vec<Pid>, signals: &[Signal]) -> Signalled {
    let open = |pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?));
    let found: Vec<_> = find().into_iter().filter_map(open).collect();
    // Whoever is still found is the one whose file was opened.
    let still: HashSet<_> = find().into_iter().collect();
    let mut refused = 0;
    for (_, file) in found.iter().filter(|(pid, _)| still.contains(pid)) {
        // It may have ended meanwhile, which is what is wanted.
        let told = signals.iter().map(|signal| pidfd_send_signal(file, *signal));
        let refusals = told.filter(|told| *told == Err(Errno::PERM)).count();
        refused += usize::from(refusals > 0);
    }
    Signalled { refused, count: still.len() }
}

fn all() -> impl Iterator<Item = (Pid, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = i32::from_str(entry.file_name().to_str()?).ok()?;
        Some((Pid::from_raw(pid)?, Stat::of(pid).ok()??))
    })
}
