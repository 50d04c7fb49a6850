//! What runs while this node does not lead.

use std::{fs::File, os::fd::AsFd, time::Duration};

use tenure_database::BootInstant;
use tokio::sync::{mpsc, oneshot};

use crate::{kept::Kept, nursery::Nursery, orders::Program};

/// How long a standby that ended by itself stays down.
const PAUSE: Duration = Duration::from_secs(1);

enum Ask {
    /// End it, and say so when nothing of it lives.
    Pause(How, oneshot::Sender<()>),
    Resume,
}

/// How it is ended.
enum How {
    Asked,
    Killed,
}

/// A program that runs while this node does not lead: from the beginning, and again whenever it ends by itself.
#[derive(Clone, Debug)]
pub struct Standby {
    asks: mpsc::UnboundedSender<Ask>,
}

impl Standby {
    /// Runs it.
    #[must_use]
    pub fn start(nursery: Nursery, program: Program) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        tokio::spawn(stand_by(nursery, program, asked));
        Self { asks }
    }

    /// Returns when nothing of it lives; until [`Standby::resume`] nothing will.
    pub async fn pause(&self) {
        self.end(How::Asked).await;
    }

    /// The same, without asking it first.
    pub async fn kill(&self) {
        self.end(How::Killed).await;
    }

    async fn end(&self, how: How) {
        let (done, is_done) = oneshot::channel();
        let _ = self.asks.send(Ask::Pause(how, done));
        // A task that has failed has dropped its child, whose keeper ends it.
        let _ = is_done.await;
    }

    /// Runs it again.
    pub fn resume(&self) {
        let _ = self.asks.send(Ask::Resume);
    }
}

async fn stand_by(nursery: Nursery, program: Program, mut asked: mpsc::UnboundedReceiver<Ask>) {
    let (mut is_wanted, mut kept) = (true, None);
    let mut down_until = BootInstant::now();
    loop {
        if is_wanted && kept.is_none() && down_until <= BootInstant::now() {
            kept = start(&nursery, &program).await;
            down_until = BootInstant::now() + PAUSE;
        }
        tokio::select! {
            ask = asked.recv() => match ask {
                Some(Ask::Pause(how, done)) => {
                    is_wanted = false;
                    end(kept.take(), &how).await;
                    let _ = done.send(());
                }
                Some(Ask::Resume) => is_wanted = true,
                None => return end(kept.take(), &How::Asked).await,
            },
            // At once: nobody may be left to end what a lost keeper leaves behind.
            () = over(&mut kept) => {
                end(kept.take(), &How::Killed).await;
                down_until = BootInstant::now() + PAUSE;
            }
            () = tokio::time::sleep(down_until.left()), if is_wanted && kept.is_none() => {}
        }
    }
}

/// Returns when it has ended by itself.
async fn over(kept: &mut Option<Kept>) {
    match kept {
        Some(kept) => {
            let end = kept.exited().await;
            tracing::warn!(target: "tenure", ?end, "standby_ended");
        }
        None => std::future::pending().await,
    }
}

async fn end(kept: Option<Kept>, how: &How) {
    match (kept, how) {
        (Some(kept), How::Asked) => drop(kept.stop().await),
        (Some(kept), How::Killed) => drop(kept.kill().await),
        (None, _) => {}
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
