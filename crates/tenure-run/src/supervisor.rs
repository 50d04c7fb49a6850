//! Runs a program in one process of many: the election, its children, and the signals of whoever started it.

use std::{future::Future, io, pin::pin, sync::Arc};

use rustix::process::Signal as Signals;
use tenure::{
    Candidate, Election,
    election::{self, ElectionEnded},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{broadcast, mpsc},
};

use crate::{
    children::{Children, OfTerms, Outcome, Programs},
    kept::StartError,
    nursery::Nursery,
    observe::Metrics,
    orders::Exit,
};

/// Whether a child that ended by itself is run again, in a new term, here or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The supervisor ends with it.
    Never,
    /// When it failed.
    OnFailure,
    /// Always.
    Always,
}

impl Restart {
    fn applies_to(self, exit: Option<Exit>) -> bool {
        match self {
            Self::Never => false,
            Self::OnFailure => !exit.is_some_and(Exit::is_success),
            Self::Always => true,
        }
    }
}

const TERM: i32 = Signals::TERM.as_raw();
/// The program was not found.
const NOT_FOUND: u8 = 127;
/// The program could not be started.
const NOT_STARTED: u8 = 126;
/// How a child ended is not known.
const NOT_KNOWN: u8 = 125;

/// An election, and the programs that run as it tells.
pub struct Supervisor {
    election: Election,
    children: Arc<Children>,
    restart: Restart,
    in_front: bool,
    told: Told,
    signals: broadcast::Sender<i32>,
    ended: mpsc::UnboundedReceiver<Outcome>,
}

impl Supervisor {
    /// Begins to contend.
    pub fn start(
        builder: election::Builder,
        candidate: &Candidate,
        nursery: Nursery,
        programs: Programs,
        restart: Restart,
        metrics: Metrics,
    ) -> Result<Self, SuperviseError> {
        // From here on a signal is heard, and nothing was started before.
        let told = Told::new()?;
        let in_front = programs.in_front;
        let (signals, _) = broadcast::channel(64);
        let (outcomes, ended) = mpsc::unbounded_channel();
        let (scope, node_id) = (candidate.scope.as_str(), candidate.holder.as_str());
        let children =
            Children::new(nursery, programs, scope, node_id, metrics, signals.clone(), outcomes)?;
        let children = Arc::new(children);
        let election = builder.work(OfTerms(Arc::clone(&children))).start()?;
        Ok(Self { election, children, restart, in_front, told, signals, ended })
    }

    /// The election, for whoever shows it or drains it.
    #[must_use]
    pub fn election(&self) -> election::Handle {
        self.election.handle()
    }

    /// Runs until the leader's child ends and is not to be run again, or until this process is told to stop.
    /// Returns the code to exit with.
    pub async fn run(mut self) -> Result<u8, SuperviseError> {
        let mut code = match self.until_over().await {
            Ok(code) => code,
            Err(error) => {
                self.children.end_standby().await;
                return Err(error.into());
            }
        };
        self.children.leave();
        // In order: gate shut, child dead, term released. And whoever stood by ends too.
        let Self { election, children, mut told, signals, mut ended, .. } = self;
        let mut stopping = pin!(election.stop());
        hurried(&mut stopping, &mut told, &signals).await?;
        children.end_standby().await;
        if let Ok(outcome) = ended.try_recv() {
            code = exit_code(&outcome);
        }
        Ok(code)
    }

    async fn until_over(&mut self) -> Result<u8, ElectionEnded> {
        loop {
            tokio::select! {
                Some(outcome) = self.ended.recv() => {
                    if let Some(code) = verdict(&outcome, self.restart) {
                        return Ok(code);
                    }
                }
                ended = self.election.ended() => {
                    ended?;
                    return Ok(0);
                }
                number = self.told.next() => {
                    self.pass_on(number);
                    if is_farewell(number) {
                        return Ok(if number == TERM { 0 } else { Exit::Signal(number).code() });
                    }
                }
            }
        }
    }

    /// To the child, unless it is told otherwise: the keeper asks with SIGTERM itself, and a terminal has told
    /// the child what it tells us.
    fn pass_on(&self, number: i32) {
        let is_told = number == TERM || self.in_front && is_farewell(number);
        if !is_told {
            // Nobody listens when there is no child.
            let _ = self.signals.send(number);
        }
    }
}

/// A second word of the kind kills the child at once.
async fn hurried(
    stopping: &mut (impl Future<Output = Result<(), ElectionEnded>> + Unpin),
    told: &mut Told,
    signals: &broadcast::Sender<i32>,
) -> Result<(), ElectionEnded> {
    loop {
        tokio::select! {
            stopped = &mut *stopping => return stopped,
            number = told.next() => if is_farewell(number) {
                let _ = signals.send(Signals::KILL.as_raw());
            },
        }
    }
}

/// The code to exit with, unless the program is to be run again: here, or by whoever leads next.
fn verdict(outcome: &Outcome, restart: Restart) -> Option<u8> {
    let is_over = match outcome {
        // The next term has another keeper, and another time.
        Outcome::NotStarted(StartError::KeeperLost { .. } | StartError::TooLate { .. }) => false,
        Outcome::NotStarted(StartError::System { .. }) => !restart.applies_to(None),
        Outcome::NotStarted(StartError::Refused { .. }) => true,
        Outcome::Ended { was_stopped: true, .. } => false,
        Outcome::Ended { exit, .. } => !restart.applies_to(*exit),
    };
    is_over.then(|| exit_code(outcome))
}

fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::NotStarted(StartError::Refused { found: false, .. }) => NOT_FOUND,
        Outcome::NotStarted(_) => NOT_STARTED,
        Outcome::Ended { exit, .. } => exit.map_or(NOT_KNOWN, Exit::code),
    }
}

fn is_farewell(number: i32) -> bool {
    [TERM, Signals::INT.as_raw(), Signals::QUIT.as_raw()].contains(&number)
}

/// The signals that whoever started this process may send.
struct Told(Vec<(i32, Signal)>);

impl Told {
    fn new() -> io::Result<Self> {
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::hangup(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let heard = kinds.into_iter().map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        heard.collect::<io::Result<_>>().map(Self)
    }

    async fn next(&mut self) -> i32 {
        let heard = std::future::poll_fn(|context| {
            let ready = self.0.iter_mut().find_map(|(number, signal)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            });
            ready.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        });
        heard.await
    }
}

/// Why a supervisor could not go on.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The system refused what it needs.
    #[error("cannot supervise")]
    System(#[from] io::Error),
    /// The election.
    #[error(transparent)]
    Election(#[from] ElectionEnded),
}
