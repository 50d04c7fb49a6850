//! Jobs on Postgres.

mod rows;
mod statements;
mod written;

use std::time::Duration;

use async_trait::async_trait;
use tenure::{Term, fence::postgres as fence};
use tenure_database::{
    DatabaseError, Deadline,
    postgres::{self, Heard, Moment, Pool, Pooled, PostgresUrl},
};
use tenure_http::KnownLeader;
use tokio::sync::watch;
use tokio_postgres::{Row as Line, types::ToSql};

use self::statements as sql;
use super::{Patience, Store, StoreError, known_history, new_history, refuse_other};
use crate::{
    agent::AgentView,
    event::{Event, Span},
    job::{Filter, JobView, Row},
    queue::Queued,
    round::{OpenLease, Round, RunOut, Written},
};

/// A server that says nothing for so long, not even that it is there, is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// How many connections readers share.
const READERS: usize = 4;
/// Whatever the leader asks for is a few rows among many, found by an index: statistics that are behind must not
/// make the planner read them all.
const FEW_ROWS: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";
const LISTEN: &str = "LISTEN tenure_job_events";

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A read.
    pub read: Duration,
    /// A write of the leader. Below the margin of its lease, so that none holds a takeover back.
    pub write: Duration,
}

/// The store.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    url: PostgresUrl,
    readers: Pool,
    /// What the leader reads: clients never stand in its way.
    leader: Pool,
    /// The leader's: one round at a time.
    writer: Pool,
    limits: Limits,
    patience: Patience,
}

impl PostgresStore {
    /// A store in a database whose schema is there.
    #[must_use]
    pub fn new(url: &PostgresUrl, limits: Limits, patience: Patience) -> Self {
        let url = url.noticing_silence(SILENCE);
        let settings = |limit: Duration| {
            let limit = limit.as_millis();
            format!(
                "SET synchronous_commit = on; SET statement_timeout = {limit}; \
                 SET idle_in_transaction_session_timeout = {limit}; \
                 SET default_transaction_isolation = 'read committed'; {FEW_ROWS}"
            )
        };
        let readers = Pool::to(url.clone(), READERS, &settings(limits.read));
        let leader = Pool::to(url.clone(), 1, &settings(limits.read));
        let writer = Pool::to(url.clone(), 1, &settings(limits.write));
        Self { url, readers, leader, writer, limits, patience }
    }

    async fn read(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Line>, StoreError> {
        self.ask(&self.readers, sql, parameters).await
    }

    async fn ask(
        &self,
        pool: &Pool,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Line>, StoreError> {
        let deadline = Deadline::after(self.limits.read);
        let mut session = pool.take(deadline).await?;
        let statement = deadline.run(session.prepared(sql)).await?;
        let rows = deadline.run(session.query(&statement, parameters)).await?;
        session.put_back();
        Ok(rows)
    }

    async fn ask_one(
        &self,
        pool: &Pool,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Line, StoreError> {
        let rows = self.ask(pool, sql, parameters).await?;
        rows.into_iter().next().ok_or_else(|| super::columns::unreadable("no row"))
    }

    async fn writer(&self, deadline: Deadline) -> Result<(Pooled, sql::Prepared), StoreError> {
        let mut session = self.writer.take(deadline).await?;
        let prepared = deadline.run(sql::Prepared::on(&mut session)).await?;
        Ok((session, prepared))
    }

    /// What is still to be known of jobs that were not stored now.
    async fn contents(&self, names: &[(&str, &str)]) -> Result<Vec<Line>, StoreError> {
        let (namespaces, ids): (Vec<_>, Vec<_>) = names.iter().copied().unzip();
        self.ask(&self.leader, sql::CONTENTS, &[&namespaces, &ids]).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn take_over(&self, term: &Term, leader_url: Option<&str>) -> Result<(), StoreError> {
        let deadline = Deadline::after(self.limits.write);
        let (mut session, prepared) = self.writer(deadline).await?;
        let (epoch, scope, leader) =
            (term.epoch().get(), term.scope().as_str(), term.holder().as_str());
        let (url, history) = (&leader_url, new_history());
        let written = async {
            let transaction = fence::begin(&mut session, term).await?;
            let line = transaction.query_one(&prepared.begin, &[]).await?;
            refuse_other(line.get("scope"), term)?;
            transaction
                .query(&prepared.take_over, &[&epoch, &scope, &leader, url, &history])
                .await?;
            transaction.query(&prepared.announce, &[&epoch, &leader, url]).await?;
            Ok::<_, StoreError>(transaction.commit().await?)
        };
        deadline.run(async { Ok::<_, DatabaseError>(written.await) }).await??;
        session.put_back();
        Ok(())
    }

    async fn write(&self, term: &Term, round: &Round) -> Result<Written, StoreError> {
        written::write(self, term, round).await
    }

    async fn queued(
        &self,
        priority: i16,
        above: Row,
        most: i64,
    ) -> Result<Vec<Queued>, StoreError> {
        let lines = self.ask(&self.leader, sql::QUEUED, &[&priority, &above, &most]).await?;
        Ok(lines.iter().map(rows::queued).collect())
    }

    async fn inherited(&self, term: &Term) -> Result<Vec<OpenLease>, StoreError> {
        let lines = self.ask(&self.leader, sql::INHERITED, &[&term.epoch().get()]).await?;
        Ok(lines.iter().map(rows::open_lease).collect())
    }

    async fn open_leases(&self) -> Result<i64, StoreError> {
        Ok(self.ask_one(&self.leader, sql::OPEN, &[]).await?.get("open"))
    }

    async fn has_run_out(&self, term: &Term, what: RunOut) -> Result<bool, StoreError> {
        let Patience { stale_after, tombstone_after, forget_after, events_kept, .. } =
            self.patience;
        let (stale, tombstoned, forgotten) =
            (millis(stale_after), millis(tombstone_after), millis(forget_after));
        let (epoch, RunOut { spares, agents }) = (term.epoch().get(), what);
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&epoch, &spares, &agents, &stale, &tombstoned, &forgotten, &events_kept];
        Ok(self.ask_one(&self.leader, sql::RUN_OUT, &parameters).await?.get("has_run_out"))
    }

    async fn job(&self, namespace: &str, job_id: &str) -> Result<Option<JobView>, StoreError> {
        let lines = self.read(&sql::JOB, &[&namespace, &job_id]).await?;
        lines.first().map(|line| rows::job(line).view()).transpose()
    }

    async fn jobs(&self, filter: &Filter) -> Result<Vec<JobView>, StoreError> {
        let state = filter.state.map(crate::job::State::as_str);
        let since = filter.since.map(|since| Moment::at(since.as_microsecond()));
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&filter.namespace, &state, &filter.agent, &filter.op, &since, &filter.most];
        let lines = self.read(&sql::JOBS, &parameters).await?;
        lines.iter().map(|line| rows::job(line).view()).collect()
    }

    async fn agents(&self, namespace: &str) -> Result<Vec<AgentView>, StoreError> {
        let lines = self.read(sql::AGENTS, &[&namespace]).await?;
        lines.iter().map(|line| rows::agent(line).view()).collect()
    }

    async fn leader(&self) -> Result<Option<KnownLeader>, StoreError> {
        Ok(self.read(sql::LEADER, &[]).await?.first().map(rows::leader))
    }

    async fn span(&self, there: i64) -> Result<Span, StoreError> {
        let line = self.ask_one(&self.readers, sql::STAND, &[&there]).await?;
        let last: i64 = line.get("last");
        Ok(Span {
            first: line.get::<_, Option<i64>>("first").unwrap_or(last + 1),
            last,
            history: known_history(line.get("history")),
            history_there: known_history(line.get("history_there")),
        })
    }

    async fn events(
        &self,
        namespace: &str,
        above: i64,
        up_to: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let lines = self.read(sql::EVENTS, &[&namespace, &above, &up_to]).await?;
        lines.iter().map(|line| rows::event(line).event()).collect()
    }

    /// Connects, and prepares all that a leader writes.
    async fn rehearse(&self) {
        if let Ok((session, _)) = self.writer(Deadline::after(self.limits.write)).await {
            session.put_back();
        }
    }

    fn news(&self) -> watch::Receiver<u64> {
        let (tell, told) = watch::channel(0);
        let mut heard = postgres::listen(self.url.clone(), LISTEN, self.limits.read);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tell.closed() => return,
                    heard = heard.recv() => match heard {
                        Some(Heard::Connected | Heard::Told(_)) => tell.send_modify(|times| *times += 1),
                        None => return,
                    },
                }
            }
        });
        told
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
