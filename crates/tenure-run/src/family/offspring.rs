//! The children of this process, looked for without opening anything: whoever must prove that nobody is left
//! may have no descriptor left either.
//!
//! A subreaper inherits every orphan below it. So whoever lives below it does so below one of its children, and
//! a child stays, as a zombie if need be, until this process buries it. A look that meets no child, dead or
//! alive, therefore proves that nobody was there when it began, however quickly they pass themselves on: as long
//! as nobody else buries meanwhile, and SIGCHLD is not ignored.

use std::{fs, io};

use rustix::{
    fs::{Dir, Mode, OFlags, open},
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, getpid, waitid},
};

/// A child of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its number.
    pub pid: Pid,
    /// It acts no more, and is to be buried.
    pub has_ended: bool,
}

/// Looks for the children of this process.
#[derive(Debug)]
pub struct Offspring {
    /// Opened once, and read anew by every look.
    processes: Dir,
}

impl Offspring {
    /// Opens what the looks need.
    pub fn of_this_process() -> io::Result<Self> {
        if fs::read_link("/proc/self")?.to_str() != Some(&getpid().as_raw_pid().to_string()) {
            return Err(io::Error::other(
                "/proc shows another process namespace than this one: mount one of its own",
            ));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let processes = Dir::new(open("/proc", flags, Mode::empty())?)?;
        Ok(Self { processes })
    }

    /// Shows every child to `meet`, the newest number first: whoever passes itself on has the newest.
    pub fn each(&mut self, mut meet: impl FnMut(Child)) -> io::Result<()> {
        for pid in self.numbers()?.into_iter().rev() {
            match look_at(pid) {
                Ok(ended) => meet(Child { pid, has_ended: ended.is_some() }),
                Err(Errno::CHILD) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// All processes there are, in the order of their numbers.
    fn numbers(&mut self) -> io::Result<Vec<Pid>> {
        self.processes.rewind();
        let mut numbers = Vec::new();
        while let Some(entry) = self.processes.read() {
            let entry = entry?;
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            numbers.extend(number.and_then(Pid::from_raw));
        }
        if !numbers.contains(&getpid()) {
            return Err(io::Error::other("/proc does not show this process"));
        }
        Ok(numbers)
    }
}

/// Only a parent is told about a process; whoever has ended is left unburied.
fn look_at(pid: Pid) -> Result<Option<rustix::process::WaitIdStatus>, Errno> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(Errno::INTR) => {}
            looked => return looked,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn children() -> Vec<Child> {
        let mut children = Vec::new();
        let mut offspring = Offspring::of_this_process().unwrap();
        offspring.each(|child| children.push(child)).unwrap();
        children
    }

    #[test]
    fn a_child_is_met_alive_and_unburied_and_not_after() {
        let mut sleeper = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&sleeper);
        assert!(children().contains(&Child { pid, has_ended: false }));
        sleeper.kill().unwrap();
        while !children().contains(&Child { pid, has_ended: true }) {
            std::thread::yield_now();
        }
        sleeper.wait().unwrap();
        assert!(children().iter().all(|child| child.pid != pid));
    }
}
