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
use signal_hook::{consts::SIGCHLD, flag};
use tenure::lock::Processes;
use tokio::net::UnixStream;

use crate::{
    family::{self, Descendant, Offspring},
    kept::Idle,
    orders,
};

/// What `ps` shows.
const NAME: &str = "tenure";
/// How often orphans are looked for without a pause since one was buried: whoever passes itself on by fork and exit is
/// met in the moment between the two, or not at all.
const IN_A_ROW: u32 = 200;
/// The pause between two looks after that: whoever is left then takes its time to die.
const AGAIN: Duration = Duration::from_millis(5);
/// After so many of those it is told, again and again.
const TOLD_AFTER: u32 = 200;

/// Starts keepers, and knows which of a process's children they are.
#[derive(Clone, Debug)]
pub struct Nursery {
    keeper: Vec<OsString>,
    /// Those who were there before, and are none of our business.
    strangers: Arc<Strangers>,
    household: Arc<Mutex<Household>>,
    /// This process and its keepers: once they are gone, so are their children.
    processes: Processes,
}

#[derive(Debug)]
struct Strangers {
    /// Children of this process. Nobody buries them, so their numbers stay their own.
    children: HashSet<Pid>,
    /// Those further below, whose numbers may be used again.
    others: HashMap<Pid, Descendant>,
}

/// While it is locked, nobody is born to this process by its own doing, and nobody is buried but by whoever has
/// locked it. So a child's number is its own, and a keeper is known as soon as it can be met. A start takes as long as
/// the keeper's program takes to be read.
#[derive(Debug)]
struct Household {
    keepers: HashSet<Pid>,
    offspring: Offspring,
}

impl Nursery {
    /// `keeper` is the program, with arguments, that runs [`keeper::keep`](crate::keeper::keep). From here
    /// on this process inherits the orphans below it, and its children belong to the nursery.
    pub fn new(keeper: Vec<OsString>) -> io::Result<Self> {
        // Where its signal is ignored, which a program may inherit, a child that ends leaves no trace to be met.
        flag::register(SIGCHLD, Arc::default())?;
        set_child_subreaper(Some(getpid()))?;
        let mut offspring = Offspring::of_this_process()?;
        let strangers = Strangers::before(&mut offspring)?;
        let household = Household { keepers: HashSet::new(), offspring };
        Ok(Self {
            keeper,
            strangers: Arc::new(strangers),
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
        let process = self.start(&mut keeper)?;
        let number = Pid::from_child(&process).as_raw_pid();
        let idle = Idle::new(self.clone(), channel, process);
        self.processes.add(number)?;
        Ok(idle)
    }

    fn start(&self, keeper: &mut Command) -> io::Result<Child> {
        let mut household = self.household();
        let process = keeper.spawn()?;
        household.keepers.insert(Pid::from_child(&process));
        Ok(process)
    }

    /// Buries a keeper if it has ended; whether it has.
    pub(crate) fn bury(&self, keeper: &mut Child) -> bool {
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
        let mut quiet = 0_u32;
        loop {
            let looked = self.end_those_there_are();
            quiet = match &looked {
                Ok(Met { count: 0, .. }) => return,
                Ok(Met { buried, .. }) if *buried > 0 => 0,
                _ => quiet.saturating_add(1),
            };
            if quiet < IN_A_ROW {
                tokio::task::yield_now().await;
                continue;
            }
            self.reach_further_below(getpid());
            if (quiet - IN_A_ROW + 1).is_multiple_of(TOLD_AFTER) {
                tell(&looked);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Kills those who are left behind so far, and those below a keeper that cannot end them itself.
    pub(crate) fn end_some_below(&self, keeper: Pid) {
        // Whoever could not be looked at is met again.
        let _ = self.end_those_there_are();
        self.reach_further_below(keeper);
    }

    /// Kills every orphan and buries those that have ended; how many there were, dead or alive. Nobody is a proof:
    /// whoever lives below an orphan is an orphan when that has ended.
    fn end_those_there_are(&self) -> io::Result<Met> {
        let mut household = self.household();
        let Household { keepers, offspring } = &mut *household;
        let mut met = Met::default();
        offspring.each(|child| {
            if keepers.contains(&child.pid) || self.strangers.children.contains(&child.pid) {
                return;
            }
            match self.strangers.have(child.pid) {
                Ok(true) => {}
                // It may be one of ours.
                Err(_) => met.count += 1,
                Ok(false) => met.end(child),
            }
        })?;
        Ok(met)
    }

    /// Whoever is killed may take its time to die, in the kernel: its children must not act meanwhile. The proof
    /// does not need this, so whoever cannot be found here is no error.
    fn reach_further_below(&self, of: Pid) {
        let household = self.household();
        let mut others = household.keepers.clone();
        others.extend(self.strangers.children.iter().chain(self.strangers.others.keys()));
        let below = family::descendants(of, &others).unwrap_or_default();
        family::signal(&below, &[Signal::KILL]);
    }
}

impl Strangers {
    fn before(offspring: &mut Offspring) -> io::Result<Self> {
        let mut children = HashSet::new();
        offspring.each(|child| {
            children.insert(child.pid);
        })?;
        let others = family::descendants(getpid(), &HashSet::new())?.into_iter();
        Ok(Self { children, others: others.map(|one| (one.pid, one)).collect() })
    }

    fn have(&self, pid: Pid) -> io::Result<bool> {
        self.others.get(&pid).map_or(Ok(false), Descendant::is_there)
    }
}

/// What a look at the orphans has met.
#[derive(Debug, Default)]
struct Met {
    count: usize,
    buried: usize,
    /// They run as somebody else.
    refused: usize,
}

impl Met {
    fn end(&mut self, orphan: family::Child) {
        self.count += 1;
        if orphan.has_ended {
            let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
            self.buried += 1;
        } else if kill_process(orphan.pid, Signal::KILL) == Err(Errno::PERM) {
            self.refused += 1;
        }
    }
}

/// What keeps the orphans from ending.
fn tell(looked: &io::Result<Met>) {
    match looked {
        Ok(Met { refused: 0, count, .. }) => {
            tracing::warn!(target: "tenure", count, "children_take_their_time_to_die");
        }
        Ok(_) => may_not_end(),
        Err(error) => tracing::error!(target: "tenure", %error, "orphans_cannot_be_seen"),
    }
}

pub(crate) fn may_not_end() {
    let why = "somebody who descends from the child runs as another user";
    tracing::error!(target: "tenure", why, "child_cannot_be_ended");
}
