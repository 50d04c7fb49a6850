//! Intents in a SQLite file: for the instances of one machine.
//!
//! A file has one writer at a time. So transactions commit in the order in which they began to write, and a number
//! that each of them takes is all that a refresh needs to miss nothing.

mod columns;
mod execute;
mod news;
mod webhooks;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, named_params};
use tenure::{Term, fence::sqlite as fence};
use tenure_database::{
    DatabaseError, Deadline,
    sqlite::{self, FileThread},
};
use tokio::sync::mpsc;

use self::columns::{attempt, change, intent};
use super::{
    Each, Ended, Finished, News, OneShot, Position, Read, Refreshed, Reserve, Store, StoreError,
    Stored, Submission, Submitted, WebhookDue,
    batch::Batch,
    columns::{ContractColumns, IntentColumns, unreadable},
};
use crate::{
    intent::AttemptView,
    schedule::{Micros, Row},
};

const BEGIN_CHANGE: &str = include_str!("../../sql/sqlite/begin_change.sql");
const INSERT: &str = include_str!("../../sql/sqlite/intake/insert.sql");
const FIND: &str = include_str!("../../sql/sqlite/intake/find.sql");
const FIND_ROW: &str = include_str!("../../sql/sqlite/intake/find_row.sql");
const ATTEMPTS: &str = include_str!("../../sql/sqlite/intake/attempts.sql");
const NOW: &str = include_str!("../../sql/sqlite/schedule/now.sql");
const STAND: &str = include_str!("../../sql/sqlite/schedule/stand.sql");
const REBUILD: &str = include_str!("../../sql/sqlite/schedule/rebuild.sql");
const REFRESH: &str = include_str!("../../sql/sqlite/schedule/refresh.sql");
const PENDING_WEBHOOKS: &str = include_str!("../../sql/sqlite/webhook/pending.sql");

/// How many rows a refresh reads at once.
const PAGE: i64 = 5_000;
/// A rebuild reads everything.
const REBUILD_WITHIN: Duration = Duration::from_secs(600);

/// The store.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// What clients write.
    intake: FileThread,
    /// What the leader writes: it never stands behind what a client sends.
    writer: FileThread,
    /// What the leader reads.
    executor: FileThread,
    /// What clients read: they never stand in the leader's way.
    clients: FileThread,
    patience: Duration,
}

/// A transaction that writes intents.
struct Writing<'t> {
    transaction: &'t Transaction<'t>,
    /// Which, in the order of commits.
    number: i64,
    /// The moment of all its writes.
    now: Micros,
}

impl<'t> Writing<'t> {
    fn begin(transaction: &'t Transaction<'t>) -> Result<Self, StoreError> {
        let mut begin = transaction.prepare_cached(BEGIN_CHANGE)?;
        let (number, now) = begin.query_row([], |row| Ok((row.get("number")?, row.get("now")?)))?;
        Ok(Self { transaction, number, now })
    }
}

impl SqliteStore {
    /// A store in a file whose schema is there, and whose calls answer within `patience`.
    pub fn open(path: &Path, patience: Duration) -> Result<Self, DatabaseError> {
        let start = || thread(path, patience);
        let (intake, writer, executor, clients) = (start()?, start()?, start()?, start()?);
        Ok(Self { path: path.to_owned(), intake, writer, executor, clients, patience })
    }

    async fn on<T: Send + 'static>(
        &self,
        thread: &FileThread,
        job: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        thread.call(Deadline::after(self.patience), |file| Ok(job(file))).await?
    }

    /// Writes what only this term can commit.
    async fn fenced<T: Send + 'static>(
        &self,
        term: &Term,
        write: impl FnOnce(&Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (term, path) = (term.clone(), self.path.clone());
        let written = self.on(&self.writer, move |file| {
            let transaction = fence::begin(file, &path, &term)?;
            let answer = write(&Writing::begin(&transaction)?)?;
            transaction.commit()?;
            sqlite::announce(&path);
            Ok(answer)
        });
        written.await
    }
}

fn thread(path: &Path, patience: Duration) -> Result<FileThread, DatabaseError> {
    FileThread::start(sqlite::open(path, patience)?).map_err(|_| DatabaseError::ThreadEnded)
}

fn insert(writing: &Writing<'_>, one: &Submission) -> Result<Option<Row>, rusqlite::Error> {
    let contract = ContractColumns::of(&one.contract);
    let parameters = named_params! {
        ":intent_id": one.intent_id,
        ":submission_target": one.submission_target,
        ":payload": &one.payload[..],
        ":payload_hash": one.payload_hash,
        ":gateway_type": contract.gateway_type,
        ":gateway_url": contract.gateway_url,
        ":policy": contract.policy,
        ":max_acceptance_seconds": contract.max_acceptance_seconds,
        ":max_attempts": contract.max_attempts,
        ":terminal_outcomes": contract.terminal_outcomes,
        ":webhook_url": contract.webhook_url,
        ":webhook_headers": contract.webhook_headers,
        ":webhook_headers_env": contract.webhook_headers_env,
        ":webhook_secret_env": contract.webhook_secret_env,
        ":now": writing.now,
        ":number": writing.number,
    };
    let mut insert = writing.transaction.prepare_cached(INSERT)?;
    insert.query_row(parameters, |row| row.get(0)).optional()
}

/// Stores each id once, or finds what has it. One that the file refuses fails alone: the others go on.
fn submit(file: &mut Connection, submissions: &[Submission]) -> Result<Vec<Submitted>, StoreError> {
    let mut batch = Batch::of(submissions);
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let writing = Writing::begin(&transaction)?;
    for one in batch.unique() {
        match insert(&writing, one) {
            Ok(Some(row)) => batch.is_new(&one.intent_id, row, writing.now)?,
            Ok(None) => {
                find(&transaction, &one.intent_id)?
                    .into_iter()
                    .for_each(|stored| batch.was_there(stored));
            }
            Err(error) if is_of_the_data(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    transaction.commit()?;
    Ok(batch.answers())
}

fn is_of_the_data(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{ConstraintViolation, TooBig, TypeMismatch};
    let code = error.sqlite_error_code();
    matches!(code, Some(ConstraintViolation | TooBig | TypeMismatch))
}

fn find(file: &Connection, id: &str) -> Result<Option<Stored>, StoreError> {
    let mut find = file.prepare_cached(FIND)?;
    let found = find.query_row(named_params! {":intent_id": id}, intent).optional()?;
    found.map(IntentColumns::stored).transpose()
}

fn find_row(file: &Connection, row: Row) -> Result<Option<Stored>, StoreError> {
    let mut find = file.prepare_cached(FIND_ROW)?;
    let found = find.query_row(named_params! {":row_number": row}, intent).optional()?;
    found.map(IntentColumns::stored).transpose()
}

/// The number of the last transaction that wrote, and which file this is.
fn stand(file: &Connection) -> Result<(i64, String), StoreError> {
    let mut stand = file.prepare_cached(STAND)?;
    Ok(stand.query_row([], |row| Ok((row.get("number")?, row.get("file")?)))?)
}

fn now(file: &Connection) -> Result<Micros, StoreError> {
    Ok(file.prepare_cached(NOW)?.query_row([], |row| row.get(0))?)
}

fn rebuild(file: &mut Connection) -> Result<Read, StoreError> {
    // One transaction sees one moment.
    let transaction = file.transaction()?;
    let (number, server) = stand(&transaction)?;
    let mut query = transaction.prepare(REBUILD)?;
    let changes = query.query_map([], change)?.collect::<Result<_, _>>()?;
    Ok(Read { changes, position: Position { marker: number.to_string(), server } })
}

fn refresh(file: &mut Connection, since: &Position) -> Result<Refreshed, StoreError> {
    let since: i64 = since.marker.parse().map_err(|_| unreadable("a position of another kind"))?;
    let transaction = file.transaction()?;
    let (number, mut server) = stand(&transaction)?;
    if number < since {
        // Somebody has put an older copy in its place.
        server.push_str(" restored");
    }
    let mut read = Refreshed { now: now(&transaction)?, ..Refreshed::default() };
    let mut cursor = (i64::MIN, String::new());
    loop {
        let mut query = transaction.prepare_cached(REFRESH)?;
        let mut page = query.query(named_params! {
            ":number": since,
            ":last_modified_at": cursor.0,
            ":intent_id": cursor.1,
            ":most": PAGE,
        })?;
        let mut rows = 0;
        while let Some(row) = page.next()? {
            read.changes.push(change(row)?);
            cursor = (row.get("last_modified_at")?, row.get("intent_id")?);
            rows += 1;
        }
        if rows < PAGE {
            read.position = Position { marker: number.to_string(), server };
            return Ok(read);
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn submit(&self, batch: &[Submission]) -> Result<Vec<Submitted>, StoreError> {
        let (ours, path) = (batch.to_vec(), self.path.clone());
        let stored = self.on(&self.intake, move |file| {
            let answers = submit(file, &ours)?;
            sqlite::announce(&path);
            Ok(answers)
        });
        stored.await
    }

    async fn find(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        let found = self.on(&self.clients, move |file| {
            ids.iter().filter_map(|id| find(file, id).transpose()).collect()
        });
        found.await
    }

    async fn find_rows(&self, rows: &[Row]) -> Result<Vec<Stored>, StoreError> {
        let rows = rows.to_vec();
        let found = self.on(&self.clients, move |file| {
            rows.iter().filter_map(|row| find_row(file, *row).transpose()).collect()
        });
        found.await
    }

    async fn attempts(&self, intent_id: &str) -> Result<Vec<AttemptView>, StoreError> {
        let id = intent_id.to_owned();
        let read = self.on(&self.clients, move |file| {
            let mut query = file.prepare_cached(ATTEMPTS)?;
            let mut rows = query.query(named_params! {":intent_id": id})?;
            let mut attempts = Vec::new();
            while let Some(row) = rows.next()? {
                attempts.push(attempt(row, &id)?);
            }
            Ok(attempts)
        });
        read.await
    }

    async fn pending(&self, each: Each<'_>) -> Result<Position, StoreError> {
        // On a connection of its own: it may take long, and refreshes go on meanwhile.
        let deadline = Deadline::after(REBUILD_WITHIN);
        let reader = thread(&self.path, self.patience)?;
        let read = reader.call(deadline, |file| Ok(rebuild(file))).await??;
        read.changes.into_iter().for_each(each);
        Ok(read.position)
    }

    async fn refresh(&self, since: &Position) -> Result<Refreshed, StoreError> {
        let since = since.clone();
        self.on(&self.executor, move |file| refresh(file, &since)).await
    }

    async fn now(&self) -> Result<Micros, StoreError> {
        self.on(&self.executor, |file| now(file)).await
    }

    async fn reserve(
        &self,
        term: &Term,
        rows: &[Row],
        one_shot: OneShot,
    ) -> Result<Vec<Reserve>, StoreError> {
        let (rows, epoch) = (rows.to_vec(), term.epoch().get());
        let reserved = self.fenced(term, move |writing| {
            rows.iter()
                .filter_map(|row| execute::reserve(writing, *row, epoch, one_shot).transpose())
                .collect()
        });
        reserved.await
    }

    async fn unreserve(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        let (rows, epoch) = (rows.to_vec(), term.epoch().get());
        let given_back = self.fenced(term, move |writing| {
            rows.iter().try_for_each(|row| execute::unreserve(writing, *row, epoch))
        });
        given_back.await
    }

    async fn record(&self, term: &Term, finished: &[Finished]) -> Result<Vec<Ended>, StoreError> {
        let finished = finished.to_vec();
        let recorded = self.fenced(term, move |writing| {
            finished.iter().filter_map(|done| execute::record(writing, done).transpose()).collect()
        });
        recorded.await
    }

    async fn pending_webhooks(
        &self,
        above: Row,
        most: i64,
    ) -> Result<Vec<(Row, bool)>, StoreError> {
        let pending = self.on(&self.executor, move |file| {
            let mut query = file.prepare_cached(PENDING_WEBHOOKS)?;
            let rows = query.query_map(named_params! {":above": above, ":most": most}, |row| {
                Ok((row.get("row_number")?, row.get("was_attempted")?))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        });
        pending.await
    }

    async fn begin_webhooks(
        &self,
        term: &Term,
        rows: &[Row],
    ) -> Result<Vec<WebhookDue>, StoreError> {
        let rows = rows.to_vec();
        let begun = self.fenced(term, move |writing| {
            rows.iter().filter_map(|row| webhooks::begin(writing, *row).transpose()).collect()
        });
        begun.await
    }

    async fn unbegin_webhooks(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        let rows = rows.to_vec();
        let given_back = self.fenced(term, move |writing| {
            rows.iter().try_for_each(|row| webhooks::unbegin(writing, *row))
        });
        given_back.await
    }

    async fn finish_webhooks(
        &self,
        term: &Term,
        results: &[(Row, Option<String>)],
    ) -> Result<(), StoreError> {
        let results = results.to_vec();
        let finished = self.fenced(term, move |writing| {
            results
                .iter()
                .try_for_each(|(row, error)| webhooks::finish(writing, *row, error.as_deref()))
        });
        finished.await
    }

    fn news(&self) -> mpsc::UnboundedReceiver<News> {
        news::listen(self.clone())
    }
}
