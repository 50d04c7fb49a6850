//! The check inside the process: who wants to act as leader asks here, right before the act.
//!
//! The gate compares the local deadline with the clock *at the moment of the call*, so a process that
//! was frozen wakes up with a shut gate, however late its timers fire. A check is one clock read and
//! three loads: no lock, no await, nothing shared is written.
//!
//! The gate may be wrong: between a check and its act a process can be paused for any time. What must
//! not be wrong rests on the fence.

mod cell;

mod atomic {
    pub(super) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
}

use std::{fmt, sync::Arc};

use prometheus_client::metrics::counter::Counter;
use tenure_database::BootInstant;

use self::cell::{Cell, Pass};
use crate::{
    elector::Admits,
    term::{Epoch, HolderId, Scope, Term},
};

/// Whether this node may act now. Cheap to clone and to ask; opened and shut by the election alone.
#[derive(Clone, Debug)]
pub struct LeaderGate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    scope: Scope,
    holder: HolderId,
    cell: Cell,
    refused: Counter,
}

impl LeaderGate {
    pub(crate) fn shut(scope: Scope, holder: HolderId, refused: Counter) -> Self {
        let shared = Shared { scope, holder, cell: Cell::shut(), refused };
        Self { shared: Arc::new(shared) }
    }

    /// Whether [`require_leader`](Self::require_leader) would let work begin now.
    #[inline]
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.passing().is_some_and(|pass| pass.admits_new_work)
    }

    /// The right to begin something as leader.
    ///
    /// Check it again with [`ensure_epoch`](Self::ensure_epoch) right before the act.
    #[inline]
    pub fn require_leader(&self) -> Result<LeaderToken<'_>, NotLeader> {
        match self.passing() {
            Some(pass) if pass.admits_new_work => Ok(self.token(pass)),
            _ => Err(self.refuse(None)),
        }
    }

    /// Whether the term with this number may still act: also while draining, never in another term.
    #[inline]
    pub fn ensure_epoch(&self, epoch: Epoch) -> Result<(), NotLeader> {
        match self.passing() {
            Some(pass) if pass.epoch == epoch.get() => Ok(()),
            _ => Err(self.refuse(Some(epoch))),
        }
    }

    /// How often a check was refused: `extrinsic_blocked_not_leader_total`.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.shared.refused.get()
    }

    /// What is led.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    /// Who this node is.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        &self.shared.holder
    }

    /// How the gate stands now, for whoever passes it on; `None` while it is shut. To act, ask for the right.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.passing().map(|pass| Standing {
            epoch: Epoch::new(pass.epoch),
            until: BootInstant::from_nanos(pass.until_nanos),
            admits_new_work: pass.admits_new_work,
        })
    }

    /// The local deadline, while the gate is open.
    #[must_use]
    pub fn open_until(&self) -> Option<BootInstant> {
        self.passing().map(|pass| BootInstant::from_nanos(pass.until_nanos))
    }

    pub(crate) fn open(&self, epoch: Epoch, until: BootInstant, admits: Admits) {
        self.shared.cell.open(Pass {
            epoch: epoch.get(),
            until_nanos: until.as_nanos(),
            admits_new_work: admits == Admits::NewWork,
        });
    }

    pub(crate) fn close(&self) {
        self.shared.cell.close();
    }

    #[inline]
    fn passing(&self) -> Option<Pass> {
        let pass = self.shared.cell.read()?;
        (BootInstant::now().as_nanos() < pass.until_nanos).then_some(pass)
    }

    #[inline]
    fn token(&self, pass: Pass) -> LeaderToken<'_> {
        LeaderToken { epoch: Epoch::new(pass.epoch), gate: self }
    }

    #[cold]
    fn refuse(&self, asked: Option<Epoch>) -> NotLeader {
        self.shared.refused.inc();
        NotLeader { asked, last: Epoch::new(self.shared.cell.last_epoch()) }
    }
}

/// An open gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// For which term.
    pub epoch: Epoch,
    /// Until when.
    pub until: BootInstant,
    /// Whether new work may begin, or only what has begun may end.
    pub admits_new_work: bool,
}

/// Proof that the gate was open a moment ago, for one term.
///
/// It borrows the gate, clones no string and bumps no shared count. To carry the right into another
/// task take the [`epoch`](Self::epoch) along and ask a clone of the gate there.
#[derive(Clone, Copy, Debug)]
pub struct LeaderToken<'gate> {
    /// The fencing token.
    pub epoch: Epoch,
    gate: &'gate LeaderGate,
}

impl<'gate> LeaderToken<'gate> {
    /// Who leads.
    #[must_use]
    pub fn holder_identity(&self) -> &'gate str {
        self.gate.holder().as_str()
    }

    /// The term, for a fenced write.
    #[must_use]
    pub fn term(&self) -> Term {
        Term::granted(self.gate.scope().clone(), self.gate.holder().clone(), self.epoch)
    }
}

/// This node must not act: it does not lead, or no longer in the term that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader {
    asked: Option<Epoch>,
    last: Epoch,
}

impl NotLeader {
    /// The last term that this node led, zero if none.
    #[must_use]
    pub fn last_epoch(&self) -> Epoch {
        self.last
    }
}

impl fmt::Display for NotLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.asked {
            None => f.write_str("not the leader"),
            Some(epoch) => write!(f, "not the leader of term {epoch} any more"),
        }
    }
}

impl std::error::Error for NotLeader {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gate() -> LeaderGate {
        LeaderGate::shut(
            Scope::new("jobs").unwrap(),
            HolderId::new("node-1").unwrap(),
            Counter::default(),
        )
    }

    fn soon() -> BootInstant {
        BootInstant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_new_gate_is_shut() {
        let gate = gate();
        assert!(!gate.is_leader());
        assert_eq!(gate.require_leader().unwrap_err().to_string(), "not the leader");
        assert_eq!(gate.refused_total(), 1);
    }

    #[test]
    fn an_open_gate_hands_out_its_term() {
        let gate = gate();
        gate.open(Epoch::new(7), soon(), Admits::NewWork);
        let token = gate.require_leader().unwrap();
        assert_eq!((token.epoch, token.holder_identity()), (Epoch::new(7), "node-1"));
        assert_eq!(token.term().scope().as_str(), "jobs");
        assert!(gate.ensure_epoch(token.epoch).is_ok());
        assert!(gate.is_leader());
        assert_eq!(gate.refused_total(), 0);
    }

    #[test]
    fn an_open_gate_says_how_it_stands_and_a_shut_one_nothing() {
        // Its lowest bit says who is admitted.
        let (gate, until) = (gate(), BootInstant::from_nanos(soon().as_nanos() & !1));
        gate.open(Epoch::new(7), until, Admits::RunningWork);
        let standing = Standing { epoch: Epoch::new(7), until, admits_new_work: false };
        assert_eq!(gate.standing(), Some(standing));
        assert_eq!(gate.open_until(), Some(until));
        gate.close();
        assert_eq!((gate.standing(), gate.open_until()), (None, None));
    }

    #[test]
    fn the_deadline_shuts_the_gate_without_anybody_saying_so() {
        let gate = gate();
        gate.open(Epoch::new(7), BootInstant::now(), Admits::NewWork);
        assert!(!gate.is_leader());
        assert!(gate.ensure_epoch(Epoch::new(7)).is_err());
    }

    #[test]
    fn a_token_of_an_old_term_does_not_pass_in_a_new_one() {
        let gate = gate();
        gate.open(Epoch::new(7), soon(), Admits::NewWork);
        gate.close();
        gate.open(Epoch::new(9), soon(), Admits::NewWork);
        let refusal = gate.ensure_epoch(Epoch::new(7)).unwrap_err();
        assert_eq!(refusal.to_string(), "not the leader of term 7 any more");
        assert_eq!(refusal.last_epoch(), Epoch::new(9));
    }

    #[test]
    fn a_draining_gate_lets_running_work_finish_and_nothing_new_begin() {
        let gate = gate();
        gate.open(Epoch::new(7), soon(), Admits::NewWork);
        gate.open(Epoch::new(7), soon(), Admits::RunningWork);
        assert!(gate.require_leader().is_err());
        assert!(gate.ensure_epoch(Epoch::new(7)).is_ok());
    }
}
