//! The database of the model: one lock, one fence, and the transactions that are open.

use std::time::Duration;

use tenure::{
    Epoch, Takeover,
    elector::{CommandId, Event},
};
use tenure_database::BootInstant;

/// Which node, and which start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub node: usize,
    pub start: u8,
}

/// A request on its way; an abandoned one may be applied at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    pub from: Holder,
    pub command: CommandId,
    pub sent_at: BootInstant,
    pub what: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    Acquire { floor: Epoch },
    Renew { epoch: Epoch },
    Release { epoch: Epoch },
    Observe,
    Raise { epoch: Epoch },
}

/// One incarnation of a leader's work: a restart under the same epoch is another child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    pub epoch: Epoch,
    pub child: u8,
}

/// A fenced transaction that holds its shared lock on the fence row until it commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    pub holder: Holder,
    pub work: Work,
}

/// How the lock passes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// A row with an expiry by the database's clock.
    Lease,
    /// The same in another database: a fenced write cannot look at it, and the fence stands alone.
    LeaseElsewhere,
    /// A session: freed when it ends.
    Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    holder: Holder,
    epoch: Epoch,
    expires: u64,
    released: bool,
    /// Whoever acted in it was seen to be gone.
    gone: bool,
    /// No gate of an earlier term is open from here on; a release does not bring it forward.
    quiet_at: u64,
    /// The session that holds the lock; a lease row has none.
    session: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    kind: LockKind,
    lease: u64,
    takeover: Takeover,
    raise_unconditionally: bool,
    forget_earlier_terms: bool,
    row: Option<Row>,
    fence: Option<(Epoch, Holder)>,
    pub open: Vec<Transaction>,
    /// The latest work that has begun: whatever commits behind it is stale.
    begun: Work,
    pub stale_write_accepted: bool,
    pub epoch_went_back: bool,
}

impl Database {
    pub fn new(
        kind: LockKind,
        lease: u64,
        takeover: Takeover,
        raise_unconditionally: bool,
        forget_earlier_terms: bool,
    ) -> Self {
        Self {
            kind,
            lease,
            takeover,
            raise_unconditionally,
            forget_earlier_terms,
            row: None,
            fence: None,
            open: Vec::new(),
            begun: Work { epoch: Epoch::ZERO, child: 0 },
            stale_write_accepted: false,
            epoch_went_back: false,
        }
    }

    /// The term that the lock would prove now.
    pub fn current(&self, now: u64) -> Option<(Holder, Epoch)> {
        self.row.filter(|row| self.is_held(row, now)).map(|row| (row.holder, row.epoch))
    }

    fn is_held(&self, row: &Row, now: u64) -> bool {
        match self.kind {
            LockKind::Lease | LockKind::LeaseElsewhere => row.expires > now,
            LockKind::Session => row.session,
        }
    }

    /// A raise waits for the transactions that hold the fence row shared.
    pub fn can_apply(&self, request: &Request) -> bool {
        !matches!(request.what, Wish::Raise { .. }) || self.open.is_empty()
    }

    pub fn apply(&mut self, now: u64, request: Request) -> Event {
        let Request { from, command, sent_at, what } = request;
        match what {
            Wish::Acquire { floor } => self.acquire(now, from, command, sent_at, floor),
            Wish::Renew { epoch } => self.renew(now, from, command, sent_at, epoch),
            Wish::Release { epoch } => self.release(now, from, command, epoch),
            Wish::Observe => self.observe(now, from, command),
            Wish::Raise { epoch } => self.raise(from, epoch),
        }
    }

    fn acquire(
        &mut self,
        now: u64,
        from: Holder,
        command: CommandId,
        sent_at: BootInstant,
        floor: Epoch,
    ) -> Event {
        if let Some(row) = self.row.filter(|row| self.is_held(row, now)) {
            let left = match self.kind {
                LockKind::Session => None,
                _ => Some(Duration::from_nanos(row.expires - now)),
            };
            return Event::Held { command, epoch: row.epoch, left, ours: row.holder == from };
        }
        let before = self.row.map_or(Epoch::ZERO, |row| row.epoch);
        let fence = self.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        let epoch = before.max(fence).max(floor).next();
        let quiet_at = self.quiet_at();
        self.row = Some(Row {
            holder: from,
            epoch,
            expires: now + self.lease,
            released: false,
            gone: false,
            quiet_at,
            session: true,
        });
        let settle = match self.takeover {
            Takeover::Wait => Duration::from_nanos(quiet_at.saturating_sub(now)),
            Takeover::Immediate => Duration::ZERO,
        };
        Event::Granted { command, sent_at, epoch, settle }
    }

    /// When the gates of all terms so far are shut: a holder that released or is gone has shut its own, but
    /// those before it may have had to be sat out.
    fn quiet_at(&self) -> u64 {
        match self.row {
            Some(row) if row.gone && self.forget_earlier_terms => 0,
            Some(row) if row.released || row.gone => row.quiet_at,
            Some(row) => row.quiet_at.max(row.expires),
            None => 0,
        }
    }

    fn renew(
        &mut self,
        now: u64,
        from: Holder,
        command: CommandId,
        sent_at: BootInstant,
        epoch: Epoch,
    ) -> Event {
        match self.current(now) {
            Some(current) if current == (from, epoch) => {
                let expires = now + self.lease;
                self.row.iter_mut().for_each(|row| row.expires = expires);
                Event::Renewed { command, sent_at }
            }
            _ => Event::Lost { command },
        }
    }

    fn release(&mut self, now: u64, from: Holder, command: CommandId, epoch: Epoch) -> Event {
        if let Some(row) = &mut self.row
            && (row.holder, row.epoch) == (from, epoch)
        {
            row.expires = row.expires.min(now);
            row.released = true;
            row.session = false;
        }
        Event::Released { command }
    }

    fn observe(&self, now: u64, from: Holder, command: CommandId) -> Event {
        let epoch = self.row.map_or(Epoch::ZERO, |row| row.epoch);
        let current = self.current(now);
        let ours = current.is_some_and(|(holder, _)| holder == from);
        Event::Observed { command, epoch, free: current.is_none(), ours }
    }

    fn raise(&mut self, from: Holder, epoch: Epoch) -> Event {
        let fence = self.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        if fence < epoch || self.raise_unconditionally {
            self.epoch_went_back |= epoch < fence;
            self.fence = Some((epoch, from));
            self.begins(Work { epoch, child: 0 });
            return Event::FenceRaised { epoch };
        }
        if self.fence == Some((epoch, from)) {
            return Event::FenceRaised { epoch };
        }
        Event::FenceRefused { epoch, fence }
    }

    pub fn begins(&mut self, work: Work) {
        self.begun = self.begun.max(work);
    }

    /// The fence of a write: the lock's row first, then the fence row, locked until the commit.
    pub fn begin(&mut self, now: u64, holder: Holder, work: Work) -> Result<(), Event> {
        let fence = self.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        let unexpired = self.kind == LockKind::LeaseElsewhere
            || self.row.is_some_and(|row| row.expires > now && row.epoch == work.epoch);
        if unexpired && self.fence == Some((work.epoch, holder)) {
            self.open.push(Transaction { holder, work });
            self.open.sort();
            return Ok(());
        }
        Err(Event::FenceRefused { epoch: work.epoch, fence })
    }

    pub fn commit(&mut self, transaction: Transaction) {
        if let Some(at) = self.open.iter().position(|open| *open == transaction) {
            self.open.remove(at);
            self.stale_write_accepted |= transaction.work < self.begun;
        }
    }

    /// The holder's session is gone, and nobody is told.
    pub fn end_session(&mut self) {
        self.row.iter_mut().for_each(|row| row.session = false);
    }

    /// The holder's process is gone, and with it its session; a successor on its host can see that.
    pub fn crash(&mut self, holder: Holder) {
        if let Some(row) = self.row.as_mut().filter(|row| row.holder == holder) {
            row.session = false;
            row.gone = self.kind == LockKind::Session;
        }
    }

    /// Whether the server may end the session for having been silent.
    pub fn session_is_silent(&self, now: u64) -> bool {
        self.row.is_some_and(|row| row.session && row.expires < now)
    }

    pub fn has_session(&self) -> bool {
        self.kind == LockKind::Session && self.row.is_some_and(|row| row.session)
    }
}
