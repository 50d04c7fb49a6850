//! A lease row in Postgres: a holder, an epoch and an expiry by the database's clock.
//!
//! Every write runs in a transaction of its own that sets what it needs for itself, with unnamed
//! statements, so that it works through a transaction pooler too. A follower looks at the row without
//! locking it, once per lease, and asks for it only when it has expired. A release is heard of by
//! `LISTEN`, where no pooler swallows it, and is seen at the next look otherwise.

use std::time::Duration;

use async_trait::async_trait;
use tenure_database::{
    BootInstant, Deadline,
    postgres::{Line, PostgresUrl, Session},
};
use tokio::sync::mpsc;
use tokio_postgres::{Row, types::Type};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Acquire, Candidate, Grant, Holding, Lock, LockError, LockPlace, News, Observed, Reading, Renew,
    Renewal, Shown,
    postgres_news::{self, Pooler},
    postgres_reading,
};
use crate::{
    postgres_call::{Parameter, transact},
    term::{Epoch, fits},
    timing::Timing,
};

const OBSERVE: &str = include_str!("../../sql/postgres/lease/observe.sql");
const ACQUIRE: &str = include_str!("../../sql/postgres/lease/acquire.sql");
const INSERT: &str = include_str!("../../sql/postgres/lease/insert.sql");
const RENEW: &str = include_str!("../../sql/postgres/lease/renew.sql");
const RELEASE: &str = include_str!("../../sql/postgres/lease/release.sql");
const LISTEN: &str = include_str!("../../sql/postgres/lease/listen.sql");

/// The longest `lease_name`.
pub const MAX_SCOPE_CHARS: usize = 64;
/// The longest `holder_id`.
pub const MAX_HOLDER_CHARS: usize = 128;

/// A table of leases, by name: the default one, or any that `tenure_create_lease_table` has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTable(String);

impl LeaseTable {
    /// A table named in lower case, with or without its schema.
    pub fn named(name: &str) -> Result<Self, LockError> {
        let plain = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        if name.split('.').count() <= 2 && name.split('.').all(plain) {
            return Ok(Self(name.to_owned()));
        }
        Err(LockError::Refused(format!(
            "lease table {name:?} must be a plain lower-case name, with or without a schema"
        )))
    }

    /// A statement with this table in it, whatever the session's search path.
    pub(crate) fn statement(&self, sql: &str) -> String {
        let schema = if self.0.contains('.') { "" } else { "public." };
        sql.replace("{table}", &format!("{schema}{}", self.0))
    }
}

impl Default for LeaseTable {
    fn default() -> Self {
        Self("tenure_leases".to_owned())
    }
}

/// The lock.
#[derive(Debug)]
pub struct PostgresLease {
    candidate: Candidate,
    timing: Timing,
    place: LeaseTable,
    statements: Statements,
    line: Line,
    listener: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Statements {
    observe: String,
    acquire: String,
    insert: String,
    renew: String,
    release: String,
}

impl PostgresLease {
    /// A candidate for a row of the table.
    pub fn new(
        url: PostgresUrl,
        table: LeaseTable,
        candidate: Candidate,
        timing: Timing,
    ) -> Result<Self, LockError> {
        let refused = |error: crate::NameError| LockError::Refused(error.to_string());
        fits("lease_name", candidate.scope.as_str(), MAX_SCOPE_CHARS).map_err(refused)?;
        fits("holder_id", candidate.holder.as_str(), MAX_HOLDER_CHARS).map_err(refused)?;
        let statements = Statements {
            observe: table.statement(OBSERVE),
            acquire: table.statement(ACQUIRE),
            insert: table.statement(INSERT),
            renew: table.statement(RENEW),
            release: table.statement(RELEASE),
        };
        let line = Line::to(url);
        Ok(Self { candidate, timing, place: table, statements, line, listener: None })
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }

    fn lease_ms(&self) -> f64 {
        self.timing.lease_duration().as_secs_f64() * 1e3
    }

    async fn look(&self, session: &Session, deadline: Deadline) -> Result<Observed, LockError> {
        let asked = BootInstant::now();
        let (scope, nonce) = (self.candidate.scope.as_str(), &*self.candidate.nonce);
        let parameters: [Parameter<'_>; 2] = [(&scope, Type::TEXT), (&nonce, Type::TEXT)];
        let rows = deadline.run(session.query_typed(&self.statements.observe, &parameters)).await?;
        let row = &rows[0];
        if row.get("standby") {
            return Err(LockError::Standby);
        }
        let reading = postgres_reading(row, asked);
        let epoch = Epoch::new(row.get("lease_epoch"));
        let held = holding(row, epoch, reading.clone());
        Ok(Observed { held: held.filter(|held| held.left != Some(Duration::ZERO)), epoch, reading })
    }

    async fn transact(
        &self,
        session: &Session,
        deadline: Deadline,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, LockError> {
        let limit = self.timing.statement_timeout();
        Ok(deadline.run(transact(session, limit, statement, parameters)).await?)
    }

    /// The conditional takeover of an existing row, or the first insert.
    async fn take(
        &self,
        session: &Session,
        deadline: Deadline,
        floor: Epoch,
        overdue: Renewal,
    ) -> Result<Acquire, LockError> {
        let Candidate { scope, holder, nonce } = &self.candidate;
        let (scope, holder, nonce) = (scope.as_str(), holder.as_str(), &**nonce);
        let (lease_ms, floor) = (self.lease_ms(), floor.get());
        let overdue_epoch = overdue.epoch.get();
        let parameters: [Parameter<'_>; 7] = [
            (&scope, Type::TEXT),
            (&holder, Type::TEXT),
            (&lease_ms, Type::FLOAT8),
            (&floor, Type::INT8),
            (&nonce, Type::TEXT),
            (&overdue_epoch, Type::INT8),
            (&overdue.mark, Type::INT8),
        ];
        let Statements { acquire, insert, .. } = &self.statements;
        for (statement, parameters) in [(acquire, &parameters[..]), (insert, &parameters[..5])] {
            let sent_at = BootInstant::now();
            let rows = self.transact(session, deadline, statement, parameters).await?;
            if let Some(row) = rows.first() {
                return Ok(answer(row, sent_at));
            }
        }
        // Another candidate inserted the row between our two looks.
        Ok(Acquire::Held(Holding {
            holder: String::new(),
            epoch: Epoch::ZERO,
            left: Some(Duration::ZERO),
            shown: None,
            heartbeat_age: None,
            ours: false,
            reading: Reading::default(),
        }))
    }
}

#[async_trait]
impl Lock for PostgresLease {
    fn place(&self) -> LockPlace {
        LockPlace { kind: "postgres-lease", name: self.place.0.clone() }
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
        let deadline = self.deadline();
        let session = self.line.take(deadline).await?;
        let seen = self.look(&session, deadline).await?;
        let is_overdue = |shown: Shown| shown.renewal == renewal;
        let answer = match seen.held {
            Some(held) if !held.shown.is_some_and(is_overdue) => Acquire::Held(held),
            _ => self.take(&session, deadline, floor, renewal).await?,
        };
        self.line.put_back(session);
        Ok(answer)
    }

    async fn renew(&mut self, epoch: Epoch) -> Result<Renew, LockError> {
        let deadline = self.deadline();
        let session = self.line.take(deadline).await?;
        let (scope, holder) = (self.candidate.scope.as_str(), self.candidate.holder.as_str());
        let (epoch, lease_ms) = (epoch.get(), self.lease_ms());
        let parameters: [Parameter<'_>; 4] = [
            (&scope, Type::TEXT),
            (&holder, Type::TEXT),
            (&epoch, Type::INT8),
            (&lease_ms, Type::FLOAT8),
        ];
        let sent_at = BootInstant::now();
        let rows = self.transact(&session, deadline, &self.statements.renew, &parameters).await?;
        self.line.put_back(session);
        Ok(match rows.first() {
            Some(row) => Renew::Renewed {
                sent_at,
                extends: row.get("extends"),
                reading: postgres_reading(row, sent_at),
            },
            None => Renew::Lost,
        })
    }

    async fn release(&mut self, epoch: Epoch) -> Result<(), LockError> {
        let deadline = self.deadline();
        let session = self.line.take(deadline).await?;
        let (scope, holder) = (self.candidate.scope.as_str(), self.candidate.holder.as_str());
        let epoch = epoch.get();
        let parameters: [Parameter<'_>; 3] =
            [(&scope, Type::TEXT), (&holder, Type::TEXT), (&epoch, Type::INT8)];
        self.transact(&session, deadline, &self.statements.release, &parameters).await?;
        self.line.put_back(session);
        Ok(())
    }

    async fn observe(&mut self) -> Result<Observed, LockError> {
        let deadline = self.deadline();
        let session = self.line.take(deadline).await?;
        let seen = self.look(&session, deadline).await?;
        self.line.put_back(session);
        Ok(seen)
    }

    fn news(&mut self) -> mpsc::UnboundedReceiver<News> {
        let (tell, news) = mpsc::unbounded_channel();
        let scope = self.candidate.scope.clone();
        let listening = postgres_news::listen(
            self.line.server().clone(),
            LISTEN.to_owned(),
            self.timing,
            Pooler::Possible,
            tell,
            move |payload| payload == scope.as_str(),
        );
        self.listener = Some(AbortOnDropHandle::new(tokio::spawn(listening)));
        news
    }
}

fn answer(row: &Row, sent_at: BootInstant) -> Acquire {
    let reading = postgres_reading(row, sent_at);
    let won: Option<i64> = row.get("won_epoch");
    match won {
        // An expired lease has been sat out already, if this server granted it: that is what its length is for.
        Some(epoch) => Acquire::Granted(Grant {
            epoch: Epoch::new(epoch),
            sent_at,
            settle: millis(row.get("settle_ms")),
            reading,
            hold: None,
        }),
        None => {
            let epoch = Epoch::new(row.get("lease_epoch"));
            let held = holding(row, epoch, reading.clone());
            Acquire::Held(held.unwrap_or_else(|| unreachable!("a row that was not won is held")))
        }
    }
}

fn holding(row: &Row, epoch: Epoch, reading: Reading) -> Option<Holding> {
    let holder: Option<String> = row.get("holder_id");
    let renewal = Renewal { epoch, mark: row.get("renewal") };
    Some(Holding {
        holder: holder?,
        epoch,
        left: Some(millis(row.get("left_ms"))),
        shown: Some(Shown { renewal, lasts: millis(row.get("lasts_ms")) }),
        heartbeat_age: Some(millis(row.get("age_ms"))),
        ours: row.get("ours"),
        reading,
    })
}

/// A duration that a statement returned; what has passed is zero.
pub(super) fn millis(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default()
}
