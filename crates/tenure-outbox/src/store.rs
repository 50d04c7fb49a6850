//! The Rust side of the SQL functions: one method per function, and a value per answer.

mod texts;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tenure_database::{
    BootInstant, DatabaseError, Deadline,
    postgres::{Pool, PostgresUrl},
};
use tokio_postgres::{
    Row,
    error::SqlState,
    types::{Json, ToSql},
};
use uuid::Uuid;

use crate::{
    claim::Claim,
    instruction::{Enqueued, Instruction},
    rail::{Outcome, State},
};

const ENQUEUE: &str = include_str!("../sql/postgres/call/enqueue.sql");
const CLAIM: &str = include_str!("../sql/postgres/call/claim.sql");
const COMPLETE: &str = include_str!("../sql/postgres/call/complete.sql");
const EXTEND: &str = include_str!("../sql/postgres/call/extend.sql");
const RELEASE: &str = include_str!("../sql/postgres/call/release.sql");
const REPAIR: &str = include_str!("../sql/postgres/call/repair.sql");
const NEXT_DUE: &str = include_str!("../sql/postgres/call/next_due.sql");
const STATUS: &str = include_str!("../sql/postgres/call/status.sql");

/// A server that says nothing for so long, not even that it is there, is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Recording, extending, and a few dispatches that extend by themselves.
const SESSIONS: usize = 5;
/// Claiming and repairing.
const LOOKS: usize = 2;
/// Where vacuum could not clean up for hours, a look over everything takes seconds.
const LOOK_WITHIN: Duration = Duration::from_secs(120);
/// The index that keeps an instruction from ending twice.
const TERMINAL_GUARD: &str = "payment_outbox_attempts_one_terminal_per_outbox";

/// An outcome that is to be recorded.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Under which claim it came about.
    pub claim: Arc<Claim>,
    /// What came of it.
    pub outcome: Outcome,
    /// How long the rail took.
    pub latency: Duration,
    /// When to try again, where it may be tried again.
    pub retry_after: Duration,
}

/// What came of recording one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Recorded {
    /// It is on record, as this: at the ceiling a RETRYABLE one as FAILED.
    Done(State),
    /// It was on record before, as this: an answer was lost.
    Repeat(State),
    /// The lease was over: somebody else has the row, or had it.
    LeaseLost,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// We do not know what came of it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The database answered with something that this binary does not know.
    #[error("the database answered {0:?}: it has another version of the outbox")]
    Unknown(String),
}

impl StoreError {
    /// Whether the terminal guard refused a second end of an instruction.
    #[must_use]
    pub fn is_terminal_guard(&self) -> bool {
        self.violated().is_some_and(|constraint| constraint == TERMINAL_GUARD)
    }

    /// Whether a uniqueness that must hold was about to be broken, other than by the terminal guard.
    #[must_use]
    pub fn is_integrity_failure(&self) -> bool {
        self.is_unique_violation() && !self.is_terminal_guard()
    }

    /// Whether the data were refused, so that trying again helps nobody.
    #[must_use]
    pub fn is_about_data(&self) -> bool {
        let state = self.sqlstate().map_or("", SqlState::code);
        ["22", "23", "54"].iter().any(|class| state.starts_with(class))
    }

    /// Whether it took too long: less at once may do.
    #[must_use]
    pub fn is_about_time(&self) -> bool {
        matches!(self, Self::Database(DatabaseError::TimedOut { .. }))
            || self.sqlstate() == Some(&SqlState::QUERY_CANCELED)
    }

    fn is_unique_violation(&self) -> bool {
        self.sqlstate() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    fn sqlstate(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.sqlstate(),
            Self::Unknown(_) => None,
        }
    }

    fn violated(&self) -> Option<&str> {
        match self {
            Self::Database(DatabaseError::Postgres(error)) => error.as_db_error()?.constraint(),
            _ => None,
        }
    }
}

/// The outbox of one database.
#[derive(Clone, Debug)]
pub struct Store {
    pool: Pool,
    patience: Duration,
    /// For looks over everything, which take as long as there is to look over.
    looks: Pool,
}

impl Store {
    /// A store whose calls answer within `patience`, but for claims and repairs.
    #[must_use]
    pub fn new(url: &PostgresUrl, patience: Duration) -> Self {
        let url = url.noticing_silence(SILENCE);
        let pool = |sessions, patience: Duration| {
            // The server gives up before the client does, and not behind its back.
            let limit = (patience * 4 / 5).as_millis();
            let settings = format!(
                "SET synchronous_commit = on; SET statement_timeout = {limit}; \
                 SET idle_in_transaction_session_timeout = {limit}; SET jit = off; \
                 SET default_transaction_isolation = 'read committed'"
            );
            Pool::to(url.clone(), sessions, &settings)
        };
        Self { pool: pool(SESSIONS, patience), patience, looks: pool(LOOKS, LOOK_WITHIN) }
    }

    /// Enqueues all of them in one transaction, and answers for each.
    pub async fn enqueue(&self, instructions: &[Instruction]) -> Result<Vec<Enqueued>, StoreError> {
        let texts = |of: fn(&Instruction) -> &str| instructions.iter().map(of).collect::<Vec<_>>();
        let payloads: Vec<_> = instructions.iter().map(|i| Json(&i.payload)).collect();
        let rows = self
            .query(
                ENQUEUE,
                &[
                    &texts(|i| &i.instruction_id),
                    &texts(|i| &i.participant_id),
                    &texts(|i| &i.idempotency_key),
                    &texts(|i| &i.rail_type),
                    &payloads,
                ],
            )
            .await?;
        rows.iter().map(enqueued).collect()
    }

    /// Leases up to so many due rows to this worker; the lease counts from before the call.
    pub async fn claim(
        &self,
        most: usize,
        worker: &str,
        lease: &Lease,
    ) -> Result<Vec<Arc<Claim>>, StoreError> {
        let sent = BootInstant::now();
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let rows = self.look(CLAIM, &[&most, &worker, &lease.seconds()]).await?;
        let until = lease.local_end(sent);
        Ok(rows.into_iter().map(|row| Arc::new(claimed(&row, until))).collect())
    }

    /// Records outcomes, and answers for each.
    pub async fn complete(
        &self,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<Recorded>, StoreError> {
        let each = completions.iter();
        let ids: Vec<_> = each.clone().map(|c| c.claim.outbox_id).collect();
        let tokens: Vec<_> = each.clone().map(|c| c.claim.lease_token).collect();
        let states: Vec<_> = each.clone().map(|c| c.outcome.state.as_str()).collect();
        let references: Vec<_> = each.clone().map(|c| texts::reference(&c.outcome)).collect();
        let codes: Vec<_> = each.clone().map(|c| texts::rail_code(&c.outcome)).collect();
        let errors: Vec<_> = each.clone().map(|c| texts::error_code(&c.outcome)).collect();
        let messages: Vec<_> = each.clone().map(|c| texts::error_message(&c.outcome)).collect();
        let latencies: Vec<_> = each.clone().map(|c| millis(c.latency)).collect();
        let delays: Vec<_> = each.map(|c| whole_seconds(c.retry_after)).collect();
        let rows = self
            .query(
                COMPLETE,
                &[
                    &worker,
                    &ids,
                    &tokens,
                    &states,
                    &references,
                    &codes,
                    &errors,
                    &messages,
                    &latencies,
                    &delays,
                ],
            )
            .await?;
        rows.iter().map(recorded).collect()
    }

    /// Makes these claims last for a whole lease again, and returns those that are lost.
    pub async fn extend(
        &self,
        worker: &str,
        claims: &[Arc<Claim>],
        lease: &Lease,
    ) -> Result<Vec<Arc<Claim>>, StoreError> {
        let sent = BootInstant::now();
        let (ids, tokens) = keys(claims);
        let rows = self.query(EXTEND, &[&worker, &ids, &tokens, &lease.seconds()]).await?;
        let until = lease.local_end(sent);
        let (kept, lost): (Vec<_>, Vec<_>) =
            claims.iter().zip(&rows).partition(|(_, row)| row.get::<_, &str>("result") == "done");
        for (claim, _) in kept {
            claim.lasts_until(until);
        }
        Ok(lost.into_iter().map(|(claim, _)| Arc::clone(claim)).collect())
    }

    /// Gives back claims under which nothing was begun; returns how many of them were still this worker's.
    pub async fn release(&self, worker: &str, claims: &[Arc<Claim>]) -> Result<usize, StoreError> {
        let (ids, tokens) = keys(claims);
        let rows = self.query(RELEASE, &[&worker, &ids, &tokens]).await?;
        Ok(rows.iter().filter(|row| row.get::<_, &str>("result") == "done").count())
    }

    /// Takes back up to so many expired leases; returns how many there were.
    pub async fn repair(&self, most: usize, worker: &str) -> Result<usize, StoreError> {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        Ok(self.look(REPAIR, &[&most, &worker]).await?.len())
    }

    /// How long until something becomes claimable that is not so yet.
    pub async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let rows = self.query(NEXT_DUE, &[]).await?;
        let wait: Option<i64> = rows.first().and_then(|row| row.get("wait_ms"));
        Ok(wait.map(|wait| Duration::from_millis(wait.unsigned_abs())))
    }

    /// The view's one row, as JSON.
    pub async fn status(&self) -> Result<String, StoreError> {
        let rows = self.query(STATUS, &[]).await?;
        Ok(rows.first().map(|row| row.get("status")).unwrap_or_default())
    }

    async fn query(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.run(&self.pool, self.patience, sql, parameters).await
    }

    async fn look(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.run(&self.looks, LOOK_WITHIN, sql, parameters).await
    }

    async fn run(
        &self,
        pool: &Pool,
        within: Duration,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let mut session = pool.take(Deadline::after(self.patience)).await?;
        let deadline = Deadline::after(within);
        let statement = deadline.run(session.prepared(sql)).await?;
        let rows = deadline.run(session.query(&statement, parameters)).await?;
        session.put_back();
        Ok(rows)
    }
}

/// How long a claim lasts: whole seconds for the database, and somewhat less for this process.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    seconds: i32,
}

impl Lease {
    /// At least a second, in whole seconds.
    #[must_use]
    pub fn of(seconds: u16) -> Self {
        Self { seconds: i32::from(seconds.max(1)) }
    }

    /// As the database counts it.
    #[must_use]
    pub fn seconds(&self) -> i32 {
        self.seconds
    }

    /// For how long this process relies on it: without the last fifth.
    #[must_use]
    pub fn relied_on(&self) -> Duration {
        let whole = Duration::from_secs(u64::from(self.seconds.unsigned_abs()));
        whole - whole / 5
    }

    fn local_end(&self, sent: BootInstant) -> BootInstant {
        sent + self.relied_on()
    }
}

fn keys(claims: &[Arc<Claim>]) -> (Vec<Uuid>, Vec<Uuid>) {
    claims.iter().map(|claim| (claim.outbox_id, claim.lease_token)).unzip()
}

fn enqueued(row: &Row) -> Result<Enqueued, StoreError> {
    match row.get("result") {
        "done" => Ok(Enqueued::Done {
            outbox_id: row.get("outbox_id"),
            sequence_id: row.get("sequence_id"),
        }),
        "repeat" => Ok(match row.get::<_, Option<String>>("differs") {
            Some(differs) => Enqueued::Conflict { outbox_id: row.get("outbox_id"), differs },
            None => Enqueued::Repeat {
                outbox_id: row.get("outbox_id"),
                sequence_id: row.get("sequence_id"),
                state: row.get("state"),
            },
        }),
        "invalid" => Ok(Enqueued::Invalid),
        other => Err(StoreError::Unknown(str::to_owned(other))),
    }
}

fn claimed(row: &Row, until: BootInstant) -> Claim {
    let Json(payload) = row.get("payload");
    Claim {
        outbox_id: row.get("outbox_id"),
        instruction_id: row.get("instruction_id"),
        participant_id: row.get("participant_id"),
        sequence_id: row.get("sequence_id"),
        idempotency_key: row.get("idempotency_key"),
        rail_type: row.get("rail_type"),
        payload,
        attempt_count: row.get("attempt_count"),
        lease_token: row.get("lease_token"),
        until: Arc::new(AtomicU64::new(until.as_nanos())),
    }
}

fn recorded(row: &Row) -> Result<Recorded, StoreError> {
    let state = || {
        let state: &str = row.get("state");
        State::named(state).ok_or_else(|| StoreError::Unknown(state.to_owned()))
    };
    match row.get("result") {
        "done" => Ok(Recorded::Done(state()?)),
        "repeat" => Ok(Recorded::Repeat(state()?)),
        "lease_lost" => Ok(Recorded::LeaseLost),
        other => Err(StoreError::Unknown(str::to_owned(other))),
    }
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// Rounded up: never earlier than asked for.
fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX)
}
