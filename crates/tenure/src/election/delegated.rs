//! A term that another process on this machine has won, and lets this one act in.
//!
//! The *principal* runs the election; the *delegate* does the work. The principal tells the delegate what its gate
//! may do, as often as that changes; the delegate's own gate keeps to it, so a principal that falls silent shuts it
//! by the deadline that it last told. Both are on one machine: deadlines are moments of the boot clock.
//!
//! ```text
//! principal                         delegate
//!   Prepare {epoch}      ──────►    work.prepare
//!                        ◄──────    Prepared {epoch}
//!   Act {epoch, until}   ──────►    gate open, work.lead
//!   Act …                ──────►    with every renewal
//!                        ◄──────    Acting {epoch}
//!   Stop {epoch}         ──────►    work is told to stop; the gate stays as it was told
//!   Shut {epoch}         ──────►    gate shut
//!                        ◄──────    Stopped {epoch}
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_database::BootInstant;
use tokio::{
    runtime,
    sync::{broadcast, mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::{Handle, Leadership, Role, Wish, Work, driver::Shared, work::Workers};
use crate::{
    elector::{Admits, Event},
    gate::LeaderGate,
    observe::{Metrics, ScopeMetrics},
    term::{Epoch, HolderId, Scope, Term},
};

/// What a principal tells its delegate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// Make ready to lead this term; its fence is raised.
    Prepare {
        /// Its number.
        epoch: Epoch,
    },
    /// The gate is open.
    Act {
        /// In this term.
        epoch: Epoch,
        /// Until then, in nanoseconds of the boot clock.
        until: u64,
        /// Whether new work may begin, or only what has begun may end.
        admits_new_work: bool,
    },
    /// The work of this term must stop.
    Stop {
        /// Its number.
        epoch: Epoch,
    },
    /// The gate is shut.
    Shut {
        /// In this term.
        epoch: Epoch,
    },
    /// Who leads, as the principal knows it.
    Leader {
        /// Its name; nobody when no live term is known.
        id: Option<String>,
        /// Its term, or the last one that was heard of.
        epoch: Epoch,
    },
}

/// What a delegate tells its principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Account {
    /// It is ready to lead this term.
    Prepared {
        /// Its number.
        epoch: Epoch,
    },
    /// It cannot lead this term.
    Failed {
        /// Its number.
        epoch: Epoch,
    },
    /// It has heard until when it may act: it is neither gone nor frozen.
    Acting {
        /// In this term.
        epoch: Epoch,
    },
    /// Nothing of this term runs any more.
    Stopped {
        /// Its number.
        epoch: Epoch,
    },
    /// The fence has refused a write of this term.
    Refused {
        /// Its number.
        epoch: Epoch,
    },
    /// Somebody asked the delegate to hand over.
    DrainAsked,
    /// Somebody asked the delegate to contend again.
    DrainEnded,
}

/// Leads as a principal says.
pub struct Delegate {
    candidate: (Scope, HolderId),
    work: Arc<dyn Work>,
    shared: Arc<Shared>,
    metrics: ScopeMetrics,
    wishes: mpsc::UnboundedReceiver<Wish>,
    /// The last term whose work has ended here, or that the fence has refused: its gate opens no more, whatever a
    /// principal said before it knew.
    over: Epoch,
    /// Keeps the handle's wishes alive as long as the delegate.
    _wishes: mpsc::UnboundedSender<Wish>,
    handle: Handle,
}

impl Delegate {
    /// A delegate that nobody has told anything yet: its gate is shut.
    pub fn new(scope: Scope, holder: HolderId, work: impl Work, metrics: &Metrics) -> Self {
        let metrics = metrics.of(&scope);
        let gate = LeaderGate::shut(scope.clone(), holder.clone(), metrics.blocked.clone());
        let leadership = watch::Sender::new(Leadership::of_nobody());
        let shared = Arc::new(Shared { gate, leadership, changes: broadcast::Sender::new(16) });
        let (asks, wishes) = mpsc::unbounded_channel();
        let handle = Handle { shared: Arc::clone(&shared), wishes: asks.downgrade() };
        let work: Arc<dyn Work> = Arc::new(work);
        let (candidate, over) = ((scope, holder), Epoch::ZERO);
        Self { candidate, work, shared, metrics, wishes, over, _wishes: asks, handle }
    }

    /// What may be asked of it from elsewhere in this process.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Leads as it is told, until there is nobody who tells, or `stop`; then the work is stopped, and awaited.
    pub async fn run(
        mut self,
        mut charges: mpsc::UnboundedReceiver<Charge>,
        accounts: mpsc::UnboundedSender<Account>,
        stop: CancellationToken,
    ) {
        let (events, mut told) = mpsc::unbounded_channel();
        let work = Arc::clone(&self.work);
        let mut workers = Workers::new(work, runtime::Handle::current(), events, None);
        let mut is_working = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                charge = charges.recv() => match charge {
                    Some(charge) => {
                        is_working |= matches!(charge, Charge::Prepare { .. });
                        if let Charge::Act { epoch, .. } = charge {
                            let _ = accounts.send(Account::Acting { epoch });
                        }
                        self.obey(charge, &mut workers);
                    }
                    None => break,
                },
                Some(event) = told.recv() => {
                    if let Event::Stopped { epoch } = event {
                        is_working = false;
                        self.end(epoch);
                    }
                    self.tell(&event, &accounts);
                }
                Some(wish) = self.wishes.recv() => self.pass_on(&wish, &accounts),
            }
        }
        self.shut_whatever_is_open();
        workers.stop();
        while is_working && let Some(event) = told.recv().await {
            is_working = !matches!(event, Event::Stopped { .. });
        }
    }

    fn obey(&self, charge: Charge, workers: &mut Workers) {
        match charge {
            Charge::Prepare { epoch } => workers.prepare(self.term(epoch), None),
            Charge::Act { epoch, .. } if epoch <= self.over => {}
            Charge::Act { epoch, until, admits_new_work } => {
                let admits = if admits_new_work { Admits::NewWork } else { Admits::RunningWork };
                self.open(epoch, BootInstant::from_nanos(until), admits, workers);
            }
            Charge::Stop { .. } => workers.stop(),
            Charge::Shut { epoch } => self.shut(epoch),
            Charge::Leader { id, epoch } => {
                self.shared.leadership.send_if_modified(|known| match id {
                    Some(id) => known.sees(id, epoch),
                    None => known.sees_nobody_since(epoch),
                });
            }
        }
    }

    fn open(&self, epoch: Epoch, until: BootInstant, admits: Admits, workers: &Workers) {
        self.shared.gate.open(epoch, until, admits);
        workers.act_until(until);
        let role = match admits {
            Admits::NewWork => Role::Leader,
            Admits::RunningWork => Role::Draining,
        };
        if self.shared.leadership.borrow().role == role {
            return;
        }
        if role == Role::Leader {
            workers.lead();
            self.metrics.is_leader.set(1);
            self.metrics.epoch.set(epoch.get());
        }
        let term = self.term(epoch);
        self.shared.leadership.send_modify(|known| {
            known.role = role;
            known.sees(term.holder().to_string(), epoch);
            known.term = Some(term);
        });
    }

    /// This term is over here.
    fn end(&mut self, epoch: Epoch) {
        self.over = self.over.max(epoch);
        self.shut(epoch);
    }

    /// Shuts the gate of this term, if it is this term's.
    fn shut(&self, epoch: Epoch) {
        let open = self.shared.leadership.borrow().term.as_ref().map(Term::epoch);
        if open == Some(epoch) {
            self.shut_whatever_is_open();
        }
    }

    fn shut_whatever_is_open(&self) {
        self.shared.gate.close();
        self.metrics.is_leader.set(0);
        self.shared.leadership.send_modify(|known| {
            known.role = Role::Follower;
            known.term = None;
        });
    }

    fn tell(&self, event: &Event, accounts: &mpsc::UnboundedSender<Account>) {
        let account = match *event {
            Event::Prepared { epoch } => Account::Prepared { epoch },
            Event::Stalled { epoch } | Event::GivenUp { epoch } => Account::Failed { epoch },
            Event::Stopped { epoch } => Account::Stopped { epoch },
            _ => return,
        };
        // A principal that is gone ends this soon.
        let _ = accounts.send(account);
    }

    fn pass_on(&mut self, wish: &Wish, accounts: &mpsc::UnboundedSender<Account>) {
        let account = match *wish {
            Wish::FenceRefused(epoch) => {
                // Whatever the principal still believes: this term is over. A newer one is not.
                self.end(epoch);
                Account::Refused { epoch }
            }
            Wish::Drain => Account::DrainAsked,
            Wish::EndDrain => Account::DrainEnded,
            Wish::Stop => return,
        };
        let _ = accounts.send(account);
    }

    fn term(&self, epoch: Epoch) -> Term {
        let (scope, holder) = self.candidate.clone();
        Term::granted(scope, holder, epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;
    use crate::{election::Tenure, gate::NotLeader};

    struct Waits;

    #[async_trait]
    impl Work for Waits {
        async fn lead(&self, tenure: Tenure) {
            tenure.stop.cancelled().await;
        }
    }

    /// A delegate that runs, what it is told, and what it tells.
    struct Scene {
        handle: Handle,
        charges: mpsc::UnboundedSender<Charge>,
        accounts: mpsc::UnboundedReceiver<Account>,
    }

    impl Scene {
        fn new() -> Self {
            let (scope, holder) = (Scope::new("jobs").unwrap(), HolderId::new("one").unwrap());
            let delegate = Delegate::new(scope, holder, Waits, &Metrics::default());
            let handle = delegate.handle();
            let (charges, charged) = mpsc::unbounded_channel();
            let (account, accounts) = mpsc::unbounded_channel();
            tokio::spawn(delegate.run(charged, account, CancellationToken::new()));
            Self { handle, charges, accounts }
        }

        async fn acts_in(&mut self, epoch: Epoch) {
            let until = (BootInstant::now() + Duration::from_secs(60)).as_nanos();
            self.charges.send(Charge::Prepare { epoch }).unwrap();
            self.charges.send(Charge::Act { epoch, until, admits_new_work: true }).unwrap();
            let mut leadership = self.handle.leadership();
            let leads =
                |known: &Leadership| known.term.as_ref().is_some_and(|term| term.epoch() == epoch);
            leadership.wait_for(leads).await.unwrap();
        }

        async fn tells(&mut self, account: Account) {
            while self.accounts.recv().await.expect("the delegate lives") != account {}
        }

        fn gate(&self, epoch: Epoch) -> Result<(), NotLeader> {
            self.handle.gate().ensure_epoch(epoch)
        }
    }

    #[tokio::test]
    async fn a_late_refusal_of_an_old_term_leaves_a_newer_gate_open() {
        let (old, new) = (Epoch::new(1), Epoch::new(2));
        let mut scene = Scene::new();
        scene.acts_in(old).await;
        scene.charges.send(Charge::Stop { epoch: old }).unwrap();
        scene.charges.send(Charge::Shut { epoch: old }).unwrap();
        scene.acts_in(new).await;
        scene.handle.refused(old);
        scene.tells(Account::Refused { epoch: old }).await;
        assert!(scene.gate(new).is_ok(), "it was another term's refusal");
        scene.charges.send(Charge::Shut { epoch: old }).unwrap();
        scene.handle.refused(new);
        scene.tells(Account::Refused { epoch: new }).await;
        assert!(scene.gate(new).is_err());
    }

    #[tokio::test]
    async fn a_term_whose_work_has_ended_is_not_opened_by_what_was_said_before() {
        let epoch = Epoch::new(1);
        let mut scene = Scene::new();
        scene.acts_in(epoch).await;
        scene.charges.send(Charge::Stop { epoch }).unwrap();
        scene.tells(Account::Stopped { epoch }).await;
        assert!(scene.gate(epoch).is_err(), "its principal may have released it by now");
        let until = (BootInstant::now() + Duration::from_secs(60)).as_nanos();
        scene.charges.send(Charge::Act { epoch, until, admits_new_work: false }).unwrap();
        // Heard after it: by then the gate is open, if it is ever opened.
        let (id, newer) = (Some("two".to_owned()), epoch.next());
        scene.charges.send(Charge::Leader { id, epoch: newer }).unwrap();
        let mut leadership = scene.handle.leadership();
        leadership.wait_for(|known| known.last_epoch == newer).await.unwrap();
        assert!(scene.gate(epoch).is_err(), "it was opened again");
    }
}
