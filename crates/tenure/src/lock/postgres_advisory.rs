//! A Postgres advisory lock: held by a session, freed when the session ends.
//!
//! A dedicated session waits for the lock inside the server, which wakes the next holder within
//! milliseconds, and then holds it. Who holds it and with which epoch stands in `msp_leader_state`;
//! every heartbeat proves, on that same session, that the lock and the epoch are still ours.
//!
//! Releasing is closing the session. A wait that failed may have left the lock with the session
//! (measured), so a session that has waited either waits again or is closed; dropping a call closes it.

mod session;

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{join, try_join};
use tenure_database::{
    BootInstant, Deadline,
    postgres::{Line, PostgresUrl, Session},
};
use tokio::sync::mpsc;
use tokio_postgres::{Row, error::SqlState, types::ToSql};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Acquire, Candidate, Grant, Holding, Lock, LockError, LockPlace, News, Observed, Reading, Renew,
    postgres_lease::millis,
    postgres_news::{self, Pooler},
    postgres_reading,
    processes::Processes,
};
use crate::{
    term::Epoch,
    timing::{Takeover, Timing},
};
use session::LockSession;

const UNLOCK: &str = include_str!("../../sql/postgres/advisory/unlock.sql");
const OBSERVE: &str = include_str!("../../sql/postgres/advisory/observe.sql");

/// How long one wait for the lock lasts: a waiter holds back vacuum, so it must end now and then.
pub const WAIT: Duration = Duration::from_millis(4_800);

/// What is particular to this lock.
#[derive(Clone, Debug)]
pub struct AdvisorySettings {
    /// Where the session that waits for and holds the lock connects to.
    pub url: PostgresUrl,
    /// The lock's key instead of the scope's hash: `LEADER_LOCK_KEY`.
    pub key: Option<i64>,
    /// Where transitions are told: `PG_LISTEN_CHANNEL`.
    pub channel: String,
    /// How long the server lets the holder be silent before it ends the session.
    /// Default: the late threshold and twice the margin.
    pub session_silence: Option<Duration>,
    /// Who acts in a term of this candidate. A successor on the same host that sees all of them gone does
    /// not sit their term out. Default: nobody is named.
    pub processes: Option<Processes>,
}

impl AdvisorySettings {
    /// The defaults for a place.
    #[must_use]
    pub fn at(url: PostgresUrl) -> Self {
        let channel = "msp_leader_change".to_owned();
        Self { url, key: None, channel, session_silence: None, processes: None }
    }
}

/// The lock.
#[derive(Debug)]
pub struct PostgresAdvisory {
    candidate: Candidate,
    timing: Timing,
    settings: AdvisorySettings,
    key: i64,
    silence: Duration,
    /// Waits for the lock or holds it.
    session: Option<LockSession>,
    checked_for_pooler: bool,
    /// For looks that must not touch the lock.
    line: Line,
    tell: Option<mpsc::UnboundedSender<News>>,
    listener: Option<AbortOnDropHandle<()>>,
    watcher: Option<AbortOnDropHandle<()>>,
}

impl PostgresAdvisory {
    /// A candidate for the scope's lock.
    pub fn new(
        settings: AdvisorySettings,
        candidate: Candidate,
        timing: Timing,
    ) -> Result<Self, LockError> {
        let silence = settings.session_silence.unwrap_or(timing.lease_duration() + timing.margin());
        session::refuse_short("idle_session_timeout", silence, &timing)?;
        let key = settings.key.unwrap_or_else(|| candidate.scope.key());
        let line = Line::to(settings.url.clone());
        Ok(Self {
            candidate,
            timing,
            settings,
            key,
            silence,
            session: None,
            checked_for_pooler: false,
            line,
            tell: None,
            listener: None,
            watcher: None,
        })
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timing.call_timeout())
    }

    /// Waits for the lock on the session that has asked before, or asks on a new one, and says whether it came.
    ///
    /// A new session does not wait yet: so a node that starts beside a leader knows of it at once.
    async fn lock(&mut self) -> Result<(LockSession, bool), LockError> {
        self.watcher = None;
        if let Some(session) = self.session.take().filter(|session| !session.is_closed()) {
            let locked = self.wait(&session).await?;
            return Ok((session, locked));
        }
        if !self.checked_for_pooler {
            session::refuse_pooler(&self.settings.url, self.deadline()).await?;
            self.checked_for_pooler = true;
        }
        let session = session::open(self).await?;
        self.rehearse(&session).await?;
        let row = self.deadline().run(session.query_one(&session.try_lock, &[&self.key])).await?;
        Ok((session, row.get(0)))
    }

    /// Waits inside the server; a lock that an earlier wait has left with the session answers at once.
    async fn wait(&self, session: &LockSession) -> Result<bool, LockError> {
        let wait = Deadline::after(WAIT + self.timing.call_timeout());
        match wait.run(session.execute(&session.wait_for_lock, &[&self.key])).await {
            Ok(_) => Ok(true),
            Err(error) if error.sqlstate() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn bump_epoch(
        &self,
        session: &LockSession,
        key: i64,
        floor: Epoch,
        gone: Epoch,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let (holder, scope) = (self.candidate.holder.as_str(), self.candidate.scope.as_str());
        let late_threshold_ms = self.timing.gate_open_for().as_millis() as i64;
        let margin_ms = self.timing.margin().as_secs_f64() * 1e3;
        let processes =
            self.settings.processes.as_ref().map_or(String::new(), Processes::to_string);
        let (floor, gone) = (floor.get(), gone.get());
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&key, &holder, &floor, &late_threshold_ms, &scope, &margin_ms, &gone, &processes];
        session.query(&session.bump_epoch, &parameters).await
    }

    /// The last term, if all that acted in it are seen to be gone; zero otherwise.
    async fn gone(&self, session: &LockSession) -> Result<Epoch, LockError> {
        let (Takeover::Wait, Some(processes)) = (self.timing.takeover(), &self.settings.processes)
        else {
            return Ok(Epoch::ZERO);
        };
        let look = async { session.query_opt(&session.predecessor, &[&self.key]).await };
        let Some(row) = self.deadline().run(look).await? else { return Ok(Epoch::ZERO) };
        match processes.are_gone(row.get("processes")).await {
            true => Ok(Epoch::new(row.get("epoch"))),
            false => Ok(Epoch::ZERO),
        }
    }

    /// Does what a winner will do, to a row that never was: a session's first use of a statement and of a
    /// trigger costs milliseconds, and a takeover is when they matter.
    async fn rehearse(&self, session: &LockSession) -> Result<(), LockError> {
        let nobody = !self.key;
        // What fails will say so when it matters; what counts here is that the transaction has begun, because
        // outside of one all of it would stay, and that it is over.
        let rehearsal = async {
            session.batch_execute("BEGIN").await?;
            let (_, _, over) = join!(
                session::create_scope(session, nobody, "rehearsal"),
                self.bump_epoch(session, nobody, Epoch::ZERO, Epoch::ZERO),
                session.batch_execute("ROLLBACK"),
            );
            over
        };
        Ok(self.deadline().run(rehearsal).await?)
    }

    async fn begin_term(&self, session: &LockSession, floor: Epoch) -> Result<Grant, LockError> {
        let limit = self.timing.statement_timeout().as_millis().to_string();
        let gone = self.gone(session).await?;
        let sent_at = BootInstant::now();
        let (_, rows) = self
            .deadline()
            .run(async {
                let bump = self.bump_epoch(session, self.key, floor, gone);
                let lead = async { session.execute(&session.lead, &[&limit]).await };
                try_join!(lead, bump)
            })
            .await?;
        let scope = &self.candidate.scope;
        let row = rows.first().ok_or_else(|| {
            LockError::Refused(format!(
                "the row of scope {scope} was removed from msp_leader_state"
            ))
        })?;
        let unknown = millis(row.get("unknown_ms"));
        let settle = match self.timing.takeover() {
            Takeover::Wait => unknown.max(millis(row.get("settle_ms"))),
            Takeover::Immediate => unknown,
        };
        let epoch = Epoch::new(row.get("epoch"));
        let (reading, hold) = (postgres_reading(row, sent_at), Some(session.hold.clone()));
        Ok(Grant { epoch, sent_at, settle, reading, hold })
    }

    /// Tells at once when the session of a term ends, whoever ended it.
    fn watch(&mut self, session: &Session, epoch: Epoch) {
        let (ended, tell) = (session.ended(), self.tell.clone());
        self.watcher = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            ended.cancelled().await;
            if let Some(tell) = tell {
                // Nobody listening any more has nothing to lose.
                let _ = tell.send(News::SessionEnded(epoch));
            }
        })));
    }

    /// Hears of changes, for as long as it only looks.
    fn listen(&mut self) {
        let (None, Some(tell)) = (&self.listener, self.tell.clone()) else { return };
        let listening = postgres_news::listen(
            self.settings.url.clone(),
            session::listen_statement(&self.settings.channel),
            self.timing,
            Pooler::Refused,
            tell,
            |_| true,
        );
        self.listener = Some(AbortOnDropHandle::new(tokio::spawn(listening)));
    }

    async fn look(&self, session: &Session) -> Result<Observed, LockError> {
        let asked = BootInstant::now();
        let rows = self.deadline().run(session.query(OBSERVE, &[&self.key])).await?;
        let Some(row) = rows.first() else {
            return Ok(Observed { held: None, epoch: Epoch::ZERO, reading: Reading::default() });
        };
        if row.get("standby") {
            return Err(LockError::Standby);
        }
        let reading = postgres_reading(row, asked);
        let epoch = Epoch::new(row.get("epoch"));
        let holding = Holding {
            holder: row.get("holder_identity"),
            epoch,
            left: None,
            shown: None,
            heartbeat_age: Some(millis(row.get("age_ms"))),
            ours: false,
            reading: reading.clone(),
        };
        let is_held: bool = row.get("held");
        Ok(Observed { held: is_held.then_some(holding), epoch, reading })
    }

    async fn still_held(&self, session: &Session) -> Result<Holding, LockError> {
        let seen = self.look(session).await?;
        let nobody = Holding {
            holder: String::new(),
            epoch: seen.epoch,
            left: None,
            shown: None,
            heartbeat_age: None,
            ours: false,
            reading: seen.reading,
        };
        // The wait has passed inside the server: ask again at once.
        Ok(Holding { left: Some(Duration::ZERO), ..seen.held.unwrap_or(nobody) })
    }
}

#[async_trait]
impl Lock for PostgresAdvisory {
    fn place(&self) -> LockPlace {
        LockPlace { kind: "postgres-advisory", name: self.key.to_string() }
    }

    fn wait(&self) -> Option<Duration> {
        Some(WAIT)
    }

    async fn acquire(&mut self, floor: Epoch) -> Result<Acquire, LockError> {
        // The server itself wakes whoever waits for the lock.
        self.listener = None;
        let (session, locked) = self.lock().await?;
        let answer = if locked {
            let grant = self.begin_term(&session, floor).await?;
            self.watch(&session, grant.epoch);
            Acquire::Granted(grant)
        } else {
            Acquire::Held(self.still_held(&session).await?)
        };
        self.session = Some(session);
        Ok(answer)
    }

    async fn renew(&mut self, epoch: Epoch) -> Result<Renew, LockError> {
        let Some(session) = self.session.take() else { return Ok(Renew::Lost) };
        let holder = self.candidate.holder.as_str();
        let sent_at = BootInstant::now();
        let rows = self
            .deadline()
            .run(session.query(&session.heartbeat, &[&self.key, &holder, &epoch.get()]))
            .await?;
        let Some(row) = rows.first() else { return Ok(Renew::Lost) };
        let (reading, extends) = (postgres_reading(row, sent_at), row.get("extends"));
        self.session = Some(session);
        Ok(Renew::Renewed { sent_at, extends, reading })
    }

    async fn release(&mut self, epoch: Epoch) -> Result<(), LockError> {
        self.watcher = None;
        let Some(session) = self.session.take() else { return Ok(()) };
        let holder = self.candidate.holder.as_str();
        // Sent together and carried out in order: the note is there before the lock is free.
        self.deadline()
            .run(async {
                let epoch = epoch.get();
                let note = async {
                    session.execute(&session.release, &[&self.key, &holder, &epoch]).await
                };
                try_join!(note, session.batch_execute(UNLOCK))
            })
            .await?;
        Ok(())
    }

    async fn observe(&mut self) -> Result<Observed, LockError> {
        self.listen();
        // Whoever only looks does not contend: a wait that left the lock here must not keep it.
        self.session = None;
        let session = self.line.take(self.deadline()).await?;
        let seen = self.look(&session).await?;
        self.line.put_back(session);
        Ok(seen)
    }

    fn news(&mut self) -> mpsc::UnboundedReceiver<News> {
        let (tell, news) = mpsc::unbounded_channel();
        self.tell = Some(tell);
        news
    }
}
