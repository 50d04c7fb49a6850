//! A lease row in a SQLite file beside the data: the embedded default, for the processes of one machine.
//!
//! Its time is the machine's boot clock, which no one can set: a lease of another boot has expired,
//! because all its holders are dead, and a file that comes from another host is refused.
//! A follower hears of every change by inotify on the file.

mod file;
mod machine;

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use tenure_database::{
    BootInstant, Deadline,
    clock::unix_time,
    sqlite::{self, FileThread},
};
use tokio::sync::mpsc;

pub use self::file::{Lease, LeaseFile};
use self::{file::FileId, machine::Machine};
use super::{
    Acquire, Candidate, Grant, Holding, Lock, LockError, LockPlace, News, Observed, Reading, Renew,
};
use crate::{term::Epoch, timing::Timing};

const OBSERVE: &str = include_str!("../../sql/sqlite/lease/observe.sql");
const TAKE: &str = include_str!("../../sql/sqlite/lease/take.sql");
const RENEW: &str = include_str!("../../sql/sqlite/lease/renew.sql");
const RELEASE: &str = include_str!("../../sql/sqlite/lease/release.sql");
const FENCE: &str = include_str!("../../sql/sqlite/fence/read.sql");

/// The lock.
#[derive(Debug)]
pub struct SqliteLease {
    candidate: Candidate,
    timing: Timing,
    machine: Machine,
    file: LeaseFile,
    leases: FileThread,
    /// The file that `leases` has open.
    opened: FileId,
    data: FileThread,
}

/// One row of the lease file, as a candidate sees it.
struct Row {
    holding: Holding,
    host: String,
    /// Of the row's writer, in this boot.
    clock: Option<String>,
}

impl SqliteLease {
    /// A candidate for a row of the lease file that belongs to the data file.
    pub fn new(data: &Path, candidate: Candidate, timing: Timing) -> Result<Self, LockError> {
        let busy = timing.statement_timeout();
        file::refuse_other_names(data)?;
        let file = LeaseFile::beside(data);
        let (leases, opened) = file.open_known(busy)?;
        let (leases, data) = (thread(leases)?, thread(sqlite::open(data, busy)?)?);
        let machine = Machine::this()?;
        Ok(Self { candidate, timing, machine, file, leases, opened, data })
    }

    /// Whether the file that is open is still the one that everybody finds.
    fn is_in_place(&self) -> bool {
        FileId::at(self.file.path()) == Some(self.opened)
    }

    /// Opens the file that everybody finds, if that is another one by now.
    fn find_file(&mut self) -> Result<(), LockError> {
        if !self.is_in_place() {
            let (leases, opened) = self.file.open_known(self.timing.statement_timeout())?;
            (self.leases, self.opened) = (thread(leases)?, opened);
        }
        Ok(())
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }

    /// Where the fence in the data file stands: a win must go above it.
    async fn fence(&self, deadline: Deadline) -> Result<Epoch, LockError> {
        let scope = self.candidate.scope.clone();
        let epoch = self
            .data
            .call(deadline, move |data| {
                data.query_row(FENCE, [scope.as_str()], |row| row.get("epoch")).optional()
            })
            .await?;
        Ok(epoch.map_or(Epoch::ZERO, Epoch::new))
    }

    async fn row(&self, deadline: Deadline) -> Result<Option<Row>, LockError> {
        let (candidate, machine) = (self.candidate.clone(), self.machine.clone());
        let row =
            self.leases.call(deadline, move |leases| read(leases, &candidate, &machine)).await?;
        match row {
            Some(row) if row.host != self.machine.host => Err(LockError::Refused(format!(
                "the lease file {} was written on the host {}, and this is {}: a SQLite lease is for \
                 the processes of one machine (if the files were moved here, delete the lease file)",
                self.file.path().display(),
                row.host,
                self.machine.host
            ))),
            Some(Row { clock: Some(clock), .. }) if clock != self.machine.clock => {
                Err(LockError::Refused(format!(
                    "the lease file {} is in use in the time namespace {clock}, and this is {}: they have \
                     different boot clocks, and a SQLite lease needs one (if nobody there runs any more, delete the \
                     lease file)",
                    self.file.path().display(),
                    self.machine.clock
                )))
            }
            row => Ok(row),
        }
    }

    async fn take(
        &self,
        deadline: Deadline,
        floor: Epoch,
        fence: Epoch,
    ) -> Result<Acquire, LockError> {
        let (candidate, machine) = (self.candidate.clone(), self.machine.clone());
        let file = self.opened.to_string();
        let lease_ms = millis(self.timing.lease_duration());
        let sent_at = BootInstant::now();
        let answer = self
            .leases
            .call(deadline, move |leases| {
                let transaction =
                    leases.transaction_with_behavior(TransactionBehavior::Immediate)?;
                if let Some(row) = read(&transaction, &candidate, &machine)?
                    && row.holding.left != Some(Duration::ZERO)
                {
                    return Ok(Acquire::Held(row.holding));
                }
                let Candidate { scope, holder, nonce } = &candidate;
                let Machine { boot_id, host, clock } = &machine;
                let parameters = (
                    scope.as_str(),
                    holder.as_str(),
                    lease_ms,
                    floor.get(),
                    &**nonce,
                    boot_id,
                    host,
                    file,
                    clock,
                    fence.get(),
                );
                let (epoch, settle_ms): (_, i64) =
                    transaction
                        .query_row(TAKE, parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
                transaction.commit()?;
                let epoch = Epoch::new(epoch);
                let settle = Duration::from_millis(settle_ms.unsigned_abs());
                Ok(Acquire::Granted(Grant {
                    epoch,
                    sent_at,
                    settle,
                    reading: reading(),
                    hold: None,
                }))
            })
            .await?;
        Ok(answer)
    }
}

fn thread(connection: Connection) -> Result<FileThread, LockError> {
    FileThread::start(connection)
        .map_err(|error| LockError::Refused(format!("cannot start a thread: {error}")))
}

fn read(
    leases: &Connection,
    candidate: &Candidate,
    machine: &Machine,
) -> Result<Option<Row>, rusqlite::Error> {
    let parameters = (candidate.scope.as_str(), &machine.boot_id, &*candidate.nonce);
    leases
        .query_row(OBSERVE, parameters, |row| {
            let holding = Holding {
                holder: row.get("holder_id")?,
                epoch: Epoch::new(row.get("lease_epoch")?),
                left: Some(Duration::from_millis(row.get::<_, i64>("left_ms")?.unsigned_abs())),
                // The boot clock cannot be set, so an expiry is never late.
                shown: None,
                heartbeat_age: Some(Duration::from_millis(
                    row.get::<_, i64>("age_ms")?.unsigned_abs(),
                )),
                ours: row.get("ours")?,
                reading: Reading::default(),
            };
            let clock: String = row.get("clock")?;
            let is_told = row.get("this_boot")? && !clock.is_empty();
            Ok(Row { holding, host: row.get("host")?, clock: is_told.then_some(clock) })
        })
        .optional()
}

/// The boot clock means nothing to people.
fn reading() -> Reading {
    Reading { shown: Some(unix_time()), ..Reading::default() }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Lock for SqliteLease {
    fn place(&self) -> LockPlace {
        LockPlace { kind: "sqlite-lease", name: String::new() }
    }

    async fn acquire(&mut self, floor: Epoch) -> Result<Acquire, LockError> {
        self.find_file()?;
        let deadline = self.deadline();
        if let Some(row) = self.row(deadline).await?
            && row.holding.left != Some(Duration::ZERO)
        {
            return Ok(Acquire::Held(row.holding));
        }
        let fence = self.fence(deadline).await?;
        self.take(deadline, floor, fence).await
    }

    async fn renew(&mut self, epoch: Epoch) -> Result<Renew, LockError> {
        // In a file that nobody finds any more, a renewal would always succeed.
        if !self.is_in_place() {
            return Ok(Renew::Lost);
        }
        let (candidate, boot_id) = (self.candidate.clone(), self.machine.boot_id.clone());
        let lease_ms = millis(self.timing.lease_duration());
        let sent_at = BootInstant::now();
        let renewed = self
            .leases
            .call(self.deadline(), move |leases| {
                let transaction =
                    leases.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let Candidate { scope, holder, .. } = &candidate;
                let parameters = (scope.as_str(), holder.as_str(), epoch.get(), lease_ms, boot_id);
                let renewed = transaction.execute(RENEW, parameters)?;
                transaction.commit()?;
                Ok(renewed == 1)
            })
            .await?;
        Ok(match renewed {
            true => Renew::Renewed { sent_at, extends: true, reading: reading() },
            false => Renew::Lost,
        })
    }

    async fn release(&mut self, epoch: Epoch) -> Result<(), LockError> {
        let candidate = self.candidate.clone();
        self.leases
            .call(self.deadline(), move |leases| {
                let Candidate { scope, holder, .. } = &candidate;
                leases.execute(RELEASE, (scope.as_str(), holder.as_str(), epoch.get()))
            })
            .await?;
        sqlite::announce(self.file.path());
        Ok(())
    }

    async fn observe(&mut self) -> Result<Observed, LockError> {
        self.find_file()?;
        let row = self.row(self.deadline()).await?;
        let epoch = row.as_ref().map_or(Epoch::ZERO, |row| row.holding.epoch);
        let held = row.map(|row| row.holding).filter(|held| held.left != Some(Duration::ZERO));
        Ok(Observed { held, epoch, reading: Reading::default() })
    }

    fn news(&mut self) -> mpsc::UnboundedReceiver<News> {
        let (tell, news) = mpsc::unbounded_channel();
        sqlite::watch(self.file.path().to_owned(), tell, || News::Changed);
        news
    }
}
