//! Intents on SQL Server.
//!
//! Lists go to the server as JSON. Every row carries a `rowversion`, and a refresh reads those up to the lowest one of a
//! transaction that is open: `MIN_ACTIVE_ROWVERSION()`. Change tracking would do as well, and needs rights on the
//! database that a rowversion does not.

mod columns;
mod intake;
mod news;
mod statements;

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use serde::Serialize;
use tenure::{
    Term,
    fence::{FenceError, sqlserver as fence},
};
use tenure_database::{
    DatabaseError, Deadline,
    sqlserver::{Batch, Meaning, Pool, Row as Line, SqlServer, SqlServerUrl, ToSql},
};
use tokio::sync::mpsc;

pub use self::statements::all as batches;
use self::{
    columns::{
        OutcomeLine, ResultLine, change, ended, given_up, moment, reservation, stored, webhook,
    },
    statements as sql,
};
use super::{
    Each, Ended, Finished, News, OneShot, Position, Refreshed, Reserve, Store, StoreError, Stored,
    Submission, Submitted, WebhookDue, columns::text_of,
};
use crate::{
    gateway::key,
    intent::AttemptView,
    schedule::{Micros, Row},
};

/// How many rows a refresh reads at once.
const PAGE: i32 = 5_000;
/// How many connections the intake and the readers share.
const CLIENTS: usize = 8;
/// How many connections the executor has to itself.
const EXECUTORS: usize = 4;
/// A rebuild reads everything, and takes as long as there are intents.
const REBUILD_WITHIN: Duration = Duration::from_secs(600);

/// How often a batch is sent that is rolled back for the sake of another.
const TRIES: usize = 3;

/// The store.
#[derive(Clone, Debug)]
pub struct SqlServerStore {
    /// For clients: what they do never touches the executor's connections.
    clients: Pool,
    executor: Pool,
    patience: Duration,
}

impl SqlServerStore {
    /// A store whose calls answer within `patience`.
    #[must_use]
    pub fn new(url: &SqlServerUrl, patience: Duration) -> Self {
        // Whoever waits for a row gives up before nobody waits for the answer.
        let server = SqlServer::at(url.clone(), patience * 4 / 5);
        let (clients, executor) = (Pool::of(server.clone(), CLIENTS), Pool::of(server, EXECUTORS));
        Self { clients, executor, patience }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.patience)
    }

    /// Runs a batch for a client or the executor.
    async fn query(
        &self,
        pool: &Pool,
        batch: &Batch,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Line>, StoreError> {
        assert_eq!(parameters.len(), batch.parameters, "{}", batch.name);
        self.query_text(pool, batch.sql, parameters).await
    }

    async fn query_text(
        &self,
        pool: &Pool,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Line>, StoreError> {
        let (deadline, mut again) = (self.deadline(), 1..TRIES);
        loop {
            let mut session = pool.take(deadline).await?;
            match deadline.run(session.query_text(sql, parameters)).await {
                Err(error) if was_rolled_back(&error) && again.next().is_some() => {}
                answer => {
                    let rows = answer?;
                    session.put_back();
                    return Ok(rows);
                }
            }
        }
    }

    /// Runs a batch that only this term can commit.
    async fn fenced(
        &self,
        term: &Term,
        batch: &sql::Made,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Line>, StoreError> {
        let (deadline, mut again) = (self.deadline(), 1..TRIES);
        loop {
            let mut session = self.executor.take(deadline).await?;
            let written = fence::query(&mut session, term, batch.text(), parameters);
            match deadline.run(async { Ok::<_, DatabaseError>(written.await) }).await? {
                Err(FenceError::Database(error))
                    if was_rolled_back(&error) && again.next().is_some() => {}
                answer => {
                    let rows = answer?;
                    session.put_back();
                    return Ok(rows);
                }
            }
        }
    }

    /// What was written since a marker, page by page, and where things stand.
    async fn written_since(&self, marker: i64) -> Result<Refreshed, StoreError> {
        let mut read = Refreshed::default();
        let (mut upto, mut cursor) = (None::<i64>, (i64::MIN, String::new()));
        loop {
            let parameters: [&dyn ToSql; 5] =
                [&marker, &upto, &cursor.0, &cursor.1.as_str(), &PAGE];
            let page = self.query_text(&self.executor, sql::REFRESH.text(), &parameters).await?;
            let Some(first) = page.first() else { return Ok(read) };
            read.now = first.need("now")?;
            // All pages are of what the first one could see.
            let stands = first.need::<i64>("marker")?;
            upto = Some(stands);
            read.position = Position {
                marker: stands.to_string(),
                server: first.need::<&str>("server")?.to_owned(),
            };
            let before = read.changes.len();
            for row in &page {
                let Some(modified) = row.get::<i64>("modified_ns")? else { continue };
                read.changes.push(change(row)?);
                cursor = (modified, row.need::<&str>("intent_id")?.to_owned());
            }
            if read.changes.len() - before < PAGE as usize {
                return Ok(read);
            }
        }
    }

    /// Ends what must not be tried again among those that could not be taken, and says what the others are.
    async fn left_over(
        &self,
        term: &Term,
        rows: &[Row],
        repeats: bool,
    ) -> Result<Vec<Reserve>, StoreError> {
        let epoch = term.epoch().get();
        let seen =
            self.query(&self.executor, &sql::LOOK, &[&json(&rows), &epoch, &repeats]).await?;
        let (mut over, mut answers) = (Vec::new(), Vec::new());
        for row in &seen {
            match row.need("is_over")? {
                true => over.push(change(row)?),
                false => answers.push(Reserve::NotNow(change(row)?)),
            }
        }
        if !over.is_empty() {
            let rows: Vec<_> = over.iter().map(|change| change.row).collect();
            let given_up_now = self.fenced(term, &sql::GIVE_UP, &[&json(&rows), &repeats]).await?;
            for row in &given_up_now {
                let given_up = given_up(row)?;
                // What is over by one reading of the clock may not be by the next.
                over.retain(|change| change.row != given_up.ended.change.row);
                answers.push(Reserve::GivenUp(given_up));
            }
            answers.extend(over.into_iter().map(Reserve::NotNow));
        }
        Ok(answers)
    }
}

/// Whether nothing came of a batch, for another's sake: the same again may succeed.
fn was_rolled_back(error: &DatabaseError) -> bool {
    error.meaning() == Some(Meaning::TryAgain)
}

fn marker_of(position: &Position) -> Result<i64, StoreError> {
    position.marker.parse().map_err(|_| super::columns::unreadable("a marker of another kind"))
}

/// A list as a parameter.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[async_trait]
impl Store for SqlServerStore {
    async fn submit(&self, batch: &[Submission]) -> Result<Vec<Submitted>, StoreError> {
        intake::submit(self, batch).await
    }

    async fn find(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        let ids: Vec<_> = ids.iter().filter(|id| intake::fits(id)).collect();
        let rows = self.query(&self.clients, &sql::FIND, &[&json(&ids)]).await?;
        rows.iter().map(stored).collect()
    }

    async fn find_rows(&self, wanted: &[Row]) -> Result<Vec<Stored>, StoreError> {
        let rows = self.query(&self.clients, &sql::FIND_ROWS, &[&json(&wanted)]).await?;
        rows.iter().map(stored).collect()
    }

    async fn attempts(&self, intent_id: &str) -> Result<Vec<AttemptView>, StoreError> {
        let rows = self.query(&self.clients, &sql::ATTEMPTS, &[&intent_id]).await?;
        let read = |row: &Line| {
            let text = |column| Ok::<_, StoreError>(row.get::<&str>(column)?.map(str::to_owned));
            Ok(AttemptView {
                attempt_number: row.need("attempt_number")?,
                idempotency_key: key(intent_id, row.need("key_number")?),
                started_at: moment(row, "started_at")?,
                finished_at: moment(row, "finished_at")?,
                outcome_status: text("outcome_status")?,
                outcome_reason: text("outcome_reason")?,
                error: text("error")?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn pending(&self, each: Each<'_>) -> Result<Position, StoreError> {
        let deadline = Deadline::after(REBUILD_WITHIN);
        let mut session = self.executor.take(self.deadline()).await?;
        let mut position = Position::default();
        let read = session.each(sql::REBUILD.text(), &[], |row| {
            match row.get::<i64>("marker")? {
                Some(marker) => {
                    let server = row.need::<&str>("server")?.to_owned();
                    position = Position { marker: marker.to_string(), server };
                }
                None => each(change(&row)?),
            }
            Ok(())
        });
        deadline.run(read).await?;
        session.put_back();
        Ok(position)
    }

    async fn refresh(&self, since: &Position) -> Result<Refreshed, StoreError> {
        let marker = marker_of(since)?;
        let read = self.written_since(marker).await?;
        match marker_of(&read.position)? < marker {
            // A backup was restored, or a secondary that knew less took over.
            true => Err(super::columns::unreadable("a history that goes back")),
            false => Ok(read),
        }
    }

    async fn now(&self) -> Result<Micros, StoreError> {
        let rows = self.query(&self.executor, &sql::NOW, &[]).await?;
        rows.first().map_or(Ok(0), |row| Ok(row.need("now")?))
    }

    async fn reserve(
        &self,
        term: &Term,
        rows: &[Row],
        one_shot: OneShot,
    ) -> Result<Vec<Reserve>, StoreError> {
        let repeats = one_shot == OneShot::Repeat;
        let taken = self.fenced(term, &sql::RESERVE, &[&json(&rows), &repeats]).await?;
        let taken: Vec<_> = taken.iter().map(reservation).collect::<Result<_, _>>()?;
        let known: HashSet<Row> = taken.iter().map(|reservation| reservation.row).collect();
        let mut answers: Vec<_> =
            taken.into_iter().map(|taken| Reserve::Ready(Box::new(taken))).collect();
        let left: Vec<Row> = rows.iter().copied().filter(|row| !known.contains(row)).collect();
        if !left.is_empty() {
            answers.extend(self.left_over(term, &left, repeats).await?);
        }
        Ok(answers)
    }

    async fn unreserve(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        self.fenced(term, &sql::UNRESERVE, &[&json(&rows)]).await.map(drop)
    }

    async fn record(&self, term: &Term, finished: &[Finished]) -> Result<Vec<Ended>, StoreError> {
        let lines: Vec<_> = finished.iter().map(OutcomeLine::of).collect();
        let moved = self.fenced(term, &sql::RECORD, &[&json(&lines)]).await?;
        moved.iter().map(ended).collect()
    }

    async fn pending_webhooks(
        &self,
        above: Row,
        most: i64,
    ) -> Result<Vec<(Row, bool)>, StoreError> {
        let rows = self.query(&self.executor, &sql::PENDING_WEBHOOKS, &[&above, &most]).await?;
        let read = |row: &Line| Ok((row.need("row_number")?, row.need("was_attempted")?));
        rows.iter().map(read).collect()
    }

    async fn begin_webhooks(
        &self,
        term: &Term,
        rows: &[Row],
    ) -> Result<Vec<WebhookDue>, StoreError> {
        let taken = self.fenced(term, &sql::BEGIN_WEBHOOK, &[&json(&rows)]).await?;
        let read = |row: &Line| {
            Ok(WebhookDue {
                row: row.need("row_number")?,
                intent: stored(row)?.view,
                webhook: webhook(row)?,
                occurred_at: moment(row, "webhook_attempted_at")?,
            })
        };
        taken.iter().map(read).collect()
    }

    async fn unbegin_webhooks(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        self.fenced(term, &sql::UNBEGIN_WEBHOOK, &[&json(&rows)]).await.map(drop)
    }

    async fn finish_webhooks(
        &self,
        term: &Term,
        results: &[(Row, Option<String>)],
    ) -> Result<(), StoreError> {
        let line = |(row, error): &(Row, Option<String>)| ResultLine {
            row_number: *row,
            error: error.as_deref().map(text_of),
        };
        let lines: Vec<_> = results.iter().map(line).collect();
        self.fenced(term, &sql::FINISH_WEBHOOK, &[&json(&lines)]).await.map(drop)
    }

    fn news(&self) -> mpsc::UnboundedReceiver<News> {
        news::watch(self.clone())
    }
}
