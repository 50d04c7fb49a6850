//! A child under a keeper, as its supervisor holds it.
//!
//! Whatever happens to the keeper, [`Kept::stop`] returns only when nothing of the child lives: a keeper
//! that does not answer in time is frozen or dead, and then the supervisor ends the child itself. For that
//! it must be a subreaper too: it inherits what a dead keeper leaves behind. [`Nursery`] has the rest.

use std::{io, os::fd::BorrowedFd, pin::pin, process::Child, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tenure_database::BootInstant;
use tokio::{io::Interest, net::UnixStream, sync::broadcast};

use crate::{
    nursery::{Nursery, may_not_end},
    orders::{self, Exit, Order, Program, Report},
};

/// What a keeper that is alive needs on top of the grace. Whoever sets a margin must leave more than this for
/// killing and proving.
pub const PATIENCE: Duration = Duration::from_millis(150);
/// How long a keeper that is alive may take to start a child, or to say that it has heard an order.
const ANSWERING: Duration = Duration::from_secs(1);
/// How often a supervisor looks whether a keeper has left.
const AGAIN: Duration = Duration::from_millis(5);

/// A keeper that waits for its child.
#[derive(Debug)]
pub struct Idle(KeeperProcess);

#[derive(Debug)]
struct KeeperProcess {
    nursery: Nursery,
    /// Used for waiting alone: what it carries are packets.
    channel: UnixStream,
    /// Buried by the nursery alone, and once: its number may be another's after that.
    process: Child,
    is_buried: bool,
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
    pub(crate) fn new(nursery: Nursery, channel: UnixStream, process: Child) -> Self {
        let pid = Pid::from_child(&process);
        Self(KeeperProcess { nursery, channel, process, is_buried: false, pid })
    }

    /// Whether it still waits.
    pub fn is_there(&mut self) -> bool {
        !self.0.has_ended()
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
        let order = Order::Run(program.clone());
        let report = match orders::send(&keeper.channel, &order, &files) {
            // A keeper that was frozen does not start it later than this.
            Ok(()) => keeper.answers(program.until.map_or(ANSWERING, time_left)).await,
            Err(error) if error.kind() == io::ErrorKind::ArgumentListTooLong => {
                let reason = error.to_string();
                Some(Report::CannotStart { reason, found: true })
            }
            Err(_) => None,
        };
        match report {
            Some(Report::Started { .. }) => {
                Ok(Kept { keeper, grace: program.grace, unheard_since: None })
            }
            Some(Report::CannotStart { reason, found }) => {
                keeper.bury().await;
                Err(StartError::Refused { program: name, reason, found })
            }
            Some(Report::TooLate) => {
                keeper.bury().await;
                Err(StartError::TooLate { program: name })
            }
            _ => {
                // Frozen, it may have the order still before it, or have obeyed.
                keeper.end_by_hand().await;
                Err(StartError::KeeperLost { program: name })
            }
        }
    }
}

fn time_left(until_nanos: u64) -> Duration {
    (BootInstant::from_nanos(until_nanos).left() + PATIENCE).min(ANSWERING)
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
    keeper: KeeperProcess,
    grace: Duration,
    /// Since when the keeper has not said that it heard an order.
    unheard_since: Option<BootInstant>,
}

impl Kept {
    /// Moves the moment until which the child may act. Whether the keeper has heard the last such order: one
    /// that is frozen would not say that its child has ended. One that is gone shows in [`Kept::exited`].
    #[must_use]
    pub fn act_until(&mut self, until: BootInstant) -> bool {
        let now = BootInstant::now();
        if self.unheard_since.is_some_and(|since| now.since(since) > ANSWERING) {
            return false;
        }
        self.unheard_since.get_or_insert(now);
        let _ = self.keeper.tell(&Order::Until(until.as_nanos()));
        true
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
                Some(Report::Heard) => self.unheard_since = None,
                Some(Report::MayNotEnd) => may_not_end(),
                Some(Report::Started { .. } | Report::CannotStart { .. } | Report::TooLate) => {}
            }
        }
    }

    /// Ends the child and all that it has started. Returns when nothing of it lives: how the child ended,
    /// if that was heard, and how long it took from when the first of us began to end it.
    pub async fn stop(self) -> (Option<Exit>, Duration) {
        self.stop_hearing(&mut broadcast::channel(1).1).await
    }

    /// The same, without asking it first.
    pub async fn kill(mut self) -> (Option<Exit>, Duration) {
        self.grace = Duration::ZERO;
        self.end(&Order::Kill, &mut broadcast::channel(1).1).await
    }

    /// The same as [`Kept::stop`]; signals that come meanwhile are passed on.
    pub async fn stop_hearing(
        self,
        signals: &mut broadcast::Receiver<i32>,
    ) -> (Option<Exit>, Duration) {
        self.end(&Order::Stop, signals).await
    }

    async fn end(
        mut self,
        order: &Order,
        signals: &mut broadcast::Receiver<i32>,
    ) -> (Option<Exit>, Duration) {
        let since = BootInstant::now();
        let _ = self.keeper.tell(order);
        let (mut exit, mut told) = (None, None);
        let mut patience = pin!(tokio::time::sleep(self.grace + PATIENCE));
        while told.is_none() {
            tokio::select! {
                report = self.keeper.hear() => match report {
                    Some(Report::Exited { exit: how, .. }) => exit = Some(how),
                    Some(Report::Gone { lag }) => told = Some(lag),
                    Some(Report::MayNotEnd) => may_not_end(),
                    Some(_) => {}
                    None => break,
                },
                Ok(signal) = signals.recv() => self.signal(signal),
                () = &mut patience => break,
            }
        }
        match told {
            // Nobody has to wait until it has left.
            Some(_) => drop(tokio::spawn(async move { self.keeper.bury().await })),
            None => {
                let keeper = self.keeper.pid.as_raw_pid();
                tracing::warn!(target: "tenure", keeper, "keeper_lost");
                self.keeper.end_by_hand().await;
            }
        }
        (exit, BootInstant::now().since(since).max(told.unwrap_or_default()))
    }
}

impl KeeperProcess {
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

    /// The next report, if it comes in time.
    async fn answers(&mut self, within: Duration) -> Option<Report> {
        tokio::select! {
            report = self.hear() => report,
            () = tokio::time::sleep(within) => None,
        }
    }

    /// Kills the keeper and whoever it keeps or leaves behind, until nobody is there any more. Nobody waits for the
    /// keeper to be buried: it may hang in the kernel, or be traced by the one that it keeps.
    async fn end_by_hand(&mut self) {
        self.kill();
        while !self.has_ended() {
            self.nursery.end_some_below(self.pid);
            tokio::time::sleep(AGAIN).await;
        }
        self.nursery.end_orphans().await;
    }

    /// Buries it if it has ended; whether it has.
    fn has_ended(&mut self) -> bool {
        self.is_buried = self.is_buried || self.nursery.bury(&mut self.process);
        self.is_buried
    }

    /// It is our child and was not waited for, so the number is still its own.
    fn kill(&self) {
        let _ = kill_process(self.pid, Signal::KILL);
    }

    /// Waits for its end. It has nobody left to keep, so one that does not leave is made to.
    async fn bury(&mut self) {
        let patience = BootInstant::now() + PATIENCE;
        while !self.has_ended() {
            if BootInstant::now() > patience {
                self.kill();
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

impl Drop for KeeperProcess {
    fn drop(&mut self) {
        // The end of the channel tells a keeper to end its child, and the zombie is buried with the next.
        if !self.has_ended() {
            self.nursery.forget(self.pid);
        }
    }
}
