//! The session that waits for and holds the lock: how it is set up, and what is refused.

use std::{ops::Deref, time::Duration};

use futures_util::try_join;
use tenure_database::{
    Deadline,
    postgres::{PostgresUrl, Session, is_transaction_pooler},
};
use tokio_postgres::{Statement, error::SqlState, types::Type};

use super::{PostgresAdvisory, WAIT};
use crate::{
    lock::{Hold, LockError},
    postgres_call::Parameter,
    timing::Timing,
};

const SESSION: &str = include_str!("../../../sql/postgres/advisory/session.sql");
const READ_BACK: &str = include_str!("../../../sql/postgres/advisory/read_back.sql");
const CREATE_SCOPE: &str = include_str!("../../../sql/postgres/advisory/create_scope.sql");
const TRY_LOCK: &str = include_str!("../../../sql/postgres/advisory/try_lock.sql");
const WAIT_FOR_LOCK: &str = include_str!("../../../sql/postgres/advisory/wait_for_lock.sql");
const LEAD: &str = include_str!("../../../sql/postgres/advisory/lead.sql");
const PREDECESSOR: &str = include_str!("../../../sql/postgres/advisory/predecessor.sql");
const BUMP_EPOCH: &str = include_str!("../../../sql/postgres/advisory/bump_epoch.sql");
const HEARTBEAT: &str = include_str!("../../../sql/postgres/advisory/heartbeat.sql");
const RELEASE: &str = include_str!("../../../sql/postgres/advisory/release.sql");

/// The session, and what it will be asked: prepared beforehand, because a winner is in a hurry and no
/// pooler is in between.
#[derive(Debug)]
pub(super) struct LockSession {
    session: Session,
    pub(super) hold: Hold,
    pub(super) try_lock: Statement,
    pub(super) wait_for_lock: Statement,
    pub(super) lead: Statement,
    pub(super) predecessor: Statement,
    pub(super) bump_epoch: Statement,
    pub(super) heartbeat: Statement,
    pub(super) release: Statement,
}

impl LockSession {
    async fn prepare(session: Session, hold: Hold) -> Result<Self, tokio_postgres::Error> {
        let (try_lock, wait_for_lock, lead, predecessor, bump_epoch, heartbeat, release) = try_join!(
            session.prepare(TRY_LOCK),
            session.prepare(WAIT_FOR_LOCK),
            session.prepare(LEAD),
            session.prepare(PREDECESSOR),
            session.prepare(BUMP_EPOCH),
            session.prepare(HEARTBEAT),
            session.prepare(RELEASE),
        )?;
        Ok(Self {
            session,
            hold,
            try_lock,
            wait_for_lock,
            lead,
            predecessor,
            bump_epoch,
            heartbeat,
            release,
        })
    }
}

impl Deref for LockSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Opens the session, and refuses it when the server would free the lock under an open gate.
pub(super) async fn open(lock: &PostgresAdvisory) -> Result<LockSession, LockError> {
    let deadline = Deadline::after(lock.timing.call_timeout());
    let url = lock.settings.url.noticing_silence(lock.silence);
    let (session, socket) = url.connect_with_socket(deadline).await?;
    let silence_ms = lock.silence.as_millis().to_string();
    let third_secs = lock.silence.as_secs_f64().div_euclid(3.0) as u64 + 1;
    let wait_ms = WAIT.as_millis().to_string();
    let limit_ms = (WAIT + lock.timing.statement_timeout()).as_millis().to_string();
    let row = deadline
        .run(
            session
                .query_one(SESSION, &[&silence_ms, &third_secs.to_string(), &wait_ms, &limit_ms]),
        )
        .await?;
    if row.get("standby") {
        return Err(LockError::Standby);
    }
    read_back(&session, deadline, &lock.timing).await?;
    let scope = lock.candidate.scope.as_str();
    match deadline.run(create_scope(&session, lock.key, scope)).await {
        Err(error) if error.sqlstate() == Some(&SqlState::from_code("TN002")) => {
            let message = error.server_message().unwrap_or("the scope's key is taken");
            Err(LockError::Refused(message.to_owned()))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(deadline.run(LockSession::prepare(session, Hold::new(socket))).await?),
    }
}

/// Makes sure that the scope has its row, and that no other scope has its key.
pub(super) async fn create_scope(
    session: &Session,
    key: i64,
    scope: &str,
) -> Result<(), tokio_postgres::Error> {
    let parameters: [Parameter<'_>; 2] = [(&key, Type::INT8), (&scope, Type::TEXT)];
    session.query_typed(CREATE_SCOPE, &parameters).await.map(drop)
}

async fn read_back(
    session: &Session,
    deadline: Deadline,
    timing: &Timing,
) -> Result<(), LockError> {
    let row = deadline.run(session.query_one(READ_BACK, &[])).await?;
    for (name, column) in [
        ("idle_session_timeout", "idle_ms"),
        ("tcp_user_timeout", "user_timeout_ms"),
        ("the server's keepalive total", "keepalive_ms"),
    ] {
        let millis: f64 = row.get(column);
        // Zero is never, or a socket that has no such timeout.
        if millis > 0.0 {
            refuse_short(name, super::millis(millis), timing)?;
        }
    }
    Ok(())
}

/// Shorter than this, the server would free the lock while the gate may still be open.
pub(super) fn refuse_short(name: &str, value: Duration, timing: &Timing) -> Result<(), LockError> {
    let late = timing.gate_open_for();
    let least = late + timing.margin();
    if value > least {
        return Ok(());
    }
    Err(LockError::Refused(format!(
        "{name} {value:?} must be above the late threshold {late:?} plus the margin {:?}: the server \
         would free the lock while the gate may still be open",
        timing.margin()
    )))
}

pub(super) async fn refuse_pooler(url: &PostgresUrl, deadline: Deadline) -> Result<(), LockError> {
    if is_transaction_pooler(url, deadline).await? {
        return Err(LockError::Refused(format!(
            "{url} is behind a transaction pooler, which silently breaks advisory locks: connect to \
             Postgres directly, or use the lease lock (--lock lease), which works through a pooler"
        )));
    }
    Ok(())
}

pub(super) fn listen_statement(channel: &str) -> String {
    format!("LISTEN \"{}\"", channel.replace('"', "\"\""))
}
