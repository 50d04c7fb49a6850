//! Reading the scopes of a server, as any role with the rights of `grant.sql` can.

use anyhow::Result;
use tenure_database::postgres::PostgresUrl;
use tokio_postgres::{IsolationLevel, Row, Transaction, types::Type};

use super::{FenceRow, LockName, LockRow, Question, Reading, TermRow};
use crate::database::{self, Parameter};

const STANDBY: &str = include_str!("../../sql/postgres/status/standby.sql");
const FENCES: &str = include_str!("../../sql/postgres/status/fences.sql");
const LEASE_TABLES: &str = include_str!("../../sql/postgres/status/lease_tables.sql");
const LEASES: &str = include_str!("../../sql/postgres/status/leases.sql");
const ADVISORY: &str = include_str!("../../sql/postgres/status/advisory.sql");
const TERMS: &str = include_str!("../../sql/postgres/status/terms.sql");

/// Reads everything in one snapshot, so that a takeover is seen whole or not at all.
pub(super) async fn read(url: &PostgresUrl, question: &Question) -> Result<Reading> {
    let mut session = database::connect(url).await?;
    let snapshot = session
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    warn_on_standby(&snapshot).await?;
    let only = question.only();
    let mut reading = Reading { fences: fences(&snapshot, only).await?, ..Reading::default() };
    read_leases(&snapshot, only, &mut reading).await?;
    reading.locks.extend(advisory(&snapshot, only).await?);
    read_terms(&snapshot, question, &mut reading).await?;
    Ok(reading)
}

async fn warn_on_standby(snapshot: &Transaction<'_>) -> Result<()> {
    if snapshot.query_typed_one(STANDBY, &[]).await?.get(0) {
        tracing::warn!(target: "tenure", "this server is a standby: what it shows may be late");
    }
    Ok(())
}

async fn fences(snapshot: &Transaction<'_>, only: Option<&str>) -> Result<Vec<FenceRow>> {
    let rows = snapshot.query_typed(FENCES, &[(&only, Type::TEXT)]).await?;
    let fence = |row: &Row| FenceRow {
        scope: row.get("scope"),
        epoch: row.get("epoch"),
        holder: row.get("holder"),
        lock: LockName { kind: row.get("lock_kind"), place: row.get("lock_place") },
    };
    Ok(rows.iter().map(fence).collect())
}

async fn read_leases(
    snapshot: &Transaction<'_>,
    only: Option<&str>,
    reading: &mut Reading,
) -> Result<()> {
    for table in snapshot.query_typed(LEASE_TABLES, &[]).await? {
        let (name, quoted): (String, String) = (table.get("name"), table.get("quoted"));
        if !table.get::<_, bool>("readable") {
            tracing::warn!(target: "tenure", table = quoted, "this role may not read a lease table");
            reading.hidden.push(name);
            continue;
        }
        let statement = LEASES.replace("{table}", &quoted);
        let rows = snapshot.query_typed(&statement, &[(&only, Type::TEXT)]).await?;
        reading.locks.extend(rows.iter().map(|row| lease(row, &name)));
    }
    Ok(())
}

fn lease(row: &Row, table: &str) -> LockRow {
    LockRow {
        scope: row.get("scope"),
        lock: LockName { kind: "postgres-lease".to_owned(), place: table.to_owned() },
        holder: row.get("holder"),
        epoch: row.get("epoch"),
        held: Some(row.get("held")),
        given_back: false,
        left_ms: Some(row.get("left_ms")),
        heartbeat_age_ms: None,
    }
}

async fn advisory(snapshot: &Transaction<'_>, only: Option<&str>) -> Result<Vec<LockRow>> {
    let rows = snapshot.query_typed(ADVISORY, &[(&only, Type::TEXT)]).await?;
    let lock = |row: &Row| LockRow {
        scope: row.get("scope"),
        lock: LockName { kind: "postgres-advisory".to_owned(), place: row.get("lock_place") },
        holder: row.get("holder"),
        epoch: row.get("epoch"),
        held: row.get("held"),
        given_back: row.get("given_back"),
        left_ms: None,
        heartbeat_age_ms: row.get("heartbeat_age_ms"),
    };
    Ok(rows.iter().map(lock).collect())
}

async fn read_terms(
    snapshot: &Transaction<'_>,
    question: &Question,
    reading: &mut Reading,
) -> Result<()> {
    let scopes: Vec<String> = reading.scopes().into_iter().collect();
    let count = question.terms_to_read();
    let parameters: [Parameter<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&count, Type::INT8)];
    for row in snapshot.query_typed(TERMS, &parameters).await? {
        let term = TermRow {
            epoch: row.get("epoch"),
            holder: row.get("holder"),
            began_at: row.get("began_at"),
            ended_at: row.get("ended_at"),
            reason: row.get("reason"),
        };
        reading.terms.entry(row.get("scope")).or_default().push(term);
    }
    Ok(())
}
