//! Opening the database that a command reads or changes, once its schema is known to fit.

use std::{future::Future, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use rusqlite::Connection;
use tenure::{DatabaseUrl, schema};
use tenure_database::{
    DatabaseError, Deadline,
    migrate::{self, MigrateError, Standing},
    postgres::{PostgresUrl, Session},
    sqlite,
    sqlserver::{self, Batch, Meaning, SqlServer, SqlServerUrl},
};
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
};

use crate::components::Component;

/// How long a person is kept waiting for an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long connecting may take.
pub const CONNECT: Duration = Duration::from_secs(10);

/// A parameter with its type: unnamed statements work through a transaction pooler too.
pub type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// Runs a whole piece of work on a server, and gives up on it, connections and all, after `limit`.
pub async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    Deadline::after(limit).run(async { Ok::<_, DatabaseError>(work.await) }).await?
}

/// Connects to a server whose schema this binary can work with.
pub async fn connect(url: &PostgresUrl) -> Result<Session> {
    let session = url.connect(Deadline::after(CONNECT)).await?;
    let standing =
        migrate::postgres::standing(&session, schema::COMPONENT, &schema::POSTGRES).await;
    require_current(standing).with_context(|| format!("cannot use {url}"))?;
    Ok(session)
}

/// Connects to a SQL Server whose schema this binary can work with.
pub async fn connect_sqlserver(url: &SqlServerUrl) -> Result<sqlserver::Session> {
    let mut session = open_sqlserver(url).await?;
    let standing =
        migrate::sqlserver::standing(&mut session, schema::COMPONENT, &schema::SQLSERVER).await;
    // There, what a login may not use is not there for it.
    require_current(standing).with_context(|| {
        format!("cannot use {url} (`tenure migrate --grant-to ROLE` shows a login what is there)")
    })?;
    Ok(session)
}

/// Connects to a SQL Server, whatever is there.
pub async fn open_sqlserver(url: &SqlServerUrl) -> Result<sqlserver::Session> {
    let server = SqlServer::at(url.clone(), PATIENCE * 2 / 3);
    Ok(server.connect(Deadline::after(CONNECT)).await?)
}

/// Asks a SQL Server one thing.
pub async fn query_sqlserver(
    url: &SqlServerUrl,
    batch: &Batch,
    parameters: &[&dyn sqlserver::ToSql],
) -> Result<Vec<sqlserver::Row>> {
    within(PATIENCE, async {
        let mut session = connect_sqlserver(url).await?;
        Ok(session.query(batch, parameters).await.map_err(DatabaseError::from)?)
    })
    .await
}

/// Opens a file whose schema this binary can work with; never creates one.
pub fn open(data: &Path) -> Result<Connection> {
    if !data.exists() {
        bail!("there is no file {}: run `tenure migrate`", data.display());
    }
    let file = sqlite::open(data, PATIENCE)?;
    let standing = migrate::sqlite::standing(&file, schema::COMPONENT, &schema::SQLITE);
    require_current(standing).with_context(|| format!("cannot use {}", data.display()))?;
    Ok(file)
}

/// Migrates where the role may; otherwise the schemas must be there.
pub async fn prepare(db: &DatabaseUrl, components: &[Component]) -> Result<()> {
    match db {
        DatabaseUrl::Sqlite(data) => {
            let mut file = sqlite::open(data, PATIENCE)?;
            for component in components {
                migrate::sqlite::migrate(&mut file, component.name, component.sqlite)?;
            }
        }
        DatabaseUrl::Postgres(url) => {
            let mut session = url.connect(Deadline::after(CONNECT)).await?;
            for component in components {
                prepare_on_server(&mut session, component).await?;
            }
        }
        DatabaseUrl::SqlServer(url) => {
            let mut session = open_sqlserver(url).await?;
            for component in components {
                prepare_on_sqlserver(&mut session, component).await?;
            }
        }
    }
    Ok(())
}

async fn prepare_on_server(session: &mut Session, component: &Component) -> Result<()> {
    let Component { name, postgres: known, by_hand, .. } = component;
    let standing = migrate::postgres::standing(session, name, known).await?;
    warn_when_ahead(&standing);
    if matches!(standing, Standing::Behind(_)) {
        let migrated = migrate::postgres::migrate(session, name, known).await;
        migrated.map_err(anyhow::Error::from).map_err(|error| match lacks_rights(&error) {
            true => error.context(format!(
                "the schema is missing and this role may not make it: run `{by_hand}` as the owner"
            )),
            false => error,
        })?;
    }
    Ok(())
}

async fn prepare_on_sqlserver(
    session: &mut sqlserver::Session,
    component: &Component,
) -> Result<()> {
    let known = component.on_sqlserver()?.known;
    let standing = migrate::sqlserver::standing(session, component.name, known).await?;
    warn_when_ahead(&standing);
    if matches!(standing, Standing::Behind(_)) {
        let migrated = migrate::sqlserver::migrate(session, component.name, known).await;
        migrated.map_err(anyhow::Error::from).map_err(|error| match lacks_rights(&error) {
            true => error.context(format!(
                "the schema is missing and this login may not make it: run `{}` as the owner",
                component.by_hand
            )),
            false => error,
        })?;
    }
    Ok(())
}

fn require_current(standing: Result<Standing, MigrateError>) -> Result<(), MigrateError> {
    let standing = standing?;
    warn_when_ahead(&standing);
    match standing {
        Standing::Behind(_) => Err(MigrateError::Needed { component: schema::COMPONENT }),
        Standing::Current | Standing::Ahead => Ok(()),
    }
}

/// A newer binary has been here; what it did is harmless for this one, but worth a word.
pub fn warn_when_ahead(standing: &Standing) {
    if matches!(standing, Standing::Ahead) {
        tracing::warn!(
            target: "tenure",
            component = schema::COMPONENT,
            "the database has harmless migrations that this binary does not know: a newer tenure is in use"
        );
    }
}

/// Whether the database said that the role must not do this.
pub fn lacks_rights(error: &anyhow::Error) -> bool {
    let meant = error.chain().find_map(|cause| cause.downcast_ref::<DatabaseError>());
    if meant.and_then(DatabaseError::meaning) == Some(Meaning::NoRights) {
        return true;
    }
    let told = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    told.and_then(tokio_postgres::Error::code) == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
