//! Starts keepers, and ends what they leave behind.
//!
//! The process that has a nursery is a subreaper: whoever a dead keeper kept becomes its child. Apart from keepers
//! and from those who were there before, every child of this process is such an orphan, and is ended.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid},
};
use tenure::lock::Processes;
use tokio::net::UnixStream;

use crate::{
    family::{self, Descendant, Offspring, Signalled},
    kept::Idle,
    orders,
};

/// What `ps` shows.
const NAME: &str = "tenure";
/// How often orphans are looked for without a pause: whoever passes itself on by fork and exit is met in the
/// moment between the two, or not at all.
const IN_A_ROW: u32 = 200;
/// The pause after that.
const AGAIN: Duration = Duration::from_millis(5);

/// Starts keepers, and knows which of a process's children they are.
#[derive(Clone, Debug)]
pub struct Nursery {
    keeper: Vec<OsString>,
    /// Those who were there before, and are none of our business.
    strangers: Arc<HashMap<Pid, Descendant>>,
    household: Arc<Mutex<Household>>,
    /// This process and its keepers: once they are gone, so are their children.
    processes: Processes,
}

/// While it is locked, nobody is born to this process by its own doing, and nobody is buried but by whoever has
/// locked it. So a child's number is its own, and a keeper is known as soon as it can be met.
#[derive(Debug)]
struct Household {
    keepers: HashSet<Pid>,
    offspring: Offspring,
}

impl Nursery {
    /// `keeper` is the program, with arguments, that runs [`keeper::keep`](crate::keeper::keep). From here
    /// on this process inherits the orphans below it, and its children belong to the nursery.
    pub fn new(keeper: Vec<OsString>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let before = family::descendants(getpid(), &HashSet::new())?.into_iter();
        let household =
            Household { keepers: HashSet::new(), offspring: Offspring::of_this_process()? };
        Ok(Self {
            keeper,
            strangers: Arc::new(before.map(|one| (one.pid, one)).collect()),
            household: Arc::new(Mutex::new(household)),
            processes: Processes::this()?,
        })
    }

    /// Who acts for this process: itself, and its keepers.
    #[must_use]
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Starts a keeper that waits for its child, so that only the child is to be started later.
    pub fn keeper(&self) -> io::Result<Idle> {
        let Some((program, arguments)) = self.keeper.split_first() else {
            return Err(io::Error::other("no program was named for the keeper"));
        };
        let (ours, theirs) = orders::channel()?;
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true)?;
        let channel = UnixStream::from_std(ours)?;
        let mut keeper = Command::new(program);
        keeper.arg0(NAME).args(arguments).stdin(Stdio::from(theirs));
        let process = self.starts(&mut keeper)?;
        let number = Pid::from_child(&process).as_raw_pid();
        let idle = Idle::new(self.clone(), channel, process);
        self.processes.add(number)?;
        Ok(idle)
    }

    fn starts(&self, keeper: &mut Command) -> io::Result<Child> {
        let mut household = self.household();
        let process = keeper.spawn()?;
        household.keepers.insert(Pid::from_child(&process));
        Ok(process)
    }

    /// Buries a keeper if it has ended; whether it has.
    pub(crate) fn buries(&self, keeper: &mut Child) -> bool {
        let pid = Pid::from_child(keeper);
        let mut household = self.household();
        if matches!(keeper.try_wait(), Ok(None)) {
            return false;
        }
        household.keepers.remove(&pid);
        self.processes.remove(pid.as_raw_pid());
        true
    }

    /// From now on it is an orphan like others.
    pub(crate) fn forget(&self, keeper: Pid) {
        self.household().keepers.remove(&keeper);
        self.processes.remove(keeper.as_raw_pid());
    }

    fn household(&self) -> MutexGuard<'_, Household> {
        self.household.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills whoever is below this process and below none of its keepers, until nobody is.
    pub(crate) async fn end_orphans(&self) {
        for look in 1_u32.. {
            let is_long = look % IN_A_ROW == 0;
            match self.end_those_there_are() {
                Ok(Signalled { count: 0, .. }) => return,
                Ok(Signalled { refused, .. }) if refused > 0 && is_long => may_not_end(),
                Err(error) if is_long => may_not_look(&error),
                _ => {}
            }
            if is_long {
                self.reach_further_below();
                tokio::time::sleep(AGAIN).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Kills every orphan and buries those that have ended; how many there were, dead or alive. Nobody is a proof:
    /// whoever lives below an orphan is an orphan when that has ended.
    fn end_those_there_are(&self) -> io::Result<Signalled> {
        let mut household = self.household();
        let Household { keepers, offspring } = &mut *household;
        let mut met = Signalled::default();
        offspring.each(|child| {
            if keepers.contains(&child.pid) || self.is_stranger(child.pid)? {
                return Ok(());
            }
            met.count += 1;
            if child.has_ended {
                let _ = waitpid(Some(child.pid), WaitOptions::NOHANG);
            } else if kill_process(child.pid, Signal::KILL) == Err(Errno::PERM) {
                met.refused += 1;
            }
            Ok(())
        })?;
        Ok(met)
    }

    fn is_stranger(&self, pid: Pid) -> io::Result<bool> {
        self.strangers.get(&pid).map_or(Ok(false), Descendant::is_there)
    }

    /// Whoever is killed may take its time to die, in the kernel: its children must not act meanwhile. The proof
    /// does not need this, so whoever cannot be found here is no error.
    fn reach_further_below(&self) {
        let mut others = self.household().keepers.clone();
        others.extend(self.strangers.keys());
        let below = family::descendants(getpid(), &others).unwrap_or_default();
        family::signal(&below, &[Signal::KILL]);
    }
}

pub(crate) fn may_not_end() {
    let why = "somebody who descends from the child runs as another user";
    tracing::error!(target: "tenure", why, "child_cannot_be_ended");
}

fn may_not_look(error: &io::Error) {
    tracing::error!(target: "tenure", %error, "orphans_cannot_be_seen");
}
