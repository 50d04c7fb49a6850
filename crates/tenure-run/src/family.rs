//! Who descends from whom, and how to end all of them.
//!
//! A process is named by its number, and numbers are used again. So a signal to somebody further below goes
//! through a file that stands for the process, opened first and used only if the process is still the one that
//! was found. A child of our own is signalled by its number: that is its own until we have buried it.
//!
//! Whoever could not look does not know that nobody is there: every look answers with an error then.

mod offspring;

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    str::FromStr,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tenure::process::Stat;

pub use self::offspring::{Child, Offspring};

/// What came of a signal to many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signalled {
    /// How many there were.
    pub count: usize,
    /// How many of them this process may not signal: they run as somebody else.
    pub refused: usize,
}

/// Somebody who descends from a process: its number, and when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descendant {
    /// Its number.
    pub pid: Pid,
    started: u64,
}

impl Descendant {
    /// Whether its number is still its own.
    pub fn is_there(&self) -> io::Result<bool> {
        let stat = Stat::of(self.pid.as_raw_pid())?;
        Ok(stat.is_some_and(|stat| stat.started == self.started))
    }
}

/// All that descend from a process and live; not the process itself, and nobody at or below `except`. It may miss
/// somebody who is passed on to another parent while it looks, so it proves nothing.
pub fn descendants(of: Pid, except: &HashSet<Pid>) -> io::Result<Vec<Descendant>> {
    let mut children: HashMap<i32, Vec<(Pid, Stat)>> = HashMap::new();
    for (pid, stat) in all()? {
        children.entry(stat.parent).or_default().push((pid, stat));
    }
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for (pid, stat) in children.remove(&parent.as_raw_pid()).unwrap_or_default() {
            if except.contains(&pid) {
                continue;
            }
            parents.push(pid);
            if !stat.has_ended {
                found.push(Descendant { pid, started: stat.started });
            }
        }
    }
    Ok(found)
}

/// The same, found from parent to child: quick, however many processes there are.
pub fn nearest(of: Pid) -> io::Result<Vec<Descendant>> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        let Some(children) = children(parent)? else {
            // Some kernels do not say who the children are.
            return descendants(of, &HashSet::new());
        };
        for pid in children {
            parents.push(pid);
            if let Some(stat) = stat_of(pid)?.filter(|stat| !stat.has_ended) {
                found.push(Descendant { pid, started: stat.started });
            }
        }
    }
    Ok(found)
}

/// The children of all threads of a process; `None` where the kernel does not say.
fn children(of: Pid) -> io::Result<Option<Vec<Pid>>> {
    let mut children = Vec::new();
    let Some(threads) = unless_gone(fs::read_dir(format!("/proc/{}/task", of.as_raw_pid())))?
    else {
        return Ok(Some(children));
    };
    for thread in threads {
        let Some(thread) = unless_gone(thread)? else { continue };
        match unless_gone(fs::read_to_string(thread.path().join("children")))? {
            Some(listed) => {
                let pids = listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
                children.extend(pids.filter_map(Pid::from_raw));
            }
            // It has ended meanwhile.
            None if !thread.path().exists() => {}
            None => return Ok(None),
        }
    }
    Ok(Some(children))
}

/// Sends signals, one after the other, to those who are still there. Needs two descriptors, however many they
/// are.
pub fn signal(whom: &[Descendant], signals: &[Signal]) -> Signalled {
    let mut told = Signalled { count: whom.len(), refused: 0 };
    for one in whom {
        // It may have ended meanwhile, which is what is wanted; whoever could not be looked at is met again.
        let Ok(file) = pidfd_open(one.pid, PidfdFlags::empty()) else { continue };
        if !matches!(one.is_there(), Ok(true)) {
            continue;
        }
        let sent = signals.iter().map(|signal| pidfd_send_signal(&file, *signal));
        let refusals = sent.filter(|sent| *sent == Err(Errno::PERM)).count();
        told.refused += usize::from(refusals > 0);
    }
    told
}

fn all() -> io::Result<Vec<(Pid, Stat)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(entry) = unless_gone(entry)? else { continue };
        let number = entry.file_name().to_str().and_then(|name| i32::from_str(name).ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        if let Some(stat) = stat_of(pid)? {
            all.push((pid, stat));
        }
    }
    Ok(all)
}

/// Somebody else's process may be out of sight.
fn stat_of(pid: Pid) -> io::Result<Option<Stat>> {
    match Stat::of(pid.as_raw_pid()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        looked => looked,
    }
}

/// A process that ends while it is looked at is no error.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}
