//! The work of a term that is a program: started when the gate opens, dead before the term is released.

use std::{
    collections::BTreeMap,
    io,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure::{
    Term,
    election::{Tenure, Work, WorkError},
};
use tenure_database::BootInstant;
use tokio::sync::{Mutex, broadcast, mpsc};

use crate::{
    kept::{End, Idle, Kept, StartError},
    nursery::Nursery,
    observe::Metrics,
    orders::{Exit, Program},
    standby::Standby,
    token_file::TokenFile,
};

/// The programs of a supervisor, and how they are treated.
#[derive(Clone, Debug)]
pub struct Programs {
    /// What the leader runs.
    pub leader: Vec<String>,
    /// What runs otherwise.
    pub standby: Option<Vec<String>>,
    /// How long each has between being asked and being made to end.
    pub grace: Duration,
    /// Whether a terminal is in front of this process: then the children share its process group, and the
    /// terminal signals them itself.
    pub in_front: bool,
}

/// How a leader's child ended, and its term with it.
#[derive(Debug)]
pub enum Outcome {
    /// It could not be started.
    NotStarted(StartError),
    /// It ended by itself, or was ended with its term.
    Ended {
        /// How, if that is known.
        exit: Option<Exit>,
        /// Whether the term ended first.
        was_stopped: bool,
    },
}

/// Runs the programs as the election tells.
#[derive(Debug)]
pub(crate) struct Children {
    nursery: Nursery,
    programs: Programs,
    scope: String,
    node_id: String,
    token: TokenFile,
    /// A keeper that waits for the next term, so that only the child is to be started then.
    ///
    /// It is named with the term that it keeps the child of: a successor on this host looks whether it is
    /// gone. So no term gets a keeper that was started after it was won.
    spare: Mutex<Option<Idle>>,
    metrics: Metrics,
    /// This was the last term: nobody needs a keeper any more.
    is_leaving: AtomicBool,
    standby: Option<Standby>,
    signals: broadcast::Sender<i32>,
    outcomes: mpsc::UnboundedSender<Outcome>,
}

impl Children {
    pub(crate) fn new(
        nursery: Nursery,
        programs: Programs,
        scope: &str,
        node_id: &str,
        metrics: Metrics,
        signals: broadcast::Sender<i32>,
        outcomes: mpsc::UnboundedSender<Outcome>,
    ) -> io::Result<Self> {
        let mut children = Self {
            spare: Mutex::new(Some(nursery.keeper()?)),
            token: TokenFile::new()?,
            nursery,
            programs,
            scope: scope.to_owned(),
            node_id: node_id.to_owned(),
            metrics,
            is_leaving: AtomicBool::new(false),
            standby: None,
            signals,
            outcomes,
        };
        if let Some(arguments) = children.programs.standby.clone() {
            let program = children.program(arguments, "standby", None, None);
            children.standby = Some(Standby::start(children.nursery.clone(), program));
        }
        Ok(children)
    }

    fn program(
        &self,
        arguments: Vec<String>,
        role: &str,
        term: Option<&Term>,
        until: Option<BootInstant>,
    ) -> Program {
        let token = term.map(|_| self.token.path().display().to_string());
        let environment = BTreeMap::from([
            ("TENURE_SCOPE", Some(self.scope.clone())),
            ("TENURE_NODE_ID", Some(self.node_id.clone())),
            ("TENURE_ROLE", Some(role.to_owned())),
            ("TENURE_EPOCH", term.map(|term| term.epoch().to_string())),
            ("TENURE_TOKEN_FILE", token),
            // Those are for the supervisor: a child must not speak to systemd in its name.
            ("NOTIFY_SOCKET", None),
            ("WATCHDOG_USEC", None),
            ("WATCHDOG_PID", None),
        ]);
        Program {
            arguments,
            shown_as: None,
            environment: environment
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            has_own_group: !self.programs.in_front,
            folder: None,
            token_file: term.map(|_| self.token.path()),
            until: until.map(BootInstant::as_nanos),
            grace: self.programs.grace,
            has_grace_alone: true,
        }
    }

    async fn start(&self, tenure: &Tenure) -> Result<Kept, StartError> {
        let until = *tenure.until.borrow();
        let arguments = self.programs.leader.clone();
        let name = || self.programs.leader.join(" ");
        let written = self.token.write(&tenure.term, until);
        written.map_err(|source| StartError::System { program: name(), source })?;
        let program = self.program(arguments, "leader", Some(&tenure.term), Some(until));
        let idle = self.spare.lock().await.take();
        let idle = idle.ok_or_else(|| StartError::KeeperLost { program: name() })?;
        let hold = tenure.hold.as_ref().map(AsFd::as_fd);
        let kept = idle.run(&program, io::stdin().as_fd(), hold).await?;
        self.metrics.started();
        Ok(kept)
    }

    /// Makes sure that a keeper waits; whether the one that was there still does.
    async fn keep_a_spare(&self) -> io::Result<bool> {
        let mut spare = self.spare.lock().await;
        if spare.as_mut().is_some_and(Idle::is_there) {
            return Ok(true);
        }
        *spare = None;
        *spare = Some(self.nursery.keeper()?);
        Ok(false)
    }

    /// Follows the child until it ends or its term does. How it ended if it did, and whether the term did.
    async fn follow(
        &self,
        kept: &mut Kept,
        tenure: &mut Tenure,
        signals: &mut broadcast::Receiver<i32>,
    ) -> (Option<Exit>, bool) {
        loop {
            tokio::select! {
                end = kept.exited() => return match end {
                    End::ByItself(exit) => (Some(exit), false),
                    End::Asked(exit) => (Some(exit), true),
                    End::Unknown => (None, false),
                },
                () = tenure.stop.cancelled() => return (None, true),
                Ok(()) = tenure.until.changed() => {
                    let until = *tenure.until.borrow_and_update();
                    if !kept.act_until(until) {
                        return (None, false);
                    }
                    if let Err(error) = self.token.write(&tenure.term, until) {
                        tracing::warn!(target: "tenure", %error, "token_file_not_written");
                    }
                }
                Ok(signal) = signals.recv() => kept.signal(signal),
            }
        }
    }

    async fn run(&self, mut tenure: Tenure) -> Outcome {
        let mut signals = self.signals.subscribe();
        let mut kept = match self.start(&tenure).await {
            Ok(kept) => kept,
            Err(error) => {
                let causes = tenure_database::error::chain(&error);
                tracing::error!(target: "tenure", error = causes, "child_not_started");
                return Outcome::NotStarted(error);
            }
        };
        let (exit, was_stopped) = self.follow(&mut kept, &mut tenure, &mut signals).await;
        let (late_exit, lag) = kept.stop_hearing(&mut signals).await;
        self.metrics.stopped(lag);
        let exit = exit.or(late_exit);
        tracing::info!(target: "tenure", ?exit, was_stopped, ?lag, "child_ended");
        Outcome::Ended { exit, was_stopped }
    }

    /// No term comes after this one.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Returns when nothing that does not lead lives any more.
    pub(crate) async fn end_standby(&self) {
        if let Some(standby) = &self.standby {
            standby.pause().await;
        }
    }
}

/// The children, as the election runs them.
pub(crate) struct OfTerms(pub(crate) Arc<Children>);

#[async_trait]
impl Work for OfTerms {
    /// The standby is proven dead before the leader's child starts.
    async fn prepare(&self, _: &Term) -> Result<(), WorkError> {
        self.0.end_standby().await;
        match self.0.keep_a_spare().await? {
            true => Ok(()),
            false => Err("the keeper has ended; the next term has a new one".into()),
        }
    }

    async fn lead(&self, tenure: Tenure) {
        let outcome = self.0.run(tenure).await;
        // A supervisor that is gone needs no word.
        let _ = self.0.outcomes.send(outcome);
    }

    async fn ended(&self, _: &Term) {
        let children = &self.0;
        children.token.remove();
        if children.is_leaving.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = children.keep_a_spare().await {
            tracing::error!(target: "tenure", %error, "keeper_not_started");
        }
        if let Some(standby) = &children.standby {
            standby.resume();
        }
    }
}
