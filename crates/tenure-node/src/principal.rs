//! The work of a node's terms: the controller's.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use tenure::{
    BootInstant, Epoch, Term,
    election::{Handle, Tenure, Work, WorkError, delegated::Charge},
    gate::Standing,
};
use tokio::sync::Mutex;

use crate::controller::{Controller, Line, Progress};

/// How long a controller may take to run at all.
const STARTING: Duration = Duration::from_secs(5);
/// How long it may take to make ready: a little longer than its takeover.
const PREPARING: Duration = Duration::from_secs(32);
/// How long it may take to say that it has heard something.
const ANSWERING: Duration = Duration::from_secs(2);
/// How often it is told how its gate stands, changed or not, and looked whether it has answered.
const LOOK: Duration = Duration::from_millis(500);

/// Lets the controller lead, and watches it.
pub(crate) struct Principal {
    pub controller: Controller,
    pub election: Arc<OnceLock<Handle>>,
    /// How long results are accepted after a stop was asked for.
    pub grace: Duration,
    /// The process that was told to make ready for the term, and no other, leads it.
    pub prepared: Mutex<Option<(Epoch, Arc<Line>)>>,
}

#[async_trait]
impl Work for Principal {
    async fn prepare(&self, term: &Term) -> Result<(), WorkError> {
        let epoch = term.epoch();
        let line = tokio::select! {
            line = self.controller.running() => line,
            () = tokio::time::sleep(STARTING) => None,
        };
        let line = line.ok_or("no controller runs on this node")?;
        *self.prepared.lock().await = Some((epoch, Arc::clone(&line)));
        line.tell(Charge::Prepare { epoch });
        let answered = tokio::select! {
            is_ready = is_ready(&line, epoch) => is_ready,
            () = line.gone() => false,
            () = tokio::time::sleep(PREPARING) => {
                tracing::error!(target: "tenure", epoch = epoch.get(), "controller_does_not_answer");
                line.kill().await;
                false
            }
        };
        match answered {
            true => Ok(()),
            false => Err("the controller could not make ready to lead".into()),
        }
    }

    async fn lead(&self, tenure: Tenure) {
        let epoch = tenure.term.epoch();
        let prepared = self.prepared.lock().await.take();
        let (Some((_, line)), Some(election)) =
            (prepared.filter(|(prepared, _)| *prepared == epoch), self.election.get())
        else {
            return;
        };
        self.follow(&line, election, tenure).await;
        line.tell(Charge::Shut { epoch });
    }

    /// A term that was never led, whatever became of its preparation: its controller is told so.
    async fn ended(&self, term: &Term) {
        let epoch = term.epoch();
        if let Some((_, line)) = self.prepared.lock().await.take() {
            line.tell(Charge::Shut { epoch });
            line.tell(Charge::Stop { epoch });
        }
    }
}

/// Whether the controller makes ready, once it says so or not.
async fn is_ready(line: &Line, epoch: Epoch) -> bool {
    let answered = |said: &Progress| [said.prepared, said.failed].contains(&Some(epoch));
    let mut progress = line.progress();
    progress.wait_for(answered).await.is_ok_and(|said| said.prepared == Some(epoch))
}

impl Principal {
    /// Returns when the controller has stopped, or nothing of it lives.
    async fn follow(&self, line: &Line, election: &Handle, mut tenure: Tenure) {
        let epoch = tenure.term.epoch();
        let (mut progress, mut leadership) = (line.progress(), election.leadership());
        let mut stop_by: Option<BootInstant> = None;
        let (mut unheard, mut told) = (Unheard::default(), Told::default());
        loop {
            let standing = standing(election, epoch);
            if told.is_due(standing) && tell_gate(line, standing, epoch) {
                unheard.asked(progress.borrow().heard);
            }
            tokio::select! {
                Ok(()) = tenure.until.changed() => {}
                Ok(()) = leadership.changed() => {}
                Ok(()) = progress.changed() => {
                    if progress.borrow_and_update().stopped == Some(epoch) {
                        return;
                    }
                }
                () = tenure.stop.cancelled(), if stop_by.is_none() => {
                    tell_gate(line, self::standing(election, epoch), epoch);
                    line.tell(Charge::Stop { epoch });
                    stop_by = Some(BootInstant::now() + self.grace + ANSWERING);
                }
                () = line.gone() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let is_late = stop_by.is_some_and(|by| by < BootInstant::now());
            if is_late || unheard.for_too_long(progress.borrow().heard) {
                tracing::error!(target: "tenure", epoch = epoch.get(), "controller_does_not_answer");
                return line.kill().await;
            }
        }
    }
}

/// Since when the controller was told something and has not said that it heard.
#[derive(Default)]
struct Unheard(Option<(BootInstant, u64)>);

impl Unheard {
    fn asked(&mut self, heard: u64) {
        self.0.get_or_insert((BootInstant::now(), heard));
    }

    fn for_too_long(&mut self, heard: u64) -> bool {
        self.0 = self.0.filter(|(_, before)| *before == heard);
        self.0.is_some_and(|(since, _)| BootInstant::now().since(since) > ANSWERING)
    }
}

/// What the controller was told last, and when.
#[derive(Default)]
struct Told(Option<(Option<Standing>, BootInstant)>);

impl Told {
    /// Whether there is something new to tell, or nothing was told for a while.
    fn is_due(&mut self, standing: Option<Standing>) -> bool {
        let now = BootInstant::now();
        let is_due = self.0.is_none_or(|(told, at)| told != standing || now.since(at) >= LOOK);
        if is_due {
            self.0 = Some((standing, now));
        }
        is_due
    }
}

/// How the gate of this term stands.
fn standing(election: &Handle, epoch: Epoch) -> Option<Standing> {
    election.gate().standing().filter(|standing| standing.epoch == epoch)
}

/// Tells the controller how its gate stands; whether that asks for an answer.
fn tell_gate(line: &Line, standing: Option<Standing>, epoch: Epoch) -> bool {
    match standing {
        Some(Standing { until, admits_new_work, .. }) => {
            line.tell(Charge::Act { epoch, until: until.as_nanos(), admits_new_work });
            true
        }
        None => {
            line.tell(Charge::Shut { epoch });
            false
        }
    }
}
