//! What runs while this node does not lead.

use std::{fs::File, os::fd::AsFd, time::Duration};

use tokio::sync::{mpsc, oneshot};

use crate::{
    kept::{Kept, Nursery},
    orders::Program,
};

/// How long a standby that ended by itself stays down.
const PAUSE: Duration = Duration::from_secs(1);

enum Ask {
    /// End it, and say so when nothing of it lives.
    Pause(oneshot::Sender<()>),
    Resume,
}

/// The standby of a supervisor; it runs from the beginning.
#[derive(Debug)]
pub(crate) struct Standby {
    asks: mpsc::UnboundedSender<Ask>,
}

impl Standby {
    pub(crate) fn start(nursery: Nursery, program: Program) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        tokio::spawn(stand_by(nursery, program, asked));
        Self { asks }
    }

    /// Returns when nothing of it lives; until [`Standby::resume`] nothing will.
    pub(crate) async fn pause(&self) {
        let (done, is_done) = oneshot::channel();
        let _ = self.asks.send(Ask::Pause(done));
        // A task that has failed has dropped its child, whose keeper ends it.
        let _ = is_done.await;
    }

    pub(crate) fn resume(&self) {
        let _ = self.asks.send(Ask::Resume);
    }
}

async fn stand_by(nursery: Nursery, program: Program, mut asked: mpsc::UnboundedReceiver<Ask>) {
    let (mut is_wanted, mut kept) = (true, None);
    loop {
        if is_wanted && kept.is_none() {
            kept = start(&nursery, &program).await;
        }
        tokio::select! {
            ask = asked.recv() => match ask {
                Some(Ask::Pause(done)) => {
                    is_wanted = false;
                    end(kept.take()).await;
                    let _ = done.send(());
                }
                Some(Ask::Resume) => is_wanted = true,
                None => return end(kept.take()).await,
            },
            () = over(&mut kept), if is_wanted => end(kept.take()).await,
        }
    }
}

/// Returns a while after it has ended by itself, or could not be started.
async fn over(kept: &mut Option<Kept>) {
    if let Some(kept) = kept {
        let end = kept.exited().await;
        tracing::warn!(target: "tenure", ?end, "standby_ended");
    }
    tokio::time::sleep(PAUSE).await;
}

async fn end(kept: Option<Kept>) {
    if let Some(kept) = kept {
        kept.stop().await;
    }
}

async fn start(nursery: &Nursery, program: &Program) -> Option<Kept> {
    let started = async {
        let nothing = File::open("/dev/null")?;
        let kept = nursery.keeper()?.run(program, nothing.as_fd(), None).await;
        kept.map_err(std::io::Error::other)
    };
    match started.await {
        Ok(kept) => Some(kept),
        Err(error) => {
            tracing::error!(target: "tenure", %error, "standby_failed");
            None
        }
    }
}
