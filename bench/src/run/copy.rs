//! A copy of `tenure run`, as it is built, and what its child writes.

use std::{
    collections::HashSet,
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tenure::BootInstant;
use tenure_run::family;

/// Lines, each with the moment at which it came.
pub struct Lines(Receiver<(String, BootInstant)>);

impl Lines {
    pub fn of(lines: impl Iterator<Item = io::Result<String>> + Send + 'static) -> Self {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if tell.send((line, BootInstant::now())).is_err() {
                    return;
                }
            }
        });
        Self(told)
    }

    pub fn next(&self, within: Duration) -> Result<(String, BootInstant)> {
        self.0.recv_timeout(within).with_context(|| format!("no line within {within:?}"))
    }
}

/// A copy; killed with this value, and its children with it.
pub struct Copy {
    pub process: Child,
    pub lines: Lines,
}

impl Copy {
    /// Starts the binary beside this one, with a shell that runs this script.
    pub fn start(options: &[&str], script: &str) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tenure");
        if !program.exists() {
            bail!("{} is missing: cargo build --release -p tenure-cli", program.display());
        }
        let mut process = Command::new(program)
            .args(options)
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = Lines::of(BufReader::new(process.stdout.take().context("output")?).lines());
        Ok(Self { process, lines })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid(), signal)?)
    }
}

/// Kills all that descend from a process, whoever is frozen.
pub fn kill_family(pid: Pid) {
    let below = family::descendants(pid, &HashSet::new()).unwrap_or_default();
    family::signal(&below, &[Signal::KILL]);
}

impl Drop for Copy {
    fn drop(&mut self) {
        kill_family(self.pid());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
