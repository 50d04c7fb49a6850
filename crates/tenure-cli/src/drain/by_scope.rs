//! Through the database: whoever leads the scope sees the order there.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rusqlite::{OptionalExtension, TransactionBehavior};
use tenure::{DatabaseUrl, Scope, fence::sqlite::by_hand};
use tenure_database::{
    postgres::PostgresUrl,
    sqlserver::{Batch, Row},
    sqlserver_batch,
};
use tokio_postgres::types::Type;

use super::{Drain, Seen};
use crate::{
    database::{self, PATIENCE, Parameter},
    output::print,
};

const DRAIN: &str = include_str!("../../sql/postgres/scope/drain.sql");
const END_DRAIN: &str = include_str!("../../sql/postgres/scope/end_drain.sql");
const LATEST_TERM: &str = include_str!("../../sql/postgres/scope/latest_term.sql");
const LATEST_TERM_IN_FILE: &str = include_str!("../../sql/sqlite/scope/latest_term.sql");

/// What is sent to SQL Server.
#[cfg(test)]
pub const BATCHES: [Batch; 3] = [DRAIN_THERE, END_DRAIN_THERE, LATEST_TERM_THERE];
const DRAIN_THERE: Batch = sqlserver_batch!("scope/drain", 1);
const END_DRAIN_THERE: Batch = sqlserver_batch!("scope/end_drain", 1);
const LATEST_TERM_THERE: Batch = sqlserver_batch!("scope/latest_term", 1);

pub async fn drain(drain: &Drain, db: &DatabaseUrl, scope: &Scope) -> Result<()> {
    let latest = latest_term(db, scope).await?;
    let latest = latest.ok_or_else(|| {
        anyhow!(
            "nobody has ever led the scope '{scope}' in {db} (`tenure status` shows the scopes)"
        )
    })?;
    if drain.undo {
        let told = match take_back(db, scope).await? {
            true => "whoever was drained contends again",
            false => "nobody was drained through this database",
        };
        return print(&format!("scope {scope}: {told}\n"));
    }
    match ask(db, scope).await? {
        Some(asked) => {
            let look = async || {
                let seen = latest_term(db, scope).await?;
                seen.with_context(|| format!("the terms of scope {scope} have vanished"))
            };
            drain.follow(&asked, look).await
        }
        None => print(&format!(
            "scope {scope}: nobody leads; {} was the last, in term {}\n",
            latest.holder, latest.epoch
        )),
    }
}

async fn ask(db: &DatabaseUrl, scope: &Scope) -> Result<Option<Seen>> {
    let seen = |epoch: i64, holder: String| Seen { holder, epoch, goes_on: true };
    match db {
        DatabaseUrl::Sqlite(data) => {
            let mut file = database::open(data)?;
            let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let asked = by_hand::drain(&transaction, scope)?;
            transaction.commit().context("nobody was asked")?;
            Ok(asked.map(|(epoch, holder)| seen(epoch.get(), holder)))
        }
        DatabaseUrl::Postgres(url) => {
            let rows = query(url, DRAIN, scope).await.map_err(needs_rights)?;
            Ok(rows.first().map(|row| seen(row.get("epoch"), row.get("holder"))))
        }
        DatabaseUrl::SqlServer(url) => {
            let rows = database::query_sqlserver(url, &DRAIN_THERE, &[&scope.as_str()]).await;
            let rows = rows.map_err(needs_rights)?;
            let read = |row: &Row| Ok(seen(row.need("epoch")?, row.need::<&str>("holder")?.into()));
            rows.first().map(read).transpose()
        }
    }
}

async fn take_back(db: &DatabaseUrl, scope: &Scope) -> Result<bool> {
    match db {
        DatabaseUrl::Sqlite(data) => {
            let mut file = database::open(data)?;
            let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let had_been = by_hand::end_drain(&transaction, scope)?;
            transaction.commit().context("nothing was taken back")?;
            Ok(had_been)
        }
        DatabaseUrl::Postgres(url) => {
            let rows = query(url, END_DRAIN, scope).await.map_err(needs_rights)?;
            Ok(rows.first().is_some_and(|row| row.get(0)))
        }
        DatabaseUrl::SqlServer(url) => {
            let rows = database::query_sqlserver(url, &END_DRAIN_THERE, &[&scope.as_str()]).await;
            let rows = rows.map_err(needs_rights)?;
            Ok(rows.first().map(|row| row.need("had_been")).transpose()?.unwrap_or_default())
        }
    }
}

fn needs_rights(error: anyhow::Error) -> anyhow::Error {
    match database::lacks_rights(&error) {
        true => {
            error.context("this role may not drain (`tenure migrate --grant-to ROLE` grants it)")
        }
        false => error,
    }
}

async fn latest_term(db: &DatabaseUrl, scope: &Scope) -> Result<Option<Seen>> {
    match db {
        DatabaseUrl::Sqlite(data) => latest_in_file(data, scope),
        DatabaseUrl::Postgres(url) => {
            let rows = query(url, LATEST_TERM, scope).await?;
            Ok(rows.first().map(|row| Seen {
                holder: row.get("holder"),
                epoch: row.get("epoch"),
                goes_on: !row.get::<_, bool>("has_ended"),
            }))
        }
        DatabaseUrl::SqlServer(url) => {
            let rows =
                database::query_sqlserver(url, &LATEST_TERM_THERE, &[&scope.as_str()]).await?;
            let read = |row: &Row| {
                Ok(Seen {
                    holder: row.need::<&str>("holder")?.to_owned(),
                    epoch: row.need("epoch")?,
                    goes_on: !row.need::<bool>("has_ended")?,
                })
            };
            rows.first().map(read).transpose()
        }
    }
}

fn latest_in_file(data: &Path, scope: &Scope) -> Result<Option<Seen>> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Seen {
            holder: row.get("holder")?,
            epoch: row.get("epoch")?,
            goes_on: !row.get::<_, bool>("has_ended")?,
        })
    };
    let file = database::open(data)?;
    Ok(file.query_row(LATEST_TERM_IN_FILE, [scope.as_str()], read).optional()?)
}

async fn query(
    url: &PostgresUrl,
    statement: &str,
    scope: &Scope,
) -> Result<Vec<tokio_postgres::Row>> {
    database::within(PATIENCE, async {
        let session = database::connect(url).await?;
        let scope = scope.as_str();
        let parameters: [Parameter<'_>; 1] = [(&scope, Type::TEXT)];
        Ok(session.query_typed(statement, &parameters).await?)
    })
    .await
}
