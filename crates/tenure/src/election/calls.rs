//! The calls that an election makes: to its lock and to its fence, each one after the other.
//!
//! They run beside the driver, so that it goes on hearing and closing gates while a call is under way.

use std::sync::Arc;

use tenure_database::BootInstant;
use tokio::sync::{Notify, mpsc};

use crate::{
    elector::{CommandId, EndReason, Event, Renewal},
    fence::{Fence, FenceError, Raised},
    lock::{Acquire, Hold, Holding, Lock, LockError, LockPlace, Observed, Reading, Renew},
    observe::Observer,
    term::{Epoch, Scope, Term},
};

/// What the lock is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum LockCall {
    Acquire { command: CommandId, floor: Epoch, overdue: Option<Renewal> },
    Renew { command: CommandId, epoch: Epoch },
    Release { command: CommandId, epoch: Epoch },
    Observe { command: CommandId },
}

/// What came of a call, for the driver.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) event: Event,
    pub(super) reading: Reading,
    /// The connection that a granted lock lives on.
    pub(super) hold: Option<Hold>,
    /// Who holds the lock, where that was told.
    pub(super) holder: Option<Holding>,
    /// Why the election cannot go on.
    pub(super) fatal: Option<String>,
}

impl Answer {
    fn plain(event: Event) -> Self {
        Self { event, reading: Reading::default(), hold: None, holder: None, fatal: None }
    }
}

/// Asks the lock, one call at a time, until the driver is gone.
pub(super) async fn ask_lock(
    mut lock: Box<dyn Lock>,
    mut calls: mpsc::UnboundedReceiver<LockCall>,
    answers: mpsc::UnboundedSender<Answer>,
    stand_down: Arc<Notify>,
    observer: Observer,
) {
    while let Some(call) = calls.recv().await {
        let gives_way = lock.wait().is_some();
        let answer = tokio::select! {
            answer = ask(lock.as_mut(), call, &observer) => answer,
            // Dropping the wait closes its session, and with it whatever the session got meanwhile.
            () = stand_down.notified(), if gives_way && matches!(call, LockCall::Acquire { .. }) => {
                Answer::plain(Event::Unknown { command: call.command() })
            }
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

impl LockCall {
    fn command(self) -> CommandId {
        match self {
            Self::Acquire { command, .. }
            | Self::Renew { command, .. }
            | Self::Release { command, .. }
            | Self::Observe { command } => command,
        }
    }
}

async fn ask(lock: &mut dyn Lock, call: LockCall, observer: &Observer) -> Answer {
    let asked = BootInstant::now();
    match call {
        LockCall::Acquire { command, floor, overdue } => {
            let answer = match overdue {
                Some(renewal) => lock.acquire_overdue(floor, renewal).await,
                None => lock.acquire(floor).await,
            };
            observer.asked(BootInstant::now().since(asked));
            match answer {
                Ok(answer) => acquired(command, answer, observer),
                Err(error) => {
                    observer.acquire_failed(&error);
                    unknown(command, &error)
                }
            }
        }
        LockCall::Renew { command, epoch } => match lock.renew(epoch).await {
            Ok(Renew::Renewed { sent_at, extends, reading }) => {
                observer.renewed(epoch, BootInstant::now().since(asked), &reading);
                Answer { reading, ..Answer::plain(Event::Renewed { command, sent_at, extends }) }
            }
            Ok(Renew::Lost) => Answer::plain(Event::Lost { command }),
            Err(error) => {
                observer.renew_failed(epoch, &error);
                unknown(command, &error)
            }
        },
        LockCall::Release { command, epoch } => match lock.release(epoch).await {
            Ok(()) => Answer::plain(Event::Released { command }),
            Err(error) => {
                observer.call_failed(epoch, "release", &error);
                unknown(command, &error)
            }
        },
        LockCall::Observe { command } => match lock.observe().await {
            Ok(observed) => seen(command, observed),
            Err(error) => {
                observer.call_failed(Epoch::ZERO, "observe", &error);
                unknown(command, &error)
            }
        },
    }
}

fn acquired(command: CommandId, answer: Acquire, observer: &Observer) -> Answer {
    match answer {
        Acquire::Granted(grant) => {
            observer.acquired(grant.epoch, &grant.reading);
            if !grant.settle.is_zero() {
                observer.settles(grant.epoch, grant.settle);
            }
            let (sent_at, epoch, settle) = (grant.sent_at, grant.epoch, grant.settle);
            let event = Event::Granted { command, sent_at, epoch, settle };
            Answer { reading: grant.reading, hold: grant.hold, ..Answer::plain(event) }
        }
        Acquire::Held(held) => {
            let (epoch, left, shown, ours) = (held.epoch, held.left, held.shown, held.ours);
            let event = Event::Held { command, epoch, left, shown, ours };
            Answer { reading: held.reading.clone(), holder: Some(held), ..Answer::plain(event) }
        }
    }
}

fn seen(command: CommandId, observed: Observed) -> Answer {
    let Observed { held, epoch, reading } = observed;
    let ours = held.as_ref().is_some_and(|held| held.ours);
    let event = Event::Observed { command, epoch, free: held.is_none(), ours };
    Answer { reading, holder: held, ..Answer::plain(event) }
}

fn unknown(command: CommandId, error: &LockError) -> Answer {
    let fatal = error.is_refusal().then(|| error.to_string());
    Answer { fatal, ..Answer::plain(Event::Unknown { command }) }
}

/// What the fence is asked.
#[derive(Clone, Debug)]
pub(super) enum FenceCall {
    Raise {
        command: CommandId,
        term: Term,
    },
    End {
        term: Term,
        reason: EndReason,
    },
    /// Whether an operator has asked for a hand-over.
    LookForOrders,
}

/// Asks the fence, one call at a time, until the driver is gone and nothing is left to be written.
pub(super) async fn ask_fence(
    fence: Arc<dyn Fence>,
    scope: Scope,
    lock: LockPlace,
    mut calls: mpsc::UnboundedReceiver<FenceCall>,
    answers: mpsc::UnboundedSender<Answer>,
    orders: mpsc::UnboundedSender<Option<Epoch>>,
    observer: Observer,
) {
    fence.rehearse().await;
    while let Some(call) = calls.recv().await {
        match call {
            FenceCall::Raise { command, term } => {
                let answer = raised(command, &term, fence.raise(&term, &lock).await, &observer);
                // A driver that is gone needs no answer, but the history may still wait behind.
                let _ = answers.send(answer);
            }
            FenceCall::End { term, reason } => {
                if let Err(error) = fence.end_term(&term, reason.as_str()).await {
                    observer.call_failed(term.epoch(), "end_term", &error);
                }
            }
            FenceCall::LookForOrders => {
                let looked = fence.drained_up_to(&scope).await;
                if let Err(error) = &looked {
                    observer.call_failed(Epoch::ZERO, "drained_up_to", error);
                }
                let _ = orders.send(looked.ok());
            }
        }
    }
}

fn raised(
    command: CommandId,
    term: &Term,
    answer: Result<Raised, FenceError>,
    observer: &Observer,
) -> Answer {
    let epoch = term.epoch();
    match answer {
        Ok(Raised::Raised) => Answer::plain(Event::FenceRaised { epoch }),
        Ok(Raised::Refused { fence }) => Answer::plain(Event::FenceRefused { epoch, fence }),
        Err(FenceError::Refused { fence, .. }) => {
            Answer::plain(Event::FenceRefused { epoch, fence })
        }
        Err(FenceError::OtherLock { message }) => {
            Answer { fatal: Some(message), ..Answer::plain(Event::Unknown { command }) }
        }
        Err(error @ FenceError::Database(_)) => {
            observer.call_failed(epoch, "raise_fence", &error);
            Answer::plain(Event::Unknown { command })
        }
    }
}
