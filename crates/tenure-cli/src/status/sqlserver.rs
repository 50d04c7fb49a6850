//! Reading the scopes of a SQL Server, as any role with the rights of `grant.sql` can.

use anyhow::{Context, Result};
use jiff::Timestamp;
use tenure_database::{
    DatabaseError,
    sqlserver::{Batch, Row, Session, SqlServerUrl},
    sqlserver_batch,
};

use super::{FenceRow, LockName, LockRow, Question, Reading, TermRow};
use crate::database;

/// All that is sent; `{table}` stands for a lease table.
#[cfg(test)]
pub const BATCHES: [Batch; 4] = [FENCES, LEASE_TABLES, LEASES, TERMS];
const FENCES: Batch = sqlserver_batch!("status/fences", 1);
const LEASE_TABLES: Batch = sqlserver_batch!("status/lease_tables", 0);
const LEASES: Batch = sqlserver_batch!("status/leases", 1);
const TERMS: Batch = sqlserver_batch!("status/terms", 2);

pub(super) async fn read(url: &SqlServerUrl, question: &Question) -> Result<Reading> {
    let mut session = database::connect_sqlserver(url).await?;
    // The driver has no type for a text that is null, and not every server takes it.
    let only = question.only().unwrap_or_default();
    let fences = session.query(&FENCES, &[&only]).await.map_err(DatabaseError::from)?;
    let fences = fences.iter().map(fence).collect::<Result<_>>()?;
    let mut reading = Reading { fences, ..Reading::default() };
    for table in session.query(&LEASE_TABLES, &[]).await.map_err(DatabaseError::from)? {
        let quoted = table.need::<&str>("quoted")?;
        let statement = LEASES.sql.replace("{table}", quoted);
        let rows = session.query_text(&statement, &[&only]).await.map_err(DatabaseError::from)?;
        let name = table.need::<&str>("name")?;
        for row in &rows {
            reading.locks.push(lease(row, name)?);
        }
    }
    for scope in reading.scopes() {
        let terms = terms(&mut session, &scope, question.terms_to_read()).await?;
        reading.terms.insert(scope, terms);
    }
    Ok(reading)
}

fn text(row: &Row, column: &str) -> Result<String> {
    Ok(row.need::<&str>(column)?.to_owned())
}

fn fence(row: &Row) -> Result<FenceRow> {
    Ok(FenceRow {
        scope: text(row, "scope")?,
        epoch: row.need("epoch")?,
        holder: text(row, "holder")?,
        lock: LockName { kind: text(row, "lock_kind")?, place: text(row, "lock_place")? },
    })
}

fn lease(row: &Row, table: &str) -> Result<LockRow> {
    Ok(LockRow {
        scope: text(row, "scope")?,
        lock: LockName { kind: "sqlserver-lease".to_owned(), place: table.to_owned() },
        holder: text(row, "holder")?,
        epoch: row.need("epoch")?,
        held: Some(row.need("held")?),
        given_back: false,
        left_ms: Some(row.need("left_ms")?),
        heartbeat_age_ms: None,
    })
}

async fn terms(session: &mut Session, scope: &str, most: i64) -> Result<Vec<TermRow>> {
    let rows = session.query(&TERMS, &[&scope, &most]).await.map_err(DatabaseError::from)?;
    let read = |row: &Row| {
        Ok(TermRow {
            epoch: row.need("epoch")?,
            holder: text(row, "holder")?,
            began_at: shown(row.need("began_at")?)?,
            ended_at: row.get::<i64>("ended_at")?.map(shown).transpose()?,
            reason: row.get::<&str>("reason")?.map(str::to_owned),
        })
    };
    rows.iter().map(read).collect()
}

/// In RFC 3339, to the millisecond.
fn shown(micros: i64) -> Result<String> {
    let at = Timestamp::from_microsecond(micros).context("a moment out of range")?;
    Ok(at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}
