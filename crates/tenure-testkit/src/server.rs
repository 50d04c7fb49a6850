//! What the kit's real servers share: each runs unprivileged, in a process group and a temporary
//! folder of its own, on a port nobody else is given, and none of that outlives the test.
//!
//! A panic is covered by `Drop`; a test that is killed or exits early by the process's
//! [lifeline](process). Whatever the server printed is part of the error when it does not start.

mod account;
mod folder;
mod port;
mod process;

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

pub(crate) use folder::Folder;
pub use port::Port;
use process::Process;

use crate::pause;

const POLL: Duration = Duration::from_millis(5);
const START_WITHIN: Duration = Duration::from_secs(30);
const LOG: &str = "server.log";

/// How a server is started, kept because it may be started again.
pub(crate) struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    /// The signal that makes it end at once and clean up after itself.
    pub farewell: Signal,
}

/// A server that can be stopped and started again in the same folder.
pub(crate) struct Server {
    // Before the folder: fields are dropped in order, and the process writes there until it ends.
    running: Mutex<Option<Process>>,
    launch: Launch,
    folder: Folder,
}

impl Server {
    pub fn new(folder: Folder, launch: Launch) -> Self {
        Self { running: Mutex::default(), launch, folder }
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Starts the process and waits until `ready` says that it serves.
    pub async fn start<Answer>(&self, ready: impl Fn(Pid) -> Answer) -> Result<()>
    where
        Answer: Future<Output = bool>,
    {
        ensure!(!self.is_running(), "{} runs already", self.launch.program.display());
        let process = Process::spawn(&self.launch, &self.folder, LOG)?;
        let pid = process.pid();
        *self.slot() = Some(process);
        tokio::select! {
            () = self.exit() => bail!("{} ended while it started:\n{}", self.name(), self.log()),
            () = sleep(START_WITHIN) => bail!("{} did not start:\n{}", self.name(), self.log()),
            () = until(|| ready(pid)) => Ok(()),
        }
    }

    /// Sends `signal` and waits for the process to end, however long its shutdown takes.
    pub async fn stop(&self, signal: Signal) -> Result<()> {
        if self.is_running() {
            self.signal(signal)?;
        }
        self.exit().await;
        Ok(())
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).context(self.name())
    }

    /// Stops the process in its tracks.
    pub fn pause(&self) -> Result<()> {
        pause(self.pid()?).context(self.name())
    }

    pub fn pid(&self) -> Result<Pid> {
        ensure!(self.is_running(), "{} is stopped", self.name());
        Ok(self.slot().as_ref().context("stopped meanwhile")?.pid())
    }

    fn is_running(&self) -> bool {
        self.slot().as_mut().is_some_and(|process| !process.has_ended())
    }

    async fn exit(&self) {
        until(async || !self.is_running()).await;
    }

    fn slot(&self) -> MutexGuard<'_, Option<Process>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> String {
        self.launch.program.display().to_string()
    }

    /// Whatever it has printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_else(|error| error.to_string())
    }
}

async fn until<Answer: Future<Output = bool>>(condition: impl Fn() -> Answer) {
    while !condition().await {
        sleep(POLL).await;
    }
}

/// Runs a command to its end; what it printed becomes the error when it fails.
pub(crate) async fn run(command: Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = tokio::process::Command::from(command).output().await.context(name.clone())?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed ({}):\n{printed}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds a program of the system, also in the folders for daemons that a user's `PATH` leaves out.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut candidates = env::split_paths(&path).chain(daemons).map(|folder| folder.join(name));
    candidates
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("{name} is not installed (./test installs it)"))
}
