//! `tenure migrate`: the schemas, and what goes with them on Postgres.

mod channel;
mod script;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use tenure_database::{
    DatabaseError, Deadline,
    migrate::{self, Migration},
    postgres::{PostgresUrl, Session},
    sqlite,
    sqlserver::SqlServerUrl,
};
use tokio_postgres::types::Type;

pub use self::channel::Channel;
use crate::{
    components::Component,
    database::{self, CONNECT},
    output::print,
};

const TELLS_CHANNEL: &str = include_str!("../sql/postgres/migrate/tells_channel.sql");
const TELL_CHANNEL: &str = include_str!("../sql/postgres/migrate/tell_channel.sql");

/// A migration waits for another process that migrates, and then for whoever uses the tables.
const LIMIT: Duration = Duration::from_secs(300);

/// What to migrate, and whether to do it or to show it.
#[derive(Debug)]
pub struct Migrate {
    pub place: Place,
    /// The engine first.
    pub components: Vec<Component>,
    pub print: bool,
}

/// Where, with what only that kind of database knows.
#[derive(Debug)]
pub enum Place {
    Sqlite { data: PathBuf },
    Postgres(Box<Server>),
    SqlServer { url: Box<SqlServerUrl>, grant_to: Option<String> },
}

#[derive(Debug)]
pub struct Server {
    pub url: PostgresUrl,
    /// A role that is to run elections and to write through the fence.
    pub grant_to: Option<String>,
    /// Where changes of leader are told; as it is, when not said.
    pub channel: Option<Channel>,
}

impl Migrate {
    pub async fn run(&self) -> Result<()> {
        match &self.place {
            place if self.print => print(&script::of(place, &self.components)),
            Place::Sqlite { data } => migrate_file(data, &self.components),
            Place::Postgres(server) => {
                database::within(LIMIT, server.migrate(&self.components)).await
            }
            Place::SqlServer { url, grant_to } => {
                let migrated = migrate_sqlserver(url, grant_to.as_deref(), &self.components);
                database::within(LIMIT, migrated).await
            }
        }
    }
}

fn migrate_file(data: &Path, components: &[Component]) -> Result<()> {
    let mut file = sqlite::open(data, database::PATIENCE)?;
    let mut idle = true;
    for Component { name, sqlite: known, .. } in components {
        database::warn_when_ahead(&migrate::sqlite::standing(&file, name, known)?);
        let applied = migrate::sqlite::migrate(&mut file, name, known)?;
        print(&told(name, &applied))?;
        idle &= applied.is_empty();
    }
    say_when_idle(idle, &format!("sqlite:{}", data.display()))
}

async fn migrate_sqlserver(
    url: &SqlServerUrl,
    grant_to: Option<&str>,
    components: &[Component],
) -> Result<()> {
    let mut session = database::open_sqlserver(url).await?;
    let mut idle = grant_to.is_none();
    for component in components {
        let (name, there) = (component.name, component.on_sqlserver()?);
        database::warn_when_ahead(
            &migrate::sqlserver::standing(&mut session, name, there.known).await?,
        );
        let applied = migrate::sqlserver::migrate(&mut session, name, there.known).await?;
        print(&told(name, &applied))?;
        idle &= applied.is_empty();
        if let Some(role) = grant_to {
            session.run(&(there.grants_to)(role)).await.map_err(DatabaseError::from)?;
            print(&format!("granted to {role}: {}\n", component.granted))?;
        }
    }
    say_when_idle(idle, &url.to_string())
}

impl Server {
    async fn migrate(&self, components: &[Component]) -> Result<()> {
        let mut session = self.url.connect(Deadline::after(CONNECT)).await?;
        let mut idle = true;
        for Component { name, postgres: known, .. } in components {
            database::warn_when_ahead(&migrate::postgres::standing(&session, name, known).await?);
            let applied = migrate::postgres::migrate(&mut session, name, known).await?;
            // Told at once: what follows may fail, and this stays.
            print(&told(name, &applied))?;
            idle &= applied.is_empty();
        }
        let arranged = self.arrange(&mut session, components).await?;
        print(&arranged)?;
        say_when_idle(idle && arranged.is_empty(), &self.url.to_string())
    }

    /// Grants and the channel, one process at a time: Postgres refuses grants that cross each other.
    async fn arrange(&self, session: &mut Session, components: &[Component]) -> Result<String> {
        let mut done = String::new();
        let transaction = session.transaction().await?;
        transaction.batch_execute(migrate::postgres::LOCK).await?;
        if let Some(role) = &self.grant_to {
            for component in components {
                transaction.batch_execute(&(component.grants_to)(role)).await?;
                done += &format!("granted to {role}: {}\n", component.granted);
            }
        }
        if let Some(channel) = &self.channel {
            let name = channel.name();
            let tells = transaction.query_typed_one(TELLS_CHANNEL, &[(&name, Type::TEXT)]).await?;
            if !tells.get::<_, bool>(0) {
                transaction.batch_execute(&channel.statement(TELL_CHANNEL)).await?;
                done += &format!("leader changes are now told on the channel {name}\n");
            }
        }
        transaction.commit().await?;
        Ok(done)
    }
}

fn told(component: &str, applied: &[Migration]) -> String {
    let told = |migration: &Migration| {
        let Migration { version, name, .. } = migration;
        format!("applied migration {version} of {component}: {name}\n")
    };
    applied.iter().map(told).collect()
}

fn say_when_idle(idle: bool, place: &str) -> Result<()> {
    match idle {
        true => print(&format!("nothing to do: {place} is as this binary needs it\n")),
        false => Ok(()),
    }
}
