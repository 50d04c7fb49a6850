//! A child under a keeper, as its supervisor holds it.
//!
//! Whatever happens to the keeper, [`Kept::stop`] returns only when nothing of the child lives: a keeper
//! that does not answer in time is frozen or dead, and then the supervisor ends the child itself. For that
//! it must be a subreaper too: it inherits what a dead keeper leaves behind.

use std::{
    collections::HashSet,
    ffi::OsString,
    io,
    os::{fd::BorrowedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use tenure::lock::Processes;
use tenure_database::BootInstant;
use tokio::{io::Interest, net::UnixStream};

use crate::{
    family,
    orders::{self, Exit, Order, Program, Report},
};

/// What a keeper that is alive needs on top of the grace.
const PATIENCE: Duration = Duration::from_millis(150);
/// How long a keeper that is alive may take to start a child.
const STARTING: Duration = Duration::from_secs(2);
/// What `ps` shows.
const NAME: &str = "tenure";
/// How often a supervisor looks again for whoever is left.
const AGAIN: Duration = Duration::from_millis(5);

/// Starts keepers, and knows which of a process's children they are.
#[derive(Clone, Debug)]
pub struct Nursery {
    keeper: Vec<OsString>,
    keepers: Arc<Mutex<HashSet<Pid>>>,
    /// This process and its keepers: once they are gone, so are their children.
    processes: Processes,
}

impl Nursery {
    /// `keeper` is the program, with arguments, that runs [`keeper::keep`](crate::keeper::keep). From here
    /// on this process inherits the orphans below it.
    pub fn new(keeper: Vec<OsString>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { keeper, keepers: Arc::default(), processes: Processes::this()? })
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
        let mut keeper = Command::new(program);
        keeper.arg0(NAME).args(arguments).stdin(Stdio::from(theirs));
        let process = keeper.spawn()?;
        let pid = Pid::from_child(&process);
        self.known().insert(pid);
        let channel = UnixStream::from_std(ours)?;
        let idle = Idle(Keeper { nursery: self.clone(), channel, process, pid });
        self.processes.add(pid.as_raw_pid())?;
        Ok(idle)
    }

    fn forget(&self, keeper: Pid) {
        self.known().remove(&keeper);
        self.processes.remove(keeper.as_raw_pid());
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<Pid>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is left below this process and below none of its keepers.
    fn orphans(&self) -> Vec<Pid> {
        family::descendants(getpid(), &self.known())
    }

    fn kill_orphans(&self) {
        family::signal_descendants(getpid(), &self.known(), Signal::KILL);
    }

    /// Waits for those that were inherited and have ended; keepers are waited for by whoever has them.
    fn bury_orphans(&self) {
        for orphan in family::zombies(getpid()) {
            if !self.known().contains(&orphan) {
                let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
            }
        }
    }
}

/// A keeper that waits for its child.
#[derive(Debug)]
pub struct Idle(Keeper);

#[derive(Debug)]
struct Keeper {
    nursery: Nursery,
    /// Used for waiting alone: what it carries are packets.
    channel: UnixStream,
    process: Child,
    pid: Pid,
}

/// Why a child did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refused it.
    #[error("cannot start {program}: {reason}")]
    Refused {
        /// The program.
        program: String,
        /// Why.
        reason: String,
        /// Whether there is such a program.
        found: bool,
    },
    /// What it needs could not be made: its keeper, or its token file.
    #[error("cannot start {program}")]
    System {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Until when it may act had passed when the keeper was told.
    #[error("the time of {program} was over before it started")]
    TooLate {
        /// The program.
        program: String,
    },
    /// The keeper has ended or does not answer; another one may do.
    #[error("the keeper of {program} has ended or does not answer")]
    KeeperLost {
        /// The program.
        program: String,
    },
}

impl Idle {
    /// Whether it still waits.
    pub fn is_there(&mut self) -> bool {
        matches!(self.0.process.try_wait(), Ok(None))
    }

    /// Starts the child with this standard input. While `hold` is open, the lock is not freed; the keeper
    /// gets a duplicate.
    pub async fn run(
        self,
        program: &Program,
        input: BorrowedFd<'_>,
        hold: Option<BorrowedFd<'_>>,
    ) -> Result<Kept, StartError> {
        let mut keeper = self.0;
        let name = program.arguments.first().cloned().unwrap_or_default();
        let files: Vec<_> = [Some(input), hold].into_iter().flatten().collect();
        let report = match orders::send(&keeper.channel, &Order::Run(program.clone()), &files) {
            Ok(()) => tokio::select! {
                report = keeper.hear() => report,
                () = tokio::time::sleep(STARTING) => None,
            },
            Err(_) => None,
        };
        match report {
            Some(Report::Started { .. }) => Ok(Kept { keeper, grace: program.grace }),
            Some(Report::CannotStart { reason, found }) => {
                Err(StartError::Refused { program: name, reason, found })
            }
            Some(Report::TooLate) => Err(StartError::TooLate { program: name }),
            _ => {
                // Frozen, it may have the order still before it, or have obeyed.
                keeper.end_by_hand().await;
                Err(StartError::KeeperLost { program: name })
            }
        }
    }
}

/// How a child came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody had asked it to.
    ByItself(Exit),
    /// The keeper ended it: at its deadline, say.
    Asked(Exit),
    /// The keeper was lost, and what became of the child is not known.
    Unknown,
}

/// A child that was started, and whatever it has started since.
#[derive(Debug)]
pub struct Kept {
    keeper: Keeper,
    grace: Duration,
}

impl Kept {
    /// Moves the moment until which the child may act. A keeper that is gone shows in [`Kept::exited`].
    pub fn act_until(&self, until: BootInstant) {
        let _ = self.keeper.tell(&Order::Until(until.as_nanos()));
    }

    /// Passes a signal on to the child.
    pub fn signal(&self, number: i32) {
        let _ = self.keeper.tell(&Order::Signal(number));
    }

    /// The keeper's process.
    #[must_use]
    pub fn keeper(&self) -> Pid {
        self.keeper.pid
    }

    /// Waits until the child has ended, and says how. What it started may still live. Can be dropped and
    /// asked again.
    pub async fn exited(&mut self) -> End {
        loop {
            match self.keeper.hear().await {
                Some(Report::Exited { exit, was_asked: false }) => return End::ByItself(exit),
                Some(Report::Exited { exit, was_asked: true }) => return End::Asked(exit),
                Some(Report::Gone { .. }) | None => return End::Unknown,
                Some(Report::Started { .. } | Report::CannotStart { .. } | Report::TooLate) => {}
            }
        }
    }

    /// Ends the child and all that it has started. Returns when nothing of it lives: how the child ended,
    /// if that was heard, and how long it took from when the first of us began to end it.
    pub async fn stop(mut self) -> (Option<Exit>, Duration) {
        let since = BootInstant::now();
        let (mut exit, mut told) = (None, Duration::ZERO);
        let _ = self.keeper.tell(&Order::Stop);
        let is_gone = async {
            loop {
                match self.keeper.hear().await {
                    Some(Report::Exited { exit: how, .. }) => exit = Some(how),
                    Some(Report::Gone { lag }) => {
                        told = lag;
                        return true;
                    }
                    Some(_) => {}
                    None => return false,
                }
            }
        };
        let is_gone = tokio::select! {
            is_gone = is_gone => is_gone,
            () = tokio::time::sleep(self.grace + PATIENCE) => false,
        };
        match is_gone {
            true => self.keeper.bury().await,
            false => {
                let keeper = self.keeper.pid.as_raw_pid();
                tracing::warn!(target: "tenure", keeper, "keeper_lost");
                self.keeper.end_by_hand().await;
            }
        }
        (exit, BootInstant::now().since(since).max(told))
    }
}

impl Keeper {
    fn tell(&self, order: &Order) -> io::Result<()> {
        orders::send(&self.channel, order, &[])
    }

    /// The next report; `None` when the keeper is gone.
    async fn hear(&mut self) -> Option<Report> {
        loop {
            self.channel.readable().await.ok()?;
            match self.channel.try_io(Interest::READABLE, || orders::receive(&self.channel)) {
                Ok(heard) => return heard.map(|(report, _)| report),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// Kills whatever descends from the keeper, then the keeper, then what it left behind, until nobody is
    /// there any more.
    async fn end_by_hand(&mut self) {
        while family::signal_descendants(self.pid, &HashSet::new(), Signal::KILL) > 0 {
            tokio::time::sleep(AGAIN).await;
        }
        // It is our child and was not waited for, so the number is still its own.
        let _ = kill_process(self.pid, Signal::KILL);
        self.bury().await;
        while !self.nursery.orphans().is_empty() {
            self.nursery.kill_orphans();
            tokio::time::sleep(AGAIN).await;
        }
        self.nursery.bury_orphans();
    }

    async fn bury(&mut self) {
        while matches!(self.process.try_wait(), Ok(None)) {
            tokio::time::sleep(AGAIN).await;
        }
        self.nursery.forget(self.pid);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The end of the channel tells a keeper to end its child, and the zombie is buried with the next.
        self.nursery.forget(self.pid);
        let _ = waitpid(Some(self.pid), WaitOptions::NOHANG);
    }
}
