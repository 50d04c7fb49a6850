//! A process that is stopped in its tracks.

use rustix::{
    io::{Errno, retry_on_intr},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};

/// Sends SIGSTOP to a child of this process, and returns when the last of its threads stands still, or it has ended: the
/// signal alone only asks for that, and a thread on another core still answers a request.
pub fn pause(child: Pid) -> Result<(), Errno> {
    kill_process(child, Signal::STOP)?;
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    retry_on_intr(|| waitid(WaitId::Pid(child), stopped))?;
    Ok(())
}
