//! `tenure status`: who leads each scope, for how long still, and who did before.
//!
//! What was read from a database is put together here, the same for every database: the fence row says
//! which lock decides about a scope, that lock's row says who holds it, and the history says whether a
//! holder that is gone has ended its term.

mod postgres;
mod sqlite;
mod sqlserver;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use serde::Serialize;
use tenure::{DatabaseUrl, Scope};

#[cfg(test)]
pub use self::sqlserver::BATCHES;
use crate::{
    database::{self, PATIENCE},
    output::print,
};

/// What is asked.
#[derive(Debug)]
pub struct Question {
    pub db: DatabaseUrl,
    pub scope: Option<Scope>,
    pub terms: usize,
    pub json: bool,
}

/// All that a database says about some scopes.
#[derive(Debug, Default)]
struct Reading {
    fences: Vec<FenceRow>,
    locks: Vec<LockRow>,
    /// By scope, newest first.
    terms: BTreeMap<String, Vec<TermRow>>,
    /// Lease tables that this role may not read.
    hidden: Vec<String>,
}

#[derive(Debug)]
struct FenceRow {
    scope: String,
    epoch: i64,
    holder: String,
    lock: LockName,
}

/// The kind of lock and which one of its kind; both empty once an operator has switched it off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LockName {
    kind: String,
    place: String,
}

#[derive(Debug)]
struct LockRow {
    scope: String,
    lock: LockName,
    holder: String,
    epoch: i64,
    /// Unknown where this server cannot say.
    held: Option<bool>,
    /// Whether the row itself says that the holder gave it back.
    given_back: bool,
    left_ms: Option<i64>,
    heartbeat_age_ms: Option<i64>,
}

/// One term of the history.
#[derive(Clone, Debug, Serialize)]
struct TermRow {
    epoch: i64,
    holder: String,
    began_at: String,
    ended_at: Option<String>,
    reason: Option<String>,
}

/// The answer. Its field names are promised to programs.
#[derive(Debug, Serialize)]
struct Status {
    scopes: Vec<ScopeStatus>,
}

#[derive(Debug, Serialize)]
struct ScopeStatus {
    scope: String,
    /// `postgres-lease`, `postgres-advisory`, `sqlserver-lease`, `sqlite-lease` or `etcd`; null after it was switched off.
    lock: Option<String>,
    /// The table, the key, the file or the cluster.
    lock_place: Option<String>,
    /// Who holds it, or held it last.
    holder: Option<String>,
    /// The epoch of that holder's term.
    epoch: i64,
    /// Where the fence stands; null when the lock was never won with a fence.
    fence_epoch: Option<i64>,
    /// Null where this database cannot say.
    held: Option<bool>,
    /// What is left of a lease by the database's clock.
    left_ms: Option<i64>,
    /// How long ago the holder of an advisory lock proved itself.
    heartbeat_age_ms: Option<i64>,
    /// Newest first.
    terms: Vec<TermRow>,
    #[serde(skip)]
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Free,
    Expired,
    Unknown,
}

impl Question {
    pub async fn answer(&self) -> Result<()> {
        let reading = match &self.db {
            DatabaseUrl::Sqlite(data) => sqlite::read(data, self)?,
            DatabaseUrl::Postgres(url) => {
                let read = database::within(PATIENCE, postgres::read(url, self)).await;
                read.map_err(explain_rights)?
            }
            DatabaseUrl::SqlServer(url) => {
                let read = database::within(PATIENCE, sqlserver::read(url, self)).await;
                read.map_err(explain_rights)?
            }
        };
        let status = reading.status(self.terms);
        if status.scopes.is_empty()
            && let Some(scope) = &self.scope
        {
            bail!("no scope '{scope}' in {} (`tenure status` shows the scopes)", self.db);
        }
        print(&match self.json {
            true => serde_json::to_string_pretty(&status)? + "\n",
            false => table::of(&status, &self.db),
        })
    }

    /// Only this scope, as a parameter that is null for all.
    fn only(&self) -> Option<&str> {
        self.scope.as_ref().map(Scope::as_str)
    }

    /// The newest term is always read: it tells a free scope from an expired one.
    fn terms_to_read(&self) -> i64 {
        i64::try_from(self.terms.max(1)).unwrap_or(i64::MAX)
    }
}

fn explain_rights(error: anyhow::Error) -> anyhow::Error {
    match database::lacks_rights(&error) {
        true => error.context(
            "this role may not read Tenure's tables (the schema's owner can change that: \
             tenure migrate --grant-to ROLE)",
        ),
        false => error,
    }
}

impl Reading {
    fn scopes(&self) -> BTreeSet<String> {
        let fenced = self.fences.iter().map(|fence| &fence.scope);
        fenced.chain(self.locks.iter().map(|lock| &lock.scope)).cloned().collect()
    }

    fn status(&self, terms: usize) -> Status {
        let scopes = self.scopes();
        Status { scopes: scopes.into_iter().map(|scope| self.status_of(scope, terms)).collect() }
    }

    fn status_of(&self, scope: String, terms: usize) -> ScopeStatus {
        let fence = self.fences.iter().find(|fence| fence.scope == scope);
        let row = self.deciding_row(&scope, fence);
        let lock = row.map(|row| &row.lock).or(fence.map(|fence| &fence.lock));
        let lock = lock.cloned().unwrap_or_default();
        let holder = row.map(|row| &row.holder).or(fence.map(|fence| &fence.holder));
        let epoch = row.map(|row| row.epoch).or(fence.map(|fence| fence.epoch)).unwrap_or(0);
        let history = self.terms.get(&scope).map(Vec::as_slice).unwrap_or_default();
        let state = match row {
            Some(row) => row.state(history),
            None if self.can_see(&lock) => State::Free,
            None => State::Unknown,
        };
        ScopeStatus {
            lock: named(&lock.kind),
            lock_place: named(&lock.place),
            holder: holder.and_then(|holder| named(holder)),
            epoch,
            fence_epoch: fence.map(|fence| fence.epoch),
            held: (state != State::Unknown).then_some(state == State::Held),
            left_ms: row.and_then(|row| row.left_ms),
            heartbeat_age_ms: row.and_then(|row| row.heartbeat_age_ms),
            terms: history.iter().take(terms).cloned().collect(),
            state,
            scope,
        }
    }

    /// The row of the lock that the fence names. Where it names none, the one in use, or used last.
    fn deciding_row(&self, scope: &str, fence: Option<&FenceRow>) -> Option<&LockRow> {
        let rows = self.locks.iter().filter(|row| row.scope == scope);
        match fence.map(|fence| &fence.lock).filter(|lock| !lock.kind.is_empty()) {
            Some(lock) => rows.into_iter().find(|row| row.lock == *lock),
            None => rows.max_by_key(|row| (row.held, row.epoch)),
        }
    }

    /// Whether a row of this lock would have been read if there were one.
    fn can_see(&self, lock: &LockName) -> bool {
        match lock.kind.as_str() {
            "" | "postgres-advisory" | "sqlite-lease" | "sqlserver-lease" => true,
            "postgres-lease" => !self.hidden.contains(&lock.place),
            _ => false,
        }
    }
}

impl LockRow {
    fn state(&self, history: &[TermRow]) -> State {
        let term = history.iter().find(|term| term.epoch == self.epoch);
        let ended = self.given_back || term.is_some_and(|term| term.ended_at.is_some());
        match self.held {
            None => State::Unknown,
            Some(true) => State::Held,
            Some(false) if ended || self.holder.is_empty() => State::Free,
            Some(false) => State::Expired,
        }
    }
}

fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: &str) -> LockName {
        LockName { kind: kind.to_owned(), place: "here".to_owned() }
    }

    fn row(kind: &str, epoch: i64, held: bool) -> LockRow {
        LockRow {
            scope: "jobs".to_owned(),
            lock: lock(kind),
            holder: format!("node-{epoch}"),
            epoch,
            held: Some(held),
            given_back: false,
            left_ms: None,
            heartbeat_age_ms: None,
        }
    }

    fn jobs(fenced_by: LockName, locks: Vec<LockRow>) -> ScopeStatus {
        let (scope, holder) = ("jobs".to_owned(), "node-3".to_owned());
        let fences = vec![FenceRow { scope, epoch: 3, holder, lock: fenced_by }];
        let reading =
            Reading { fences, locks, hidden: vec!["here".to_owned()], ..Reading::default() };
        let mut status = reading.status(5);
        assert_eq!(status.scopes.len(), 1);
        status.scopes.remove(0)
    }

    #[test]
    fn the_lock_that_the_fence_names_decides() {
        let rows = || vec![row("postgres-lease", 3, false), row("postgres-advisory", 9, true)];
        let leased = jobs(lock("postgres-lease"), rows());
        assert_eq!((leased.epoch, leased.state, leased.held), (3, State::Expired, Some(false)));
        let locked = jobs(lock("postgres-advisory"), rows());
        assert_eq!((locked.epoch, locked.fence_epoch, locked.held), (9, Some(3), Some(true)));
    }

    #[test]
    fn where_the_fence_names_no_lock_the_one_in_use_is_shown() {
        let rows = vec![row("postgres-lease", 4, true), row("postgres-advisory", 9, false)];
        assert_eq!(jobs(LockName::default(), rows).lock.as_deref(), Some("postgres-lease"));
        let nobody = jobs(LockName::default(), Vec::new());
        assert_eq!((nobody.lock, nobody.state, nobody.epoch), (None, State::Free, 3));
    }

    #[test]
    fn a_lock_out_of_sight_is_neither_held_nor_free() {
        for kind in ["etcd", "postgres-lease"] {
            let unseen = jobs(lock(kind), Vec::new());
            assert_eq!((unseen.state, unseen.held), (State::Unknown, None));
            assert_eq!(unseen.holder.as_deref(), Some("node-3"));
        }
    }
}
