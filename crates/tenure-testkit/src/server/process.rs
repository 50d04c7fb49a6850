//! One run of a server. It ends with its owner, and with the test's process if that ends first.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{Folder, Launch};

const POLL: Duration = Duration::from_millis(2);
const POLLS_UNTIL_KILLED: u32 = 3000;

/// A running server.
pub(super) struct Process {
    child: Child,
    lifeline: Option<Lifeline>,
    farewell: Signal,
}

impl Process {
    /// Starts a server in its own process group, so that a terminal's Ctrl-C reaches the test only.
    pub fn spawn(launch: &Launch, folder: &Folder, log: &str) -> Result<Self> {
        let log = File::options().create(true).append(true).open(folder.path().join(log))?;
        let child = folder
            .command(&launch.program)
            .args(&launch.arguments)
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", launch.program.display()))?;
        let mut process = Self { child, lifeline: None, farewell: launch.farewell };
        process.lifeline = Some(Lifeline::tie(process.pid(), launch.farewell, folder.path())?);
        Ok(process)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    /// Blocks until the process is gone. Failures mean that it is gone already.
    fn drop(&mut self) {
        drop(self.lifeline.take());
        if self.has_ended() {
            return;
        }
        // A test may have paused it, and a paused process answers to nothing.
        _ = kill_process(self.pid(), self.farewell);
        _ = kill_process(self.pid(), Signal::CONT);
        let ended = (0..POLLS_UNTIL_KILLED).any(|_| {
            sleep(POLL);
            self.has_ended()
        });
        if !ended {
            _ = kill_process_group(self.pid(), Signal::KILL);
            _ = self.child.wait();
        }
    }
}

/// A shell that waits for the end of a pipe whose other end only the test's process holds.
///
/// The kernel closes that end however the test dies, where neither `Drop` nor a handler would run:
/// a runner's SIGKILL, `abort`, a server in a `static`. The shell then ends the server and removes
/// its folder. (`PR_SET_PDEATHSIG` would fire when the *thread* that started the server ends.)
struct Lifeline(Child);

const END_AND_REMOVE: &str = r#"
    read -r _
    kill -s "$2" "$1"; kill -s CONT "$1"
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" && sleep 0.3; done
    kill -s KILL -- "-$1"
    rm -rf -- "$3"
"#;

impl Lifeline {
    fn tie(server: Pid, farewell: Signal, folder: &Path) -> Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", END_AND_REMOVE, "lifeline"])
            .args([server.as_raw_pid().to_string(), farewell.as_raw().to_string()])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run /bin/sh")?;
        Ok(Self(shell))
    }
}

impl Drop for Lifeline {
    /// Ends the shell before it could mistake an orderly end for the test's death.
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
