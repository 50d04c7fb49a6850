//! The database of the model: one lock, one fence, the transactions that are open, a clock that can be set, and a
//! standby that may lack the last commit.

use std::time::Duration;

use tenure::{
    Epoch, Takeover,
    elector::{CommandId, Event, Renewal, Shown},
};
use tenure_database::BootInstant;

use crate::world::Fault;

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
    Acquire { floor: Epoch, overdue: Option<Renewal> },
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
    /// A session: freed when it ends. Whoever asks for it waits inside the server.
    Session,
}

/// What a lock of the model is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    pub kind: LockKind,
    pub lease: i64,
    pub takeover: Takeover,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    holder: Holder,
    epoch: Epoch,
    renewed: i64,
    expires: i64,
    released: bool,
    /// Whoever acted in it was seen to be gone.
    gone: bool,
    /// No gate of an earlier term is open from here on; a release does not bring it forward.
    quiet_at: i64,
    /// The same for terms that another server granted.
    unknown_until: i64,
    server: u8,
    /// The session that holds the lock; a lease row has none.
    session: bool,
    /// When the session was last heard, by a clock that nobody sets.
    heard: i64,
}

/// What is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Committed {
    row: Option<Row>,
    fence: Option<(Epoch, Holder)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    rules: Rules,
    /// How far its clock has been set ahead, or back.
    ahead: i64,
    /// Which server it is: another one after every failover.
    pub server: u8,
    now: Committed,
    /// What the standby has when it lacks the last commit.
    before: Committed,
    pub open: Vec<Transaction>,
    /// The latest work that has begun: whatever commits behind it is stale.
    begun: Work,
    pub stale_write_accepted: bool,
    pub epoch_went_back: bool,
    fault: Option<Fault>,
}

impl Database {
    pub fn new(rules: Rules, fault: Option<Fault>) -> Self {
        Self {
            rules,
            ahead: 0,
            server: 1,
            now: Committed::default(),
            before: Committed::default(),
            open: Vec::new(),
            begun: Work { epoch: Epoch::ZERO, child: 0 },
            stale_write_accepted: false,
            epoch_went_back: false,
            fault,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// What its clock says at this moment.
    pub fn clock(&self, time: i64) -> i64 {
        time + self.ahead
    }

    pub fn set_clock(&mut self, by: i64) {
        self.ahead += by;
    }

    /// The term that the lock would prove now.
    pub fn current(&self, time: i64) -> Option<(Holder, Epoch)> {
        let now = self.clock(time);
        self.now.row.filter(|row| self.is_held(row, now)).map(|row| (row.holder, row.epoch))
    }

    fn is_held(&self, row: &Row, now: i64) -> bool {
        match self.rules.kind {
            LockKind::Lease | LockKind::LeaseElsewhere => row.expires > now,
            LockKind::Session => row.session,
        }
    }

    /// A raise waits for the transactions that hold the fence row shared.
    pub fn can_apply(&self, request: &Request) -> bool {
        !matches!(request.what, Wish::Raise { .. }) || self.open.is_empty()
    }

    pub fn apply(&mut self, time: i64, request: Request) -> Event {
        let Request { from, command, sent_at, what } = request;
        let before = self.now;
        let event = match what {
            Wish::Acquire { floor, overdue } => {
                self.acquire(time, from, command, sent_at, floor, overdue)
            }
            Wish::Renew { epoch } => self.renew(time, from, command, sent_at, epoch),
            Wish::Release { epoch } => self.release(time, from, command, epoch),
            Wish::Observe => self.observe(time, from, command),
            Wish::Raise { epoch } => self.raise(from, epoch),
        };
        if self.now != before {
            self.before = before;
        }
        event
    }

    fn acquire(
        &mut self,
        time: i64,
        from: Holder,
        command: CommandId,
        sent_at: BootInstant,
        floor: Epoch,
        overdue: Option<Renewal>,
    ) -> Event {
        let now = self.clock(time);
        if let Some(row) = self.now.row.filter(|row| self.is_held(row, now))
            && (overdue.is_none() || overdue != self.shown(&row).map(|shown| shown.renewal))
        {
            let left = match self.rules.kind {
                LockKind::Session => None,
                _ => Some(units(row.expires - now)),
            };
            let (epoch, shown) = (row.epoch, self.shown(&row));
            return Event::Held { command, epoch, left, shown, ours: row.holder == from };
        }
        let before = self.now.row.map_or(Epoch::ZERO, |row| row.epoch);
        let fence = self.now.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        let epoch = before.max(fence).max(floor).next();
        let (quiet_at, unknown_until) = (self.quiet_at(now), self.unknown_until(now));
        self.now.row = Some(Row {
            holder: from,
            epoch,
            renewed: now,
            expires: now + self.rules.lease,
            released: false,
            gone: false,
            quiet_at,
            unknown_until,
            server: self.server,
            session: true,
            heard: time,
        });
        let quiet_at = match (self.rules.kind, self.rules.takeover) {
            (LockKind::Session, Takeover::Wait) => quiet_at,
            _ => now,
        };
        Event::Granted { command, sent_at, epoch, settle: units(quiet_at.max(unknown_until) - now) }
    }

    /// Only a row whose expiry a clock decides shows its renewals.
    fn shown(&self, row: &Row) -> Option<Shown> {
        let believed = self.has(Fault::ExpiryBelievedHoweverFar);
        (self.rules.kind != LockKind::Session && !believed).then(|| Shown {
            renewal: Renewal { epoch: row.epoch, mark: row.renewed },
            lasts: units(row.expires - row.renewed),
        })
    }

    /// When the gates of all terms so far are shut: a holder that released or is gone has shut its own, but
    /// those before it may have had to be sat out. Never further off than a lease, however the clock was set.
    fn quiet_at(&self, now: i64) -> i64 {
        let quiet_at = match self.now.row {
            Some(row) if row.gone && self.has(Fault::EarlierTermsForgottenWithADeadHolder) => 0,
            Some(row) if row.released || row.gone => row.quiet_at,
            Some(row) => row.quiet_at.max(row.expires),
            None => 0,
        };
        match self.has(Fault::ExpiryBelievedHoweverFar) {
            true => quiet_at,
            false => quiet_at.min(now + self.rules.lease),
        }
    }

    /// Until when a term that another server granted may be acted in.
    fn unknown_until(&self, now: i64) -> i64 {
        let latest = now + self.rules.lease;
        match self.now.row {
            _ if self.has(Fault::AnotherServerTrusted) => 0,
            Some(row) if row.server != self.server => latest,
            // Whoever finds nothing on a server that was promoted knows nothing.
            None if self.server > 1 => latest,
            Some(row) => row.unknown_until.min(latest),
            None => 0,
        }
    }

    fn renew(
        &mut self,
        time: i64,
        from: Holder,
        command: CommandId,
        sent_at: BootInstant,
        epoch: Epoch,
    ) -> Event {
        if self.current(time) != Some((from, epoch)) {
            return Event::Lost { command };
        }
        let now = self.clock(time);
        let expires = now + self.rules.lease;
        let moves_back = self.has(Fault::RenewalMovesTheExpiryBack);
        let Some(row) = &mut self.now.row else { return Event::Lost { command } };
        let extends = expires >= row.expires || moves_back;
        row.heard = time;
        if extends {
            (row.renewed, row.expires) = (now, expires);
        }
        Event::Renewed { command, sent_at, extends }
    }

    fn release(&mut self, time: i64, from: Holder, command: CommandId, epoch: Epoch) -> Event {
        let now = self.clock(time);
        if let Some(row) = &mut self.now.row
            && (row.holder, row.epoch) == (from, epoch)
        {
            row.expires = row.expires.min(now);
            row.released = true;
            row.session = false;
        }
        Event::Released { command }
    }

    fn observe(&self, time: i64, from: Holder, command: CommandId) -> Event {
        let epoch = self.now.row.map_or(Epoch::ZERO, |row| row.epoch);
        let current = self.current(time);
        let ours = current.is_some_and(|(holder, _)| holder == from);
        Event::Observed { command, epoch, free: current.is_none(), ours }
    }

    fn raise(&mut self, from: Holder, epoch: Epoch) -> Event {
        let fence = self.now.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        if fence < epoch || self.has(Fault::UnconditionalRaise) {
            self.epoch_went_back |= epoch < fence;
            self.now.fence = Some((epoch, from));
            self.begins(Work { epoch, child: 0 });
            return Event::FenceRaised { epoch };
        }
        if self.now.fence == Some((epoch, from)) {
            return Event::FenceRaised { epoch };
        }
        Event::FenceRefused { epoch, fence }
    }

    /// Work that the fence does not name is not in this history: its raise was lost, and its writes are refused.
    pub fn begins(&mut self, work: Work) {
        if self.now.fence.is_some_and(|(epoch, _)| epoch >= work.epoch) {
            self.begun = self.begun.max(work);
        }
    }

    /// The fence of a write: the lock's row first, then the fence row, locked until the commit.
    pub fn begin(&mut self, time: i64, holder: Holder, work: Work) -> Result<(), Event> {
        let now = self.clock(time);
        let fence = self.now.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        let unexpired = self.rules.kind == LockKind::LeaseElsewhere
            || self.now.row.is_some_and(|row| row.expires > now && row.epoch == work.epoch);
        if unexpired && self.now.fence == Some((work.epoch, holder)) {
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

    /// The standby takes over; with `lossy` it lacks the last commit. What was begun in a history that is lost is
    /// not in the one that goes on.
    pub fn fail_over(&mut self, lossy: bool) {
        if lossy {
            self.now = self.before;
        }
        self.end_session();
        self.before = self.now;
        self.server += 1;
        self.open.clear();
        let survived = self.now.fence.map_or(Epoch::ZERO, |(epoch, _)| epoch);
        if self.begun.epoch > survived {
            self.begun = Work { epoch: survived, child: 0 };
        }
    }

    /// The holder's session is gone, and nobody is told.
    pub fn end_session(&mut self) {
        self.now.row.iter_mut().for_each(|row| row.session = false);
    }

    /// The holder's process is gone, and with it its session; a successor on its host can see that.
    pub fn crash(&mut self, holder: Holder) {
        let kind = self.rules.kind;
        if let Some(row) = self.now.row.as_mut().filter(|row| row.holder == holder) {
            row.session = false;
            row.gone = kind == LockKind::Session;
        }
    }

    /// Whether the server may end the session for having been silent.
    pub fn session_is_silent(&self, time: i64) -> bool {
        let lease = self.rules.lease;
        self.now.row.is_some_and(|row| row.session && row.heard + lease < time)
    }

    pub fn has_session(&self) -> bool {
        self.rules.kind == LockKind::Session && self.now.row.is_some_and(|row| row.session)
    }

    /// The term whose session is gone, as its holder would be told.
    pub fn ended_session_of(&self, holder: Holder) -> Option<Epoch> {
        let row =
            self.now.row.filter(|row| row.holder == holder && !row.session && !row.released)?;
        (self.rules.kind == LockKind::Session).then_some(row.epoch)
    }
}

/// A unit of the model's clocks is a millisecond.
pub fn units(units: i64) -> Duration {
    Duration::from_millis(units.try_into().unwrap_or(0))
}
