//! The controller of a node: kept alive, and told what it may do.

use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tenure::{
    BootInstant, Epoch,
    election::{
        Handle, Leadership,
        delegated::{Account, Charge},
    },
};
use tenure_run::{Kept, Nursery, Program, converse};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// How long to wait before the first restart; twice as long before every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Whoever has lived for so long did not fail at once.
const SETTLED: Duration = Duration::from_secs(30);

/// What a controller has said of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub prepared: Option<Epoch>,
    pub failed: Option<Epoch>,
    pub stopped: Option<Epoch>,
    /// How often it has heard until when it may act.
    pub heard: u64,
}

/// One controller process, as long as it lives.
#[derive(Debug)]
pub(crate) struct Line {
    charges: mpsc::UnboundedSender<Charge>,
    progress: watch::Receiver<Progress>,
    /// Cancelled when nothing of it lives.
    gone: CancellationToken,
    /// Cancelled when it must be killed.
    condemned: CancellationToken,
}

impl Line {
    pub(crate) fn tell(&self, charge: Charge) {
        // One that is gone says so.
        let _ = self.charges.send(charge);
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Kills it; returns when nothing of it lives.
    pub(crate) async fn kill(&self) {
        self.condemned.cancel();
        self.gone.cancelled().await;
    }
}

/// Keeps one controller running.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    current: watch::Receiver<Option<Arc<Line>>>,
}

impl Controller {
    /// Starts it, and again whenever it ends by itself, until `stop`; the task ends when nothing of it lives.
    pub(crate) fn start(
        nursery: Nursery,
        program: Program,
        election: Arc<OnceLock<Handle>>,
        stop: CancellationToken,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (publish, current) = watch::channel(None);
        let keeping = Keeping { nursery, program, election, publish };
        (Self { current }, tokio::spawn(keeping.keep(stop)))
    }

    /// The process that runs now, if one does.
    pub(crate) fn line(&self) -> Option<Arc<Line>> {
        self.current.borrow().clone()
    }

    /// The process that runs, as soon as one does.
    pub(crate) async fn running(&self) -> Option<Arc<Line>> {
        let mut current = self.current.clone();
        current.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Tells whichever runs who leads elsewhere, until `stop`.
    pub(crate) async fn tell_leaders(mut self, election: Handle, stop: CancellationToken) {
        let mut leadership = election.leadership();
        loop {
            let Leadership { leader, last_epoch, .. } = leadership.borrow_and_update().clone();
            let line = self.current.borrow_and_update().clone();
            if let Some(line) = line {
                let (id, epoch) =
                    leader.map_or((None, last_epoch), |(id, epoch)| (Some(id), epoch));
                line.tell(Charge::Leader { id, epoch });
            }
            let is_over = tokio::select! {
                () = stop.cancelled() => true,
                changed = leadership.changed() => changed.is_err(),
                changed = self.current.changed() => changed.is_err(),
            };
            if is_over {
                return;
            }
        }
    }
}

struct Keeping {
    nursery: Nursery,
    program: Program,
    election: Arc<OnceLock<Handle>>,
    publish: watch::Sender<Option<Arc<Line>>>,
}

impl Keeping {
    async fn keep(self, stop: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        while !stop.is_cancelled() {
            let began = BootInstant::now();
            match self.start().await {
                Ok((kept, line)) => self.follow(kept, &line, &stop).await,
                Err(error) => tracing::error!(target: "tenure", %error, "controller_not_started"),
            }
            pause = match BootInstant::now().since(began) > SETTLED {
                true => FIRST_PAUSE,
                false => (pause * 2).min(LONGEST_PAUSE),
            };
            stop.run_until_cancelled(tokio::time::sleep(pause / 2)).await;
        }
    }

    async fn start(&self) -> io::Result<(Kept, Arc<Line>)> {
        let ((accounts, charges), theirs) = converse::begin()?;
        let kept = self.nursery.keeper()?.run(&self.program, theirs.as_fd(), None).await;
        let kept = kept.map_err(io::Error::other)?;
        let (tell, progress) = watch::channel(Progress::default());
        let (gone, condemned) = (CancellationToken::new(), CancellationToken::new());
        // It ends with the process that it listens to.
        tokio::spawn(hear(accounts, tell, Arc::clone(&self.election)));
        Ok((kept, Arc::new(Line { charges, progress, gone, condemned })))
    }

    /// Until nothing of it lives.
    async fn follow(&self, mut kept: Kept, line: &Arc<Line>, stop: &CancellationToken) {
        self.publish.send_replace(Some(Arc::clone(line)));
        let is_condemned = tokio::select! {
            end = kept.exited() => {
                tracing::error!(target: "tenure", ?end, "controller_ended");
                false
            }
            () = line.condemned.cancelled() => true,
            () = stop.cancelled() => false,
        };
        self.publish.send_replace(None);
        match is_condemned {
            true => drop(kept.kill().await),
            false => drop(kept.stop().await),
        }
        line.gone.cancel();
    }
}

/// Takes down what a controller says, and passes on what it asks.
async fn hear(
    mut accounts: mpsc::UnboundedReceiver<Account>,
    tell: watch::Sender<Progress>,
    election: Arc<OnceLock<Handle>>,
) {
    while let Some(account) = accounts.recv().await {
        let election = election.get();
        match account {
            Account::Prepared { epoch } => tell.send_modify(|said| said.prepared = Some(epoch)),
            Account::Failed { epoch } => tell.send_modify(|said| said.failed = Some(epoch)),
            Account::Stopped { epoch } => tell.send_modify(|said| said.stopped = Some(epoch)),
            Account::Acting { .. } => tell.send_modify(|said| said.heard += 1),
            Account::Refused { epoch } => election.into_iter().for_each(|one| one.refused(epoch)),
            Account::DrainAsked => election.into_iter().for_each(Handle::drain),
            Account::DrainEnded => election.into_iter().for_each(Handle::end_drain),
        }
    }
}
