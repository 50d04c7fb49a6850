//! A lease row in SQL Server: a holder, an epoch and an expiry by the database's clock.
//!
//! Every write is one batch with a transaction of its own, on a connection of its own, which is dropped on any error
//! or timeout. A follower looks at the row without keeping it locked, and asks for it only when it has expired.
//! SQL Server tells nobody of a release: whoever waits looks once a second.
//!
//! What holds lock by lock, with and without `READ_COMMITTED_SNAPSHOT`, is argued in `docs/sqlserver.md`.

use std::time::Duration;

use async_trait::async_trait;
use tenure_database::{
    BootInstant, DatabaseError, Deadline,
    sqlserver::{Batch, Line, Meaning, Row, Session, SqlServer, SqlServerUrl, ToSql},
    sqlserver_batch,
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Acquire, Candidate, ClockReading, Grant, Holding, Lock, LockError, LockPlace, News, Observed,
    Reading, Renew, Renewal, Shown,
    postgres_lease::{MAX_HOLDER_CHARS, MAX_SCOPE_CHARS},
};
use crate::{
    term::{Epoch, fits},
    timing::Timing,
};

/// All statements of the lock; `{table}` and `{server}` stand for what this module puts there.
pub const BATCHES: [Batch; 4] = [OBSERVE, ACQUIRE, RENEW, RELEASE];
const OBSERVE: Batch = sqlserver_batch!("lease/observe", 2);
const ACQUIRE: Batch = sqlserver_batch!("lease/acquire", 7);
const RENEW: Batch = sqlserver_batch!("lease/renew", 4);
const RELEASE: Batch = sqlserver_batch!("lease/release", 3);
const SERVER: &str = include_str!("../../sql/sqlserver/fragment/server_identity.sql");

/// The text of a batch, with which server answers in the place of `{server}`.
#[must_use]
pub fn identified(batch: &Batch) -> String {
    batch.sql.replace("{server}", SERVER.trim())
}

/// How long a login may take.
const LOGIN: Duration = Duration::from_secs(5);
/// How often whoever waits looks whether the lease was given back.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A table of leases in the schema `dbo`, by name: the default one, or any that `tenure_create_lease_table` has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTable(String);

impl LeaseTable {
    /// A table with a plain name in lower case.
    pub fn named(name: &str) -> Result<Self, LockError> {
        let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        match is_plain {
            true => Ok(Self(name.to_owned())),
            false => Err(LockError::Refused(format!(
                "lease table {name:?} must be a plain lower-case name"
            ))),
        }
    }

    fn statement(&self, batch: &Batch) -> String {
        identified(batch).replace("{table}", &format!("dbo.{}", self.0))
    }
}

impl Default for LeaseTable {
    fn default() -> Self {
        Self("tenure_leases".to_owned())
    }
}

/// The lock.
#[derive(Debug)]
pub struct SqlServerLease {
    candidate: Candidate,
    timing: Timing,
    place: LeaseTable,
    statements: Statements,
    line: Line,
    watcher: Option<AbortOnDropHandle<()>>,
}

#[derive(Clone, Debug)]
struct Statements {
    observe: String,
    acquire: String,
    renew: String,
    release: String,
}

impl SqlServerLease {
    /// A candidate for a row of the table.
    pub fn new(
        url: SqlServerUrl,
        table: LeaseTable,
        candidate: Candidate,
        timing: Timing,
    ) -> Result<Self, LockError> {
        fits_column("lease_name", candidate.scope.as_str(), MAX_SCOPE_CHARS)?;
        fits_column("holder_id", candidate.holder.as_str(), MAX_HOLDER_CHARS)?;
        let statements = Statements {
            observe: table.statement(&OBSERVE),
            acquire: table.statement(&ACQUIRE),
            renew: table.statement(&RENEW),
            release: table.statement(&RELEASE),
        };
        let line = Line::to(SqlServer::at(url, timing.statement_timeout()));
        Ok(Self { candidate, timing, place: table, statements, line, watcher: None })
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }

    /// For whoever holds nothing: a login, and a session's first statement, may take long, and cost nobody a term.
    fn patient_deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout().max(LOGIN))
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.timing.lease_duration().as_millis()).unwrap_or(i64::MAX)
    }

    /// One call on the lock's own connection, which only success gives back.
    async fn call(
        &mut self,
        deadline: Deadline,
        statement: fn(&Statements) -> &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Row>, LockError> {
        let mut session = self.line.take(deadline).await?;
        let sql = statement(&self.statements);
        let rows = deadline.run(session.query_text(sql, parameters)).await.map_err(meant)?;
        self.line.put_back(session);
        Ok(rows)
    }

    async fn look(&mut self, deadline: Deadline) -> Result<Observed, LockError> {
        let asked = BootInstant::now();
        let candidate = self.candidate.clone();
        let parameters: [&dyn ToSql; 2] = [&candidate.scope.as_str(), &&*candidate.nonce];
        let rows = self.call(deadline, |all| &all.observe, &parameters).await?;
        seen(&rows, asked)
    }

    /// The conditional takeover of an existing row, or the first insert.
    async fn take(
        &mut self,
        deadline: Deadline,
        floor: Epoch,
        overdue: Renewal,
    ) -> Result<Acquire, LockError> {
        let Candidate { scope, holder, nonce } = self.candidate.clone();
        let (lease_ms, floor) = (self.lease_ms(), floor.get());
        let (overdue_epoch, mark) = (overdue.epoch.get(), overdue.mark);
        let parameters: [&dyn ToSql; 7] =
            [&scope.as_str(), &holder.as_str(), &lease_ms, &floor, &&*nonce, &overdue_epoch, &mark];
        let sent_at = BootInstant::now();
        match self.call(deadline, |all| &all.acquire, &parameters).await {
            Ok(rows) => answer(&rows, sent_at),
            // Another candidate inserted the row at the same time.
            Err(LockError::Database(error)) if error.meaning() == Some(Meaning::Duplicate) => {
                Ok(Acquire::Held(nobody_yet()))
            }
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Lock for SqlServerLease {
    fn place(&self) -> LockPlace {
        LockPlace { kind: "sqlserver-lease", name: self.place.0.clone() }
    }

    async fn acquire(&mut self, floor: Epoch) -> Result<Acquire, LockError> {
        // No term has the number zero.
        self.acquire_overdue(floor, Renewal { epoch: Epoch::ZERO, mark: 0 }).await
    }

    async fn acquire_overdue(
        &mut self,
        floor: Epoch,
        renewal: Renewal,
    ) -> Result<Acquire, LockError> {
        let is_overdue = |shown: Shown| shown.renewal == renewal;
        match self.look(self.patient_deadline()).await?.held {
            Some(held) if !held.shown.is_some_and(is_overdue) => Ok(Acquire::Held(held)),
            _ => {
                // What a term is trusted for counts from when this is sent.
                let deadline = Deadline::after(self.timing.lease_duration() / 3);
                self.take(deadline, floor, renewal).await
            }
        }
    }

    async fn renew(&mut self, epoch: Epoch) -> Result<Renew, LockError> {
        let candidate = self.candidate.clone();
        let (epoch, lease_ms) = (epoch.get(), self.lease_ms());
        let parameters: [&dyn ToSql; 4] =
            [&candidate.scope.as_str(), &candidate.holder.as_str(), &epoch, &lease_ms];
        let sent_at = BootInstant::now();
        let rows = self.call(self.deadline(), |all| &all.renew, &parameters).await?;
        Ok(match rows.first() {
            Some(row) => Renew::Renewed {
                sent_at,
                extends: row.need("extends")?,
                reading: reading(row, sent_at)?,
            },
            None => Renew::Lost,
        })
    }

    async fn release(&mut self, epoch: Epoch) -> Result<(), LockError> {
        let candidate = self.candidate.clone();
        let parameters: [&dyn ToSql; 3] =
            [&candidate.scope.as_str(), &candidate.holder.as_str(), &epoch.get()];
        self.call(self.deadline(), |all| &all.release, &parameters).await.map(drop)
    }

    async fn observe(&mut self) -> Result<Observed, LockError> {
        self.look(self.patient_deadline()).await
    }

    fn news(&mut self) -> mpsc::UnboundedReceiver<News> {
        let (tell, news) = mpsc::unbounded_channel();
        let watch = Watch {
            line: Line::to(self.line.server().clone()),
            candidate: self.candidate.clone(),
            timing: self.timing,
            observe: self.statements.observe.clone(),
        };
        self.watcher = Some(AbortOnDropHandle::new(tokio::spawn(watch.tell(tell))));
        news
    }
}

/// Looks again and again, on a connection of its own, and tells of what a waiting candidate should look at.
struct Watch {
    line: Line,
    candidate: Candidate,
    timing: Timing,
    observe: String,
}

impl Watch {
    async fn tell(mut self, tell: mpsc::UnboundedSender<News>) {
        let mut before = None;
        while !tell.is_closed() {
            // What cannot be seen now is seen at the next look, or by the candidate itself.
            if let Ok(seen) = self.look().await {
                let now = (seen.epoch, seen.held.is_some());
                if before.replace(now) != Some(now) {
                    // Nobody listening any more has nothing to lose.
                    let _ = tell.send(News::Changed);
                }
            }
            tokio::time::sleep(LOOK_EVERY.min(self.timing.acquire_interval())).await;
        }
    }

    async fn look(&mut self) -> Result<Observed, LockError> {
        let deadline = Deadline::after(self.timing.call_timeout().max(LOGIN));
        let mut session: Session = self.line.take(deadline).await?;
        let parameters: [&dyn ToSql; 2] = [&self.candidate.scope.as_str(), &&*self.candidate.nonce];
        let asked = BootInstant::now();
        let rows = deadline.run(session.query_text(&self.observe, &parameters)).await?;
        self.line.put_back(session);
        seen(&rows, asked)
    }
}

/// The columns are `varchar`: what is not ASCII would be changed, and a space at the end would not count.
fn fits_column(what: &'static str, name: &str, most: usize) -> Result<(), LockError> {
    let refused = |why: String| LockError::Refused(why);
    fits(what, name, most).map_err(|error| refused(error.to_string()))?;
    match name.is_ascii() && !name.ends_with(' ') {
        true => Ok(()),
        false => Err(refused(format!(
            "{what} {name:?} must be ASCII and not end with a space: SQL Server would take it for another"
        ))),
    }
}

fn meant(error: DatabaseError) -> LockError {
    match error.meaning() {
        Some(Meaning::ReadOnly) => LockError::Standby,
        _ => LockError::Database(error),
    }
}

fn seen(rows: &[Row], asked: BootInstant) -> Result<Observed, LockError> {
    let row = only(rows)?;
    if row.need("standby")? {
        return Err(LockError::Standby);
    }
    let reading = reading(row, asked)?;
    let held = holding(row, reading.clone())?;
    let epoch = held.as_ref().map_or(Epoch::ZERO, |held| held.epoch);
    Ok(Observed { held: held.filter(|held| held.left != Some(Duration::ZERO)), epoch, reading })
}

fn answer(rows: &[Row], sent_at: BootInstant) -> Result<Acquire, LockError> {
    let row = only(rows)?;
    let reading = reading(row, sent_at)?;
    if let Some(epoch) = row.get("won_epoch")? {
        // An expired lease has been sat out already, if this server granted it: that is what its length is for.
        let (epoch, settle) = (Epoch::new(epoch), micros(row.need("settle_us")?));
        return Ok(Acquire::Granted(Grant { epoch, sent_at, settle, reading, hold: None }));
    }
    Ok(Acquire::Held(holding(row, reading)?.unwrap_or_else(nobody_yet)))
}

/// Somebody has won at this moment, and nobody knows who: ask again at once.
fn nobody_yet() -> Holding {
    Holding {
        holder: String::new(),
        epoch: Epoch::ZERO,
        left: Some(Duration::ZERO),
        shown: None,
        heartbeat_age: None,
        ours: false,
        reading: Reading::default(),
    }
}

fn holding(row: &Row, reading: Reading) -> Result<Option<Holding>, DatabaseError> {
    let Some(holder) = row.get::<&str>("holder_id")? else { return Ok(None) };
    let epoch = Epoch::new(row.need("lease_epoch")?);
    let renewal = Renewal { epoch, mark: row.need("renewal")? };
    Ok(Some(Holding {
        holder: holder.to_owned(),
        epoch,
        shown: Some(Shown { renewal, lasts: micros(row.need("lasts_us")?) }),
        left: Some(micros(row.need("left_us")?)),
        heartbeat_age: Some(micros(row.need("age_us")?)),
        ours: row.need("ours")?,
        reading,
    }))
}

fn reading(row: &Row, asked: BootInstant) -> Result<Reading, DatabaseError> {
    let server = micros(row.need("now_us")?);
    let clock = ClockReading { server, asked, answered: BootInstant::now() };
    Ok(Reading {
        server: Some(row.need::<&str>("server")?.into()),
        clock: Some(clock),
        shown: None,
    })
}

fn only(rows: &[Row]) -> Result<&Row, DatabaseError> {
    rows.first().ok_or_else(|| DatabaseError::Answer { column: "row".to_owned() })
}

/// A duration that a statement returned; what has passed is zero.
fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_columns_would_change_is_refused() {
        assert!(fits_column("lease_name", "billing:eu", 64).is_ok());
        for name in ["jobs ", "größe", &"x".repeat(65)] {
            assert!(fits_column("lease_name", name, 64).is_err(), "{name:?}");
        }
        for name in ["Leases", "a.b", "1a", "a]b", ""] {
            assert!(LeaseTable::named(name).is_err(), "{name:?}");
        }
    }
}
