//! Reading the scopes of a data file and of the lease file beside it.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;
use tenure::{Scope, lock::sqlite_lease::LeaseFile};

use super::{FenceRow, LockName, LockRow, Question, Reading, TermRow};
use crate::database::{self, PATIENCE};

const FENCES: &str = include_str!("../../sql/sqlite/status/fences.sql");
const LEASE_NAMES: &str = include_str!("../../sql/sqlite/status/lease_names.sql");
const TERMS: &str = include_str!("../../sql/sqlite/status/terms.sql");

const LEASE_KIND: &str = "sqlite-lease";

pub(super) fn read(data: &Path, question: &Question) -> Result<Reading> {
    let mut file = database::open(data)?;
    let snapshot = file.transaction()?;
    let leases = LeaseFile::beside(data);
    let mut reading = Reading {
        fences: fences(&snapshot, question.only(), &leases)?,
        locks: locks(&leases, question.only())?,
        ..Reading::default()
    };
    for scope in reading.scopes() {
        let terms = terms(&snapshot, &scope, question.terms_to_read())?;
        reading.terms.insert(scope, terms);
    }
    Ok(reading)
}

fn fences(data: &Connection, only: Option<&str>, leases: &LeaseFile) -> Result<Vec<FenceRow>> {
    let mut query = data.prepare(FENCES)?;
    let rows = query.query_map([only], |row| {
        let kind: String = row.get("lock_kind")?;
        Ok(FenceRow {
            scope: row.get("scope")?,
            epoch: row.get("epoch")?,
            holder: row.get("holder")?,
            lock: if kind == LEASE_KIND {
                lock_of(leases)
            } else {
                LockName { kind, place: String::new() }
            },
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn lock_of(leases: &LeaseFile) -> LockName {
    LockName { kind: LEASE_KIND.to_owned(), place: leases.path().display().to_string() }
}

/// The lease file comes with the first lock that opens it: without it, nothing is held.
fn locks(leases: &LeaseFile, only: Option<&str>) -> Result<Vec<LockRow>> {
    if !leases.path().exists() {
        return Ok(Vec::new());
    }
    // Opening it as a lock does refuses a file that a newer binary has changed.
    let file = leases.open(PATIENCE)?;
    let mut query = file.prepare(LEASE_NAMES)?;
    let names: Vec<String> =
        query.query_map([only], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let rows = names.into_iter().map(|name| lock(leases, name));
    rows.filter_map(Result::transpose).collect()
}

fn lock(leases: &LeaseFile, name: String) -> Result<Option<LockRow>> {
    let scope = Scope::new(&name).context("the lease file has a row without a proper scope")?;
    let lease = leases.lease_of(&scope, PATIENCE)?;
    Ok(lease.map(|lease| LockRow {
        scope: name,
        lock: lock_of(leases),
        holder: lease.holder,
        epoch: lease.epoch.get(),
        held: Some(!lease.left.is_zero()),
        given_back: false,
        left_ms: Some(i64::try_from(lease.left.as_millis()).unwrap_or(i64::MAX)),
        heartbeat_age_ms: None,
    }))
}

fn terms(data: &Connection, scope: &str, count: i64) -> Result<Vec<TermRow>> {
    let mut query = data.prepare(TERMS)?;
    let rows = query.query_map((scope, count), |row| {
        Ok(TermRow {
            epoch: row.get("epoch")?,
            holder: row.get("holder")?,
            began_at: row.get("began_at")?,
            ended_at: row.get("ended_at")?,
            reason: row.get("reason")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
