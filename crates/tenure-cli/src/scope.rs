//! `tenure scope …`: what an operator changes by hand.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rusqlite::TransactionBehavior;
use tenure::{DatabaseUrl, Scope, fence::sqlite::by_hand};
use tenure_database::{
    postgres::PostgresUrl,
    sqlserver::{Batch, SqlServerUrl},
    sqlserver_batch,
};
use tokio_postgres::{Transaction, types::Type};

use crate::{
    database::{self, PATIENCE, Parameter},
    output::print,
};

const LIMIT: &str = include_str!("../sql/postgres/scope/limit.sql");
const READ_FENCE: &str = include_str!("../sql/postgres/scope/read_fence.sql");
const BURN_EPOCHS: &str = include_str!("../sql/postgres/scope/burn_epochs.sql");
const SWITCH_LOCK: &str = include_str!("../sql/postgres/scope/switch_lock.sql");

/// What is sent to SQL Server.
#[cfg(test)]
pub const BATCHES: [Batch; 3] = [READ_FENCE_THERE, BURN_EPOCHS_THERE, SWITCH_LOCK_THERE];
const READ_FENCE_THERE: Batch = sqlserver_batch!("scope/read_fence", 1);
const BURN_EPOCHS_THERE: Batch = sqlserver_batch!("scope/burn_epochs", 2);
const SWITCH_LOCK_THERE: Batch = sqlserver_batch!("scope/switch_lock", 1);

/// What to change of which scope.
#[derive(Debug)]
pub struct Change {
    pub db: DatabaseUrl,
    pub scope: Scope,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    BurnEpochs { by: i64 },
    SwitchLock,
}

impl Change {
    pub async fn run(&self) -> Result<()> {
        let done = match &self.db {
            DatabaseUrl::Sqlite(data) => self.change_file(data)?,
            DatabaseUrl::Postgres(url) => {
                let changed = database::within(PATIENCE, self.change_server(url)).await;
                changed.map_err(needs_the_owner)?
            }
            DatabaseUrl::SqlServer(url) => {
                self.change_sqlserver(url).await.map_err(needs_the_owner)?
            }
        };
        print(&format!("scope {}: {done}\n", self.scope))
    }

    async fn change_sqlserver(&self, url: &SqlServerUrl) -> Result<String> {
        let scope = self.scope.as_str();
        let rows = database::query_sqlserver(url, &READ_FENCE_THERE, &[&scope]).await?;
        let row = rows.first().ok_or_else(|| self.unknown())?;
        let fenced_by =
            format!("{} {}", row.need::<&str>("lock_kind")?, row.need::<&str>("lock_place")?);
        match self.what {
            What::BurnEpochs { by } => {
                let rows =
                    database::query_sqlserver(url, &BURN_EPOCHS_THERE, &[&scope, &by]).await?;
                let row = rows.first().ok_or_else(|| self.unknown())?;
                Ok(burnt(by, row.need("stands_at")?))
            }
            What::SwitchLock => {
                database::query_sqlserver(url, &SWITCH_LOCK_THERE, &[&scope]).await?;
                Ok(switched(fenced_by.trim()))
            }
        }
    }

    async fn change_server(&self, url: &PostgresUrl) -> Result<String> {
        let mut session = database::connect(url).await?;
        let transaction = session.transaction().await?;
        transaction.batch_execute(LIMIT).await?;
        let fenced_by = self.lock_on_server(&transaction).await?;
        let scope = self.scope.as_str();
        let done = match self.what {
            What::BurnEpochs { by } => {
                let parameters: [Parameter<'_>; 2] = [(&scope, Type::TEXT), (&by, Type::INT8)];
                burnt(by, transaction.query_typed_one(BURN_EPOCHS, &parameters).await?.get(0))
            }
            What::SwitchLock => {
                transaction.query_typed_one(SWITCH_LOCK, &[(&scope, Type::TEXT)]).await?;
                switched(&fenced_by)
            }
        };
        transaction.commit().await?;
        Ok(done)
    }

    async fn lock_on_server(&self, transaction: &Transaction<'_>) -> Result<String> {
        let scope = self.scope.as_str();
        let rows = transaction.query_typed(READ_FENCE, &[(&scope, Type::TEXT)]).await?;
        let row = rows.first().ok_or_else(|| self.unknown())?;
        let (kind, place): (String, String) = (row.get("lock_kind"), row.get("lock_place"));
        Ok(format!("{kind} {place}").trim().to_owned())
    }

    fn change_file(&self, data: &Path) -> Result<String> {
        let mut file = database::open(data)?;
        let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let lock = by_hand::lock_kind(&transaction, &self.scope)?;
        let fenced_by = lock.ok_or_else(|| self.unknown())?;
        let done = match self.what {
            What::BurnEpochs { by } => {
                burnt(by, by_hand::burn_epochs(&transaction, &self.scope, by)?.get())
            }
            What::SwitchLock => {
                by_hand::switch_lock(&transaction, &self.scope)?;
                switched(&fenced_by)
            }
        };
        transaction.commit().context("the change was not made")?;
        Ok(done)
    }

    fn unknown(&self) -> anyhow::Error {
        let Self { scope, db, .. } = self;
        anyhow!(
            "nobody has ever led the scope '{scope}' in {db} (`tenure status` shows the scopes)"
        )
    }
}

fn needs_the_owner(error: anyhow::Error) -> anyhow::Error {
    match database::lacks_rights(&error) {
        true => error.context("only the schema's owner may change a scope by hand"),
        false => error,
    }
}

fn burnt(by: i64, fence: i64) -> String {
    let epochs = if by == 1 { "epoch" } else { "epochs" };
    format!("{by} {epochs} burnt; the fence stands at {fence}, and every term up to it is refused")
}

fn switched(fenced_by: &str) -> String {
    match fenced_by {
        "" => "nothing to do; its next winner may bring any lock already".to_owned(),
        lock => format!("its next winner may bring any lock; until now it was {lock}"),
    }
}
