//! What a supervisor and its keeper say to each other: one message per packet, open files beside it.
//!
//! The channel is a pair of sequenced-packet sockets, and the keeper's end is its standard input. The end
//! of the channel is a message too: whoever reads it knows that the other side is gone.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A message is an order with its program's arguments and environment at most; the kernel takes as much.
const LARGEST: usize = 128 * 1024;
/// The child's standard input and the lock's connection.
const MOST_FILES: usize = 2;

/// What a keeper is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Start this. Beside it come the child's standard input and, if there is one, the connection that the
    /// lock lives on.
    Run(Program),
    /// The child may act until this moment of the boot clock, in nanoseconds.
    Until(u64),
    /// Pass this signal on.
    Signal(i32),
    /// End it all.
    Stop,
    /// End it all at once, without a word before.
    Kill,
}

/// What a child is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments; no shell is involved.
    pub arguments: Vec<String>,
    /// What `ps` shows instead of the program's name.
    pub shown_as: Option<String>,
    /// What it finds in its environment beside, or instead of, what the supervisor has; what has no value
    /// is taken away.
    pub environment: BTreeMap<String, Option<String>>,
    /// Whether it leads a process group of its own. Not where a terminal is in front of it, which signals the
    /// group that it sees.
    pub has_own_group: bool,
    /// Where it runs, if not where the supervisor does.
    pub folder: Option<PathBuf>,
    /// The file that tells it its term; removed with its folder when the supervisor is gone.
    pub token_file: Option<PathBuf>,
    /// Until when it may act, in nanoseconds of the boot clock; without this until it is told to stop.
    pub until: Option<u64>,
    /// How long it has between being asked and being made to end.
    pub grace: Duration,
    /// Whether it has that grace, too, when the supervisor is gone.
    pub has_grace_alone: bool,
}

/// What a keeper tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The child runs.
    Started { pid: i32 },
    /// The child could not be started.
    CannotStart { reason: String, found: bool },
    /// The child was not started: until when it may act had passed.
    TooLate,
    /// The child has ended, by itself or because it was asked to; others that it started may still live.
    Exited { exit: Exit, was_asked: bool },
    /// An order to act until then was heard: the keeper is neither gone nor frozen.
    Heard,
    /// Somebody who descends from the child runs as another user, and cannot be ended from here.
    MayNotEnd,
    /// Nothing that was started here lives any more; so long after the end began.
    Gone { lag: Duration },
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The code that a shell would show.
    #[must_use]
    pub fn code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }

    /// Whether it ended as it should.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

/// Both ends of a channel.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, and open files beside it. An error means that the other side is gone.
pub fn send(end: impl AsFd, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LARGEST {
        return Err(io::ErrorKind::ArgumentListTooLong.into());
    }
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files for one message"));
    }
    sendmsg(end, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A message with the files beside it; `None` when the other side is gone.
pub fn receive<M: DeserializeOwned>(end: impl AsFd) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; LARGEST];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(&end, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
            Ok(received) => break received.bytes,
            // The other side left without reading all; what it said before is still there, then the end.
            Err(Errno::CONNRESET) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if received == 0 {
        return Ok(None);
    }
    let files = beside.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let files = files.collect();
    Ok(Some((serde_json::from_slice(&bytes[..received])?, files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_end_is_heard() {
        let (ours, theirs) = channel().unwrap();
        let gone = Report::Gone { lag: Duration::ZERO };
        send(&theirs, &gone, &[]).unwrap();
        send(&ours, &Order::Stop, &[]).unwrap();
        drop(theirs);
        let (heard, files) = receive::<Report>(&ours).unwrap().unwrap();
        assert_eq!((heard, files.len()), (gone, 0));
        assert!(receive::<Report>(&ours).unwrap().is_none());
    }
}
