//! Hearing that a SQLite file has changed: its write-ahead log is written by every commit.
//!
//! The log is written *before* the commit can be seen, and what makes it seen makes no sound: whoever looks
//! at once may look too early. So a change that others wait for is announced once more after its commit.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{
        AtFlags, CWD, Timestamps, UTIME_NOW,
        inotify::{CreateFlags, Reader, WatchFlags, add_watch, init},
        utimensat,
    },
};
use tokio::sync::mpsc;

/// A commit writes more than once; what comes within this time is one change.
const ONE_CHANGE: Duration = Duration::from_millis(2);
const WATCHED: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CREATE).union(WatchFlags::ATTRIB);
/// How often a watcher looks whether anybody still listens.
const STILL_WANTED: Duration = Duration::from_millis(500);

/// Tells of every commit to the file, in the listener's words, from a thread of its own until nobody listens.
pub fn watch<T: Send + 'static>(file: PathBuf, tell: mpsc::UnboundedSender<T>, changed: fn() -> T) {
    let watching = move || {
        if let Err(error) = follow(&file, &tell, changed) {
            tracing::warn!(
                target: "tenure",
                %error,
                file = %file.display(),
                "cannot watch the file: changes are seen at the next look, not at once"
            );
        }
    };
    if let Err(error) = thread::Builder::new().name("tenure-inotify".to_owned()).spawn(watching) {
        tracing::warn!(target: "tenure", %error, "cannot start a thread that watches a file");
    }
}

/// Says that what was committed can be seen now.
pub fn announce(file: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    if let Err(error) = utimensat(CWD, file, &times, AtFlags::empty()) {
        tracing::debug!(target: "tenure", %error, "a change is seen at the next look, not at once");
    }
}

fn follow<T>(file: &Path, tell: &mpsc::UnboundedSender<T>, changed: fn() -> T) -> io::Result<()> {
    let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    // The folder, because the log is removed and made again as connections come and go.
    add_watch(&watch, folder.unwrap_or(Path::new(".")), WATCHED)?;
    // What changed before the watch was there is told now.
    let mut told = tell.send(changed());
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    let log = [name, b"-wal"].concat();
    while told.is_ok() && !tell.is_closed() {
        wait(&watch, STILL_WANTED)?;
        if drain(&watch, |written| written == log || written == name)? {
            thread::sleep(ONE_CHANGE);
            drain(&watch, |_| false)?;
            told = tell.send(changed());
        }
    }
    Ok(())
}

fn wait(watch: &OwnedFd, at_most: Duration) -> io::Result<()> {
    let at_most = Timespec::try_from(at_most).ok();
    match poll(&mut [PollFd::new(watch, PollFlags::IN)], at_most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads all events that are there, and says whether any is about what concerns us.
fn drain(watch: &OwnedFd, concerns: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(watch, &mut buffer);
    let mut found = false;
    loop {
        match events.next() {
            Ok(event) => {
                found |= event.file_name().is_some_and(|name| concerns(name.to_bytes()));
            }
            Err(rustix::io::Errno::AGAIN) => return Ok(found),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_announced_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lease");
        std::fs::write(&file, "").unwrap();
        let (tell, mut news) = mpsc::unbounded_channel();
        watch(file.clone(), tell, || ());
        assert!(news.recv().await.is_some(), "what was there before");
        announce(&file);
        let heard = tokio::select! {
            heard = news.recv() => heard.is_some(),
            () = tokio::time::sleep(Duration::from_secs(10)) => false,
        };
        assert!(heard);
    }
}
