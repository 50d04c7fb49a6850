//! The keeper: a small process between a supervisor and its child, which ends the child in time.
//!
//! A supervisor that is frozen kills nobody, and one that is killed leaves its child behind. So the child
//! belongs to a keeper. It ends the child, and all that the child has started,
//!
//! - when it is told to,
//! - at the moment until which the child may act, which the supervisor moves ahead with every renewal,
//! - when the supervisor is gone,
//! - when the child has ended, for the sake of whatever the child left behind.
//!
//! Ending is asking (SIGTERM), a grace, and making (SIGKILL). Then it *proves* that nothing is left: as a
//! subreaper it inherits every orphan below it, also those that left the process group, so when it has no
//! children there are no descendants. Only then does it close the lock's connection, say so, and exit: in
//! advisory mode the lock cannot be freed before.
//!
//! It has no threads, no runtime and no database. One loop waits for a message, for a child or for a moment. Nor
//! does it open anything once its child runs, beyond the two files for a moment that a start needs too: whoever
//! could be started can be ended.

mod alarm;

use std::{
    fs,
    io::{self, Read},
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
        set_child_subreaper, wait,
    },
    stdio::stdin,
};
use signal_hook::{
    consts::{
        SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2,
    },
    flag,
    low_level::pipe,
};
use tenure_database::BootInstant;

use self::alarm::Alarm;
use crate::{
    family::{self, Offspring},
    orders::{self, Exit, Order, Program, Report},
};

const TERM: i32 = Signal::TERM.as_raw();
const CONT: i32 = Signal::CONT.as_raw();
/// How often all that is left is looked for and killed again, and orphans are buried.
const AGAIN: Duration = Duration::from_millis(5);

/// Runs a keeper on this process, whose standard input is the channel to its supervisor. Returns when
/// nothing that was started here lives any more.
pub fn keep() -> io::Result<()> {
    // Whoever has the terminal or the control group may signal all of us, and only orders count; a terminal's
    // stop would freeze us together with the supervisor. Caught, and neither ignored nor blocked: that the
    // child would inherit.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU] {
        flag::register(signal, Arc::default())?;
    }
    let (ends, told) = UnixStream::pair()?;
    ends.set_nonblocking(true)?;
    pipe::register(SIGCHLD, told)?;
    set_child_subreaper(Some(getpid()))?;
    let mut keeper = Keeper {
        offspring: Offspring::of_this_process()?,
        ends,
        alarm: Alarm::new()?,
        is_heard: true,
        until: None,
        grace: Duration::ZERO,
        has_grace_alone: true,
        child: None,
        group: None,
        hold: None,
        token: None,
        has_complained: false,
        stage: Stage::Idle,
    };
    keeper.run()
}

struct Keeper {
    offspring: Offspring,
    /// Readable when a child has ended.
    ends: UnixStream,
    alarm: Alarm,
    /// Whether the supervisor is there.
    is_heard: bool,
    until: Option<BootInstant>,
    grace: Duration,
    has_grace_alone: bool,
    child: Option<Pid>,
    /// The child's process group, as long as it is our child and the number cannot be another's.
    group: Option<Pid>,
    /// While this is open, the server does not free the lock.
    hold: Option<OwnedFd>,
    /// The child's token file, which a supervisor that was killed leaves behind.
    token: Option<PathBuf>,
    has_complained: bool,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Nothing was started yet.
    Idle,
    Running,
    Asked {
        since: BootInstant,
    },
    Killed {
        since: BootInstant,
    },
}

impl Keeper {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let is_childless = self.bury()?;
            if self.go_on(BootInstant::now(), is_childless) {
                self.tidy_up();
                return Ok(());
            }
            self.wait_for_something()?;
        }
    }

    /// Reaps whoever has ended; whether there is nobody left.
    fn bury(&mut self) -> io::Result<bool> {
        // Only wakes the loop; what it says is asked for below.
        while (&self.ends).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.child => {
                    (self.child, self.group) = (None, None);
                    let was_asked = !matches!(self.stage, Stage::Running);
                    self.report(&Report::Exited { exit: exit(status), was_asked });
                    self.ask_to_end();
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(false),
                Err(Errno::CHILD) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does what is due; whether all is over.
    fn go_on(&mut self, now: BootInstant, is_childless: bool) -> bool {
        if matches!(self.stage, Stage::Running) && self.until.is_some_and(|until| until <= now) {
            self.ask_to_end();
        }
        let since = match self.stage {
            Stage::Idle => return !self.is_heard,
            Stage::Running => {
                self.alarm.set(self.until);
                return false;
            }
            Stage::Asked { since } | Stage::Killed { since } => since,
        };
        if is_childless {
            // First the lock, then the word: whoever hears it may count on both.
            self.hold = None;
            self.report(&Report::Gone { lag: now.since(since) });
            return true;
        }
        if now.since(since) >= self.grace {
            self.stage = Stage::Killed { since };
            if self.kill_all() && !self.has_complained {
                self.has_complained = true;
                self.report(&Report::MayNotEnd);
            }
            self.alarm.set(Some(now + AGAIN));
        } else {
            self.alarm.set(Some(since + self.grace));
        }
        false
    }

    fn wait_for_something(&mut self) -> io::Result<()> {
        let orders = stdin();
        let mut awaited =
            vec![PollFd::new(&self.ends, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
        if self.is_heard {
            awaited.push(PollFd::new(&orders, PollFlags::IN));
        }
        match poll(&mut awaited, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.alarm.silence();
        // All of them: whoever was frozen must know the latest before it judges.
        while self.is_heard && is_readable(orders)? {
            self.obey()?;
        }
        Ok(())
    }

    fn obey(&mut self) -> io::Result<()> {
        match orders::receive(stdin())? {
            Some((Order::Run(program), files)) => self.start(&program, files),
            Some((Order::Until(nanos), _)) => {
                self.until = Some(BootInstant::from_nanos(nanos));
                self.report(&Report::Heard);
            }
            Some((Order::Signal(number), _)) => self.pass_on(number),
            Some((Order::Stop, _)) => self.ask_to_end(),
            Some((Order::Kill, _)) => {
                self.grace = Duration::ZERO;
                self.ask_to_end();
            }
            None => {
                self.is_heard = false;
                if !self.has_grace_alone {
                    self.grace = Duration::ZERO;
                }
                self.ask_to_end();
            }
        }
        Ok(())
    }

    fn start(&mut self, program: &Program, files: Vec<OwnedFd>) {
        let mut files = files.into_iter();
        let (input, hold) = (files.next(), files.next());
        self.hold = hold;
        self.grace = program.grace;
        self.has_grace_alone = program.has_grace_alone;
        self.token = program.token_file.clone();
        self.until = program.until.map(BootInstant::from_nanos);
        // The order may be old: this process was frozen, or its supervisor.
        if self.until.is_some_and(|until| until <= BootInstant::now()) {
            self.stage = Stage::Asked { since: BootInstant::now() };
            return self.report(&Report::TooLate);
        }
        match Self::spawn(program, input) {
            Ok(pid) => {
                self.child = Some(pid);
                self.group = program.has_own_group.then_some(pid);
                self.stage = Stage::Running;
                self.report(&Report::Started { pid: pid.as_raw_pid() });
            }
            Err(error) => {
                let found = error.kind() != io::ErrorKind::NotFound;
                self.report(&Report::CannotStart { reason: error.to_string(), found });
                self.stage = Stage::Asked { since: BootInstant::now() };
            }
        }
    }

    fn spawn(program: &Program, input: Option<OwnedFd>) -> io::Result<Pid> {
        let Some((name, arguments)) = program.arguments.split_first() else {
            return Err(io::Error::other("there is no program to run"));
        };
        let mut command = Command::new(name);
        command.args(arguments);
        if let Some(shown) = &program.shown_as {
            command.arg0(shown);
        }
        for (name, value) in &program.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if program.has_own_group {
            command.process_group(0);
        }
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        Ok(Pid::from_child(&command.spawn()?))
    }

    fn ask_to_end(&mut self) {
        if matches!(self.stage, Stage::Running) {
            self.stage = Stage::Asked { since: BootInstant::now() };
            // Each once, and all found before the first is asked: whoever loses its parent meanwhile is asked
            // too. Whoever is stopped cannot be asked.
            match family::nearest(getpid()) {
                Ok(all) => drop(family::signal(&all, &[Signal::TERM, Signal::CONT])),
                // Where they cannot be found, the child itself is asked, and the others are killed.
                Err(_) => [TERM, CONT].into_iter().for_each(|signal| self.pass_on(signal)),
            }
        }
    }

    /// To the child's group at once, if it has one, and to whoever is not in it; whether one of them may not be ended.
    fn kill_all(&mut self) -> bool {
        if let Some(group) = self.group {
            // The group may be empty already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let mut refused = 0;
        // Whoever is missed here is still a child in the end, and is killed then.
        let _ = self.offspring.each(|child| {
            refused += usize::from(kill_process(child.pid, Signal::KILL) == Err(Errno::PERM));
        });
        // Whoever is killed may take its time to die, in the kernel: its children must not act meanwhile.
        let further = family::nearest(getpid()).unwrap_or_default();
        refused.max(family::signal(&further, &[Signal::KILL]).refused) > 0
    }

    /// What a supervisor removes itself, unless it is gone.
    fn tidy_up(&self) {
        if let (false, Some(token)) = (self.is_heard, &self.token) {
            // Somebody may have done it before.
            let _ = fs::remove_file(token);
            let _ = token.parent().map(fs::remove_dir);
        }
    }

    fn pass_on(&self, number: i32) {
        if let (Some(child), Some(signal)) = (self.child, Signal::from_named_raw(number)) {
            // It may have ended meanwhile.
            let _ = kill_process(child, signal);
        }
    }

    fn report(&mut self, report: &Report) {
        if self.is_heard && orders::send(stdin(), report, &[]).is_err() {
            self.is_heard = false;
            self.ask_to_end();
        }
    }
}

fn is_readable(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mut awaited = [PollFd::new(&file, PollFlags::IN)];
    match poll(&mut awaited, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn exit(status: WaitStatus) -> Exit {
    match status.terminating_signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Code(status.exit_status().unwrap_or(1)),
    }
}
