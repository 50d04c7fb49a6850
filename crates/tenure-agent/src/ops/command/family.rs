//! A program with what it started: whoever is given up on is ended as a whole.

use std::{io, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// How long the dead are waited for: the kernel may be busy with one of them.
const BURIED_WITHIN: Duration = Duration::from_secs(1);

/// The leader of a process group, and so its number.
#[derive(Debug)]
pub(super) struct Family {
    pub child: Child,
    group: Option<Pid>,
}

impl Family {
    pub fn of(child: Child) -> Self {
        let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Self { child, group }
    }

    /// Waits until the program has ended, and kills what it left behind.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        // In the same breath: its number is free from now on, if nobody is left of its group.
        self.kill();
        status
    }

    /// Ends all of it.
    pub async fn end(&mut self) {
        self.kill();
        tokio::select! {
            _ = self.child.wait() => {}
            () = tokio::time::sleep(BURIED_WITHIN) => {}
        }
    }

    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // Nobody may be left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.kill();
    }
}
