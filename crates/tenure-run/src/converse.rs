//! A conversation with a child over its standard input: messages both ways, one per packet.
//!
//! Whichever side ends, the other hears it as the end of what it receives.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, net::UnixStream, sync::mpsc};

use crate::orders;

/// What is heard, and where to say something. Dropping what is said ends the conversation.
pub type Conversation<Heard, Said> = (mpsc::UnboundedReceiver<Heard>, mpsc::UnboundedSender<Said>);

/// Both ends of a conversation: ours, and the one that a child gets as its standard input.
pub fn begin<Heard, Said>() -> io::Result<(Conversation<Heard, Said>, OwnedFd)>
where
    Heard: DeserializeOwned + Send + 'static,
    Said: Serialize + Send + Sync + 'static,
{
    let (ours, theirs) = orders::channel()?;
    Ok((over(ours)?, theirs))
}

/// The child's side of it.
pub fn on_stdin<Heard, Said>() -> io::Result<Conversation<Heard, Said>>
where
    Heard: DeserializeOwned + Send + 'static,
    Said: Serialize + Send + Sync + 'static,
{
    over(rustix::stdio::stdin().try_clone_to_owned()?)
}

fn over<Heard, Said>(end: OwnedFd) -> io::Result<Conversation<Heard, Said>>
where
    Heard: DeserializeOwned + Send + 'static,
    Said: Serialize + Send + Sync + 'static,
{
    let socket = std::os::unix::net::UnixStream::from(end);
    socket.set_nonblocking(true)?;
    // Used for waiting alone: what it carries are packets.
    let socket = UnixStream::from_std(socket)?;
    let (tell, heard) = mpsc::unbounded_channel();
    let (say, mut said) = mpsc::unbounded_channel::<Said>();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                message = hear(&socket) => {
                    let Some(message) = message else { return };
                    if tell.send(message).is_err() {
                        return;
                    }
                }
                message = said.recv() => {
                    let Some(message) = message else { return };
                    // Whoever does not read what it is told is as good as gone.
                    if orders::send(socket.as_fd(), &message, &[]).is_err() {
                        return;
                    }
                }
            }
        }
    });
    Ok((heard, say))
}

/// The next message; `None` when the other side is gone, or speaks another language.
async fn hear<M: DeserializeOwned>(socket: &UnixStream) -> Option<M> {
    loop {
        socket.readable().await.ok()?;
        match socket.try_io(Interest::READABLE, || orders::receive(socket.as_fd())) {
            Ok(heard) => return heard.map(|(message, _)| message),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}
