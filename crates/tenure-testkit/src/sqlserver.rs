//! A SQL Server that is already there: `TENURE_TEST_SQLSERVER` says where. Each test has a database of its own.

use std::{env, thread, time::Duration};

use anyhow::{Context, Result};
use tenure_database::{
    Deadline,
    migrate::{self, Migration},
    sqlserver::{Session, SqlServer, SqlServerUrl},
};

use crate::{millis, secs};

/// Names the server, as a URL whose login may create databases.
pub const VARIABLE: &str = "TENURE_TEST_SQLSERVER";
/// How long a statement of a test waits for a row.
const LOCK_TIMEOUT: Duration = secs(10);

/// A database, gone with this value.
#[derive(Debug)]
pub struct Database {
    server: SqlServerUrl,
    url: SqlServerUrl,
    name: String,
}

impl Database {
    /// A new one.
    pub async fn create() -> Result<Self> {
        let told = env::var(VARIABLE).with_context(|| format!("{VARIABLE} names no server"))?;
        let server: SqlServerUrl = told.parse()?;
        let name = format!("tenure_test_{}", uuid::Uuid::new_v4().simple());
        insist(&server, &format!("CREATE DATABASE {name}")).await?;
        Ok(Self { url: server.database(&name), server, name })
    }

    /// The same, with the schemas of these components.
    pub async fn with(components: &[(&'static str, &[Migration])]) -> Result<Self> {
        let database = Self::create().await?;
        let mut session = database.session().await?;
        for (component, known) in components {
            migrate::sqlserver::migrate(&mut session, component, known).await?;
        }
        Ok(database)
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &SqlServerUrl {
        &self.url
    }

    /// A session that waits for a row as long as a test does.
    pub async fn session(&self) -> Result<Session> {
        open(&self.url).await
    }

    /// Whether this server is one whose locks are those that SQL Server documents: a row that one session has read
    /// for an update is not changed by another.
    pub async fn locks(&self) -> Result<bool> {
        let (mut one, mut two) = (self.session().await?, self.session().await?);
        one.run("CREATE TABLE dbo.tenure_probe (id int PRIMARY KEY)").await?;
        one.run("INSERT INTO dbo.tenure_probe VALUES (1)").await?;
        one.run("BEGIN TRANSACTION").await?;
        one.run("SELECT id FROM dbo.tenure_probe WITH (UPDLOCK, ROWLOCK)").await?;
        two.run("SET LOCK_TIMEOUT 300").await?;
        let changed = two.run("UPDATE dbo.tenure_probe SET id = 2").await;
        one.run("ROLLBACK TRANSACTION").await?;
        self.session().await?.run("DROP TABLE dbo.tenure_probe").await?;
        Ok(changed.is_err())
    }

    /// Whether this server shows who waits for whom.
    pub async fn shows_waits(&self) -> Result<bool> {
        let looked =
            self.session().await?.run("SELECT blocking_session_id FROM sys.dm_exec_requests").await;
        Ok(looked.is_ok())
    }

    /// Whether this server knows the lowest rowversion of a transaction that is open.
    pub async fn knows_active_rowversions(&self) -> Result<bool> {
        let looked = self.session().await?.run("SELECT MIN_ACTIVE_ROWVERSION()").await;
        Ok(looked.is_ok())
    }
}

/// What a law cannot show on this server, said aloud: it is not counted as shown.
pub fn not_shown(law: &str, why: &str) {
    println!("not shown on this server: {law}: {why}");
    eprintln!("not shown on this server: {law}: {why}");
}

async fn open(url: &SqlServerUrl) -> Result<Session> {
    Ok(SqlServer::at(url.clone(), LOCK_TIMEOUT).connect(Deadline::after(secs(20))).await?)
}

/// Databases are made and dropped by others too, and one that is in use is not dropped yet.
async fn insist(server: &SqlServerUrl, statement: &str) -> Result<()> {
    let mut tries = 0..40;
    loop {
        let done = open(server).await?.run(statement).await;
        match done {
            Err(_) if tries.next().is_some() => tokio::time::sleep(millis(250)).await,
            done => return Ok(done?),
        }
    }
}

impl Drop for Database {
    /// On a thread of its own, because the test's runtime may be ending.
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let alone =
                    format!("ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE");
                // Whoever is still connected is thrown out, where the server can.
                let _ = open(&server).await?.run(&alone).await;
                insist(&server, &format!("DROP DATABASE {name}")).await
            })
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("the database {} stays: {error:#}", self.name);
        }
    }
}
