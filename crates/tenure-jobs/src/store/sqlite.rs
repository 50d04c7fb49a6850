//! Jobs in a SQLite file: for one machine, whose clock is the database's.

mod rows;
mod taken_back;
mod written;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, named_params};
use tenure::{Term, fence::sqlite as fence};
use tenure_database::{
    DatabaseError, Deadline,
    sqlite::{self, FileThread},
};
use tenure_http::KnownLeader;
use tokio::sync::{mpsc, watch};

use self::written::Writing;
use super::{Patience, Store, StoreError, known_history};
use crate::{
    agent::AgentView,
    event::{Event, Span},
    job::{Filter, JobView, Row, State},
    queue::Queued,
    round::{OpenLease, Round, RunOut, Written},
};

macro_rules! read {
    ($name:literal) => {
        include_str!(concat!("../../sql/sqlite/read/", $name, ".sql"))
    };
}

macro_rules! write {
    ($name:literal) => {
        include_str!(concat!("../../../sql/sqlite/write/", $name, ".sql"))
    };
}
use write;

const COLUMNS: &str = include_str!("../../sql/sqlite/fragment/job.sql");
static JOB: LazyLock<String> = LazyLock::new(|| read!("job").replace("{job}", COLUMNS));
static JOBS: LazyLock<String> = LazyLock::new(|| read!("jobs").replace("{job}", COLUMNS));

/// How often to look where nothing was heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The store.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writer: FileThread,
    /// What the leader reads.
    leader: FileThread,
    /// What clients read: they never stand in the leader's way.
    clients: FileThread,
    limit: Duration,
    patience: Patience,
}

impl SqliteStore {
    /// A store in a file whose schema is there, and whose calls answer within `limit`.
    pub fn open(path: &Path, limit: Duration, patience: Patience) -> Result<Self, DatabaseError> {
        let thread = || {
            let file = sqlite::open(path, limit)?;
            FileThread::start(file).map_err(|_| DatabaseError::ThreadEnded)
        };
        let (writer, leader, clients) = (thread()?, thread()?, thread()?);
        Ok(Self { path: path.to_owned(), writer, leader, clients, limit, patience })
    }

    async fn on<T: Send + 'static>(
        &self,
        thread: &FileThread,
        job: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        thread.call(Deadline::after(self.limit), |file| Ok(job(file))).await?
    }

    /// Writes what only this term can commit.
    async fn fenced<T: Send + 'static>(
        &self,
        term: &Term,
        write: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (term, path) = (term.clone(), self.path.clone());
        let written = self.on(&self.writer, move |file| {
            let transaction = fence::begin(file, &path, &term)?;
            let mut writing = Writing::begin(&transaction, &term)?;
            let answer = write(&mut writing)?;
            writing.end()?;
            transaction.commit()?;
            sqlite::announce(&path);
            Ok(answer)
        });
        written.await
    }
}

/// All rows of a statement, each read.
fn all<T, E>(
    file: &Connection,
    sql: &str,
    parameters: impl Params,
    read: impl Fn(&rusqlite::Row<'_>) -> Result<T, E>,
) -> Result<Vec<T>, StoreError>
where
    StoreError: From<E>,
{
    let mut statement = file.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut read_all = Vec::new();
    while let Some(row) = rows.next()? {
        read_all.push(read(row)?);
    }
    Ok(read_all)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Store for SqliteStore {
    async fn take_over(&self, term: &Term, leader_url: Option<&str>) -> Result<(), StoreError> {
        let url = leader_url.map(str::to_owned);
        self.fenced(term, move |writing| writing.take_over(url.as_deref())).await
    }

    async fn write(&self, term: &Term, round: &Round) -> Result<Written, StoreError> {
        let (round, patience) = (round.clone(), self.patience);
        self.fenced(term, move |writing| writing.write(&round, &patience)).await
    }

    async fn queued(
        &self,
        priority: i16,
        above: Row,
        most: i64,
    ) -> Result<Vec<Queued>, StoreError> {
        let read = self.on(&self.leader, move |file| {
            let which = named_params! { ":priority": priority, ":above": above, ":most": most };
            all(file, read!("queued"), which, rows::queued)
        });
        read.await
    }

    async fn inherited(&self, term: &Term) -> Result<Vec<OpenLease>, StoreError> {
        let epoch = term.epoch().get();
        let read = self.on(&self.leader, move |file| {
            all(file, read!("inherited"), named_params! { ":epoch": epoch }, rows::open_lease)
        });
        read.await
    }

    async fn open_leases(&self) -> Result<i64, StoreError> {
        let read = self.on(&self.leader, |file| {
            Ok(file.prepare_cached(read!("open"))?.query_row([], |row| row.get(0))?)
        });
        read.await
    }

    async fn has_run_out(&self, term: &Term, what: RunOut) -> Result<bool, StoreError> {
        let Patience { stale_after, tombstone_after, forget_after, events_kept, .. } =
            self.patience;
        let epoch = term.epoch().get();
        let looked = self.on(&self.leader, move |file| {
            let limits = named_params! {
                ":leader_epoch": epoch,
                ":spares": what.spares,
                ":agents": what.agents,
                ":stale": micros(stale_after),
                ":tombstoned": micros(tombstone_after),
                ":deleted": micros(forget_after),
                ":kept": events_kept,
            };
            Ok(file.prepare_cached(read!("run_out"))?.query_row(limits, |row| row.get(0))?)
        });
        looked.await
    }

    async fn job(&self, namespace: &str, job_id: &str) -> Result<Option<JobView>, StoreError> {
        let (namespace, job_id) = (namespace.to_owned(), job_id.to_owned());
        let found = self.on(&self.clients, move |file| {
            let name = named_params! { ":namespace": namespace, ":job_id": job_id };
            let found = file.prepare_cached(&JOB)?.query_row(name, rows::job).optional()?;
            found.map(super::columns::JobColumns::view).transpose()
        });
        found.await
    }

    async fn jobs(&self, filter: &Filter) -> Result<Vec<JobView>, StoreError> {
        let filter = filter.clone();
        let listed = self.on(&self.clients, move |file| {
            let which = named_params! {
                ":namespace": filter.namespace,
                ":state": filter.state.map(State::as_str),
                ":agent": filter.agent,
                ":op": filter.op,
                ":since": filter.since.map(Timestamp::as_microsecond),
                ":most": filter.most,
            };
            all(file, &JOBS, which, |row| rows::job(row)?.view())
        });
        listed.await
    }

    async fn agents(&self, namespace: &str) -> Result<Vec<AgentView>, StoreError> {
        let namespace = namespace.to_owned();
        let listed = self.on(&self.clients, move |file| {
            let which = named_params! { ":namespace": namespace };
            all(file, read!("agents"), which, |row| rows::agent(row)?.view())
        });
        listed.await
    }

    async fn leader(&self) -> Result<Option<KnownLeader>, StoreError> {
        let known = self.on(&self.clients, |file| {
            let mut statement = file.prepare_cached(read!("leader"))?;
            Ok(statement.query_row([], rows::leader).optional()?)
        });
        known.await
    }

    async fn span(&self, there: i64) -> Result<Span, StoreError> {
        self.on(&self.clients, move |file| Ok(span(file, there)?)).await
    }

    async fn events(
        &self,
        namespace: &str,
        above: i64,
        up_to: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let namespace = namespace.to_owned();
        let read = self.on(&self.clients, move |file| {
            let which = named_params! { ":namespace": namespace, ":above": above, ":up_to": up_to };
            all(file, read!("events"), which, |row| rows::event(row)?.event())
        });
        read.await
    }

    fn news(&self) -> watch::Receiver<u64> {
        let (tell, told) = watch::channel(0);
        let (changed, mut changes) = mpsc::unbounded_channel();
        sqlite::watch(self.path.clone(), changed, || ());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tell.closed() => return,
                    Some(()) = changes.recv() => while changes.try_recv().is_ok() {},
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
                tell.send_modify(|times| *times += 1);
            }
        });
        told
    }
}

fn span(file: &Connection, there: i64) -> Result<Span, rusqlite::Error> {
    let which = named_params! { ":there": there };
    file.prepare_cached(read!("stand"))?.query_row(which, |row| {
        let last: i64 = row.get("last")?;
        Ok(Span {
            first: row.get::<_, Option<i64>>("first")?.unwrap_or(last + 1),
            last,
            history: known_history(row.get("history")?),
            history_there: known_history(row.get("history_there")?),
        })
    })
}
