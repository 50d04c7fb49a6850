//! Intents on Postgres.

mod columns;
mod copied;
mod intake;
mod news;

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{TryStreamExt, pin_mut};
use jiff::Timestamp;
use tenure::{Term, fence::postgres as fence};
use tenure_database::{
    Deadline,
    postgres::{Moment, Pool, PostgresUrl},
};
use tokio::sync::mpsc;
use tokio_postgres::{Row as Line, types::ToSql};

use self::{
    columns::{contract, moment, stored, webhook},
    copied::Copied,
};
use super::{
    Each, Ended, Finished, GivenUp, News, OneShot, Position, Refreshed, Reservation, Reserve,
    Store, StoreError, Stored, Submission, Submitted, WebhookDue,
    columns::{OutcomeColumns, exhausted_reason, text_of},
};
use crate::{
    gateway::key,
    intent::AttemptView,
    schedule::{Change, Micros, Row},
};

const FIND: &str = include_str!("../../sql/postgres/intake/find.sql");
const FIND_ROWS: &str = include_str!("../../sql/postgres/intake/find_rows.sql");
const ATTEMPTS: &str = include_str!("../../sql/postgres/intake/attempts.sql");
const REBUILD: &str = include_str!("../../sql/postgres/schedule/rebuild.sql");
const REFRESH: &str = include_str!("../../sql/postgres/schedule/refresh.sql");
const NOW: &str = include_str!("../../sql/postgres/schedule/now.sql");
const RESERVE: &str = include_str!("../../sql/postgres/execute/reserve.sql");
const UNRESERVE: &str = include_str!("../../sql/postgres/execute/unreserve.sql");
const GIVE_UP: &str = include_str!("../../sql/postgres/execute/give_up.sql");
const LOOK: &str = include_str!("../../sql/postgres/execute/look.sql");
const RECORD: &str = include_str!("../../sql/postgres/execute/record.sql");
const PENDING_WEBHOOKS: &str = include_str!("../../sql/postgres/webhook/pending.sql");
const BEGIN_WEBHOOK: &str = include_str!("../../sql/postgres/webhook/begin.sql");
const UNBEGIN_WEBHOOK: &str = include_str!("../../sql/postgres/webhook/unbegin.sql");
const FINISH_WEBHOOK: &str = include_str!("../../sql/postgres/webhook/finish.sql");

/// A server that says nothing for so long, not even that it is there, is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// How many rows a refresh reads at once.
const PAGE: i64 = 5_000;
/// How many connections the intake and the readers share.
const CLIENTS: usize = 8;
/// How many connections the executor has to itself.
const EXECUTORS: usize = 4;
/// Whatever the executor asks for is a few rows among many, found by an index: statistics that are behind must
/// not make the planner read them all.
const FEW_ROWS: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";
/// A rebuild reads everything, and takes as long as there are intents.
const ALL_ROWS: &str = "SET statement_timeout = 0; SET enable_seqscan = on";
const REBUILD_WITHIN: Duration = Duration::from_secs(600);

/// The store.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    url: PostgresUrl,
    /// For clients: what they do never touches the executor's connections.
    clients: Pool,
    executor: Pool,
    patience: Duration,
}

impl PostgresStore {
    /// A store whose calls answer within `patience`.
    #[must_use]
    pub fn new(url: &PostgresUrl, patience: Duration) -> Self {
        let url = url.noticing_silence(SILENCE);
        let limit = patience.as_millis();
        let settings = format!(
            "SET synchronous_commit = on; SET statement_timeout = {limit}; \
             SET idle_in_transaction_session_timeout = {limit}; \
             SET default_transaction_isolation = 'read committed'"
        );
        let clients = Pool::to(url.clone(), CLIENTS, &settings);
        let executor = Pool::to(url.clone(), EXECUTORS, &format!("{settings}; {FEW_ROWS}"));
        Self { url, clients, executor, patience }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.patience)
    }

    /// Runs a statement for a client or the executor.
    async fn query(
        &self,
        pool: &Pool,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Line>, StoreError> {
        let deadline = self.deadline();
        let mut session = pool.take(deadline).await?;
        let statement = deadline.run(session.prepared(sql)).await?;
        let rows = deadline.run(session.query(&statement, parameters)).await?;
        session.put_back();
        Ok(rows)
    }

    /// Runs a statement that only this term can commit.
    async fn fenced(
        &self,
        term: &Term,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Line>, StoreError> {
        let deadline = self.deadline();
        let mut session = self.executor.take(deadline).await?;
        let statement = deadline.run(session.prepared(sql)).await?;
        let written = async {
            Ok::<_, tenure_database::DatabaseError>(
                fence::query(&mut session, term, &statement, parameters).await,
            )
        };
        let rows = deadline.run(written).await??;
        session.put_back();
        Ok(rows)
    }

    /// Ends what must not be tried again among those that could not be taken, and says what the others are.
    async fn left_over(
        &self,
        term: &Term,
        rows: &[Row],
        repeats: bool,
    ) -> Result<Vec<Reserve>, StoreError> {
        let epoch = term.epoch().get();
        let seen = self.query(&self.executor, LOOK, &[&rows, &epoch, &repeats]).await?;
        let (over, others): (Vec<_>, Vec<_>) = seen.iter().partition(|row| row.get("is_over"));
        let mut answers: Vec<_> =
            others.into_iter().map(|row| Reserve::NotNow(change(row))).collect();
        if !over.is_empty() {
            let over: Vec<Row> = over.iter().map(|row| row.get("row_number")).collect();
            let ended = self.fenced(term, GIVE_UP, &[&over, &epoch, &repeats]).await?;
            for row in &ended {
                answers.push(Reserve::GivenUp(given_up(row)?));
            }
            // What is over by one reading of the clock may not be by the next.
            let ended: Vec<Row> = ended.iter().map(|row| row.get("row_number")).collect();
            let over = seen.iter().filter(|row| row.get("is_over")).map(change);
            let left = over.filter(|change| !ended.contains(&change.row));
            answers.extend(left.map(Reserve::NotNow));
        }
        Ok(answers)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn submit(&self, batch: &[Submission]) -> Result<Vec<Submitted>, StoreError> {
        intake::submit(self, batch).await
    }

    async fn find(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        let rows = self.query(&self.clients, FIND, &[&ids]).await?;
        rows.iter().map(stored).collect()
    }

    async fn find_rows(&self, wanted: &[Row]) -> Result<Vec<Stored>, StoreError> {
        let rows = self.query(&self.clients, FIND_ROWS, &[&wanted]).await?;
        rows.iter().map(stored).collect()
    }

    async fn attempts(&self, intent_id: &str) -> Result<Vec<AttemptView>, StoreError> {
        let rows = self.query(&self.clients, ATTEMPTS, &[&intent_id]).await?;
        let read = |row: &Line| {
            Ok(AttemptView {
                attempt_number: row.get("attempt_number"),
                idempotency_key: key(intent_id, row.get("key_number")),
                started_at: moment(row, "started_at")?,
                finished_at: moment(row, "finished_at")?,
                outcome_status: row.get("outcome_status"),
                outcome_reason: row.get("outcome_reason"),
                error: row.get("error"),
            })
        };
        rows.iter().map(read).collect()
    }

    async fn pending(&self, each: Each<'_>) -> Result<Position, StoreError> {
        let session = self.executor.take(self.deadline()).await?;
        self.deadline().run(session.batch_execute(ALL_ROWS)).await?;
        let read = async {
            let messages = session.copy_out(REBUILD).await?;
            pin_mut!(messages);
            let (mut position, mut is_first) = (Ok(Position::default()), true);
            while let Some(message) = messages.try_next().await? {
                match copied::read(&message, is_first) {
                    Ok(Copied::Pending(change)) => each(change),
                    Ok(Copied::Position(read)) => position = Ok(read),
                    Ok(Copied::End) => {}
                    Err(error) => position = Err(error),
                }
                is_first = false;
            }
            Ok::<_, tokio_postgres::Error>(position)
        };
        // The session's settings are others now: it is not put back.
        Deadline::after(REBUILD_WITHIN).run(read).await?
    }

    async fn refresh(&self, since: &Position) -> Result<Refreshed, StoreError> {
        let mut read = Refreshed::default();
        let mut cursor = (Moment::FIRST, String::new());
        loop {
            let parameters: [&(dyn ToSql + Sync); 4] = [&since.marker, &cursor.0, &cursor.1, &PAGE];
            let page = self.query(&self.executor, REFRESH, &parameters).await?;
            let Some(first) = page.first() else { return Ok(read) };
            read.now = first.get::<_, Moment>("now").micros();
            // What commits while later pages are read is new to the first page's snapshot.
            if read.position.marker.is_empty() {
                read.position =
                    Position { marker: first.get("snapshot"), server: first.get("server") };
            }
            let rows = page.iter().filter(|row| row.get::<_, Option<Row>>("row_number").is_some());
            let before = read.changes.len();
            for row in rows {
                read.changes.push(change(row));
                cursor = (row.get("last_modified_at"), row.get("intent_id"));
            }
            if ((read.changes.len() - before) as i64) < PAGE {
                return Ok(read);
            }
        }
    }

    async fn now(&self) -> Result<Micros, StoreError> {
        let rows = self.query(&self.executor, NOW, &[]).await?;
        rows.first().map_or(Ok(0), |row| Ok(row.get::<_, Moment>(0).micros()))
    }

    async fn reserve(
        &self,
        term: &Term,
        rows: &[Row],
        one_shot: OneShot,
    ) -> Result<Vec<Reserve>, StoreError> {
        let (epoch, repeats) = (term.epoch().get(), one_shot == OneShot::Repeat);
        let taken = self.fenced(term, RESERVE, &[&rows, &epoch, &repeats]).await?;
        let mut answers = Vec::with_capacity(rows.len());
        for row in &taken {
            answers.push(Reserve::Ready(Box::new(Reservation {
                row: row.get("row_number"),
                version: row.get("version"),
                intent_id: row.get("intent_id"),
                payload: row.get::<_, Vec<u8>>("payload").into(),
                contract: contract(row)?,
                created_at: moment(row, "created_at")?,
                due_at: moment(row, "next_attempt_at")?,
                number: row.get("reserved_attempt"),
                started_at: moment(row, "started_at")?,
                is_repeat: row.get("was_reserved"),
                held_key: row.get("held_key"),
            })));
        }
        if taken.len() < rows.len() {
            let taken: std::collections::HashSet<Row> =
                taken.iter().map(|row| row.get("row_number")).collect();
            let left: Vec<Row> = rows.iter().copied().filter(|row| !taken.contains(row)).collect();
            answers.extend(self.left_over(term, &left, repeats).await?);
        }
        Ok(answers)
    }

    async fn unreserve(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        self.fenced(term, UNRESERVE, &[&rows, &term.epoch().get()]).await.map(drop)
    }

    async fn record(&self, term: &Term, finished: &[Finished]) -> Result<Vec<Ended>, StoreError> {
        let rows: Vec<Row> = finished.iter().map(|done| done.row).collect();
        let numbers: Vec<i32> = finished.iter().map(|done| done.number).collect();
        let started: Vec<_> = finished.iter().map(|done| at(done.started_at)).collect();
        let ended: Vec<_> = finished.iter().map(|done| at(done.finished_at)).collect();
        let outcomes: Vec<_> = finished.iter().map(OutcomeColumns::of).collect();
        let outcome_statuses: Vec<_> = outcomes.iter().map(|done| &done.outcome_status).collect();
        let reasons: Vec<_> = outcomes.iter().map(|done| &done.outcome_reason).collect();
        let errors: Vec<_> = outcomes.iter().map(|done| &done.error).collect();
        let statuses: Vec<_> = outcomes.iter().map(|done| done.status).collect();
        let exhausted: Vec<_> = outcomes.iter().map(|done| done.exhausted_reason).collect();
        let due: Vec<_> = outcomes.iter().map(|done| done.next_attempt_at.map(at)).collect();
        let keys: Vec<_> = outcomes.iter().map(|done| done.key_number).collect();
        let held: Vec<_> = outcomes.iter().map(|done| done.held_key).collect();
        let parameters: [&(dyn ToSql + Sync); 12] = [
            &rows,
            &numbers,
            &started,
            &ended,
            &outcome_statuses,
            &reasons,
            &errors,
            &statuses,
            &exhausted,
            &due,
            &keys,
            &held,
        ];
        let moved = self.fenced(term, RECORD, &parameters).await?;
        let read = |row: &Line| Ended { change: change(row), has_webhook: row.get("has_webhook") };
        Ok(moved.iter().map(read).collect())
    }

    async fn pending_webhooks(
        &self,
        above: Row,
        most: i64,
    ) -> Result<Vec<(Row, bool)>, StoreError> {
        let rows = self.query(&self.executor, PENDING_WEBHOOKS, &[&above, &most]).await?;
        Ok(rows.iter().map(|row| (row.get("row_number"), row.get("was_attempted"))).collect())
    }

    async fn begin_webhooks(
        &self,
        term: &Term,
        rows: &[Row],
    ) -> Result<Vec<WebhookDue>, StoreError> {
        let taken = self.fenced(term, BEGIN_WEBHOOK, &[&rows]).await?;
        let read = |row: &Line| {
            Ok(WebhookDue {
                row: row.get("row_number"),
                intent: stored(row)?.view,
                webhook: webhook(row)?,
                occurred_at: moment(row, "webhook_attempted_at")?,
            })
        };
        taken.iter().map(read).collect()
    }

    async fn unbegin_webhooks(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        self.fenced(term, UNBEGIN_WEBHOOK, &[&rows]).await.map(drop)
    }

    async fn finish_webhooks(
        &self,
        term: &Term,
        results: &[(Row, Option<String>)],
    ) -> Result<(), StoreError> {
        let rows: Vec<Row> = results.iter().map(|(row, _)| *row).collect();
        let errors: Vec<_> =
            results.iter().map(|(_, error)| error.as_deref().map(text_of)).collect();
        self.fenced(term, FINISH_WEBHOOK, &[&rows, &errors]).await.map(drop)
    }

    fn news(&self) -> mpsc::UnboundedReceiver<News> {
        news::listen(self.url.clone(), self.patience)
    }
}

fn at(timestamp: Timestamp) -> Moment {
    Moment::at(timestamp.as_microsecond())
}

fn given_up(row: &Line) -> Result<GivenUp, StoreError> {
    let change = Change { row: row.get("row_number"), version: row.get("version"), due: None };
    let took = moment(row, "completed_at")?.duration_since(moment(row, "created_at")?);
    Ok(GivenUp {
        ended: Ended { change, has_webhook: row.get("has_webhook") },
        reason: exhausted_reason(row.get("exhausted_reason"))?,
        took,
    })
}

fn change(row: &Line) -> Change {
    Change {
        row: row.get("row_number"),
        version: row.get("version"),
        due: row.get::<_, Option<Moment>>("next_attempt_at").map(Moment::micros),
    }
}
