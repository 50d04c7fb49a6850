//! A SQL Server that is already there: `TENURE_TEST_SQLSERVER` says where. Each test has a database of its own.

use std::{env, fmt, thread, time::Duration};

use anyhow::{Context, Result};
use tenure_database::{
    Deadline,
    migrate::{self, Migration},
    sqlserver::{Session, SqlServer, SqlServerUrl},
};
use url::Url;

use crate::{millis, secs};

/// Names the server, as a URL whose login may create databases.
pub const VARIABLE: &str = "TENURE_TEST_SQLSERVER";
/// How long a statement of a test waits for a row.
const LOCK_TIMEOUT: Duration = secs(10);

/// A database, gone with this value.
pub struct Database {
    server: SqlServerUrl,
    url: SqlServerUrl,
    secret: String,
    name: String,
}

impl Database {
    /// A new one.
    pub async fn create() -> Result<Self> {
        let told = env::var(VARIABLE).with_context(|| format!("{VARIABLE} names no server"))?;
        let (server, mut place): (SqlServerUrl, Url) = (told.parse()?, told.parse()?);
        let name = format!("tenure_test_{}", uuid::Uuid::new_v4().simple());
        insist(&server, &format!("CREATE DATABASE {name}")).await?;
        place.set_path(&name);
        Ok(Self { url: server.database(&name), secret: place.into(), server, name })
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

    /// The same with the password, for a process.
    #[must_use]
    pub fn secret_url(&self) -> &str {
        &self.secret
    }

    /// A login of its own, with a user of the same name here and no rights.
    pub async fn login(&self) -> Result<Login> {
        let name = format!("tenure_test_{}", uuid::Uuid::new_v4().simple());
        let password = format!("Aa1-{}", uuid::Uuid::new_v4().simple());
        let create = format!("CREATE LOGIN {name} WITH PASSWORD = '{password}'");
        insist(&self.server, &create).await?;
        let mut secret: Url = self.secret.parse()?;
        let set = secret.set_username(&name).and_then(|()| secret.set_password(Some(&password)));
        set.map_err(|()| anyhow::anyhow!("a URL takes a user"))?;
        let (server, url) = (self.server.clone(), secret.as_str().parse()?);
        let login = Login { server, url, secret: secret.into(), name };
        self.session().await?.run(&format!("CREATE USER {0} FOR LOGIN {0}", login.name)).await?;
        Ok(login)
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

    /// Whether a procedure writes with its owner's rights where a login may only call it.
    pub async fn lends_rights(&self, login: &Login) -> Result<bool> {
        let mut session = self.session().await?;
        session.run("CREATE TABLE dbo.tenure_lent (id int)").await?;
        let procedure =
            "CREATE PROCEDURE dbo.tenure_lend AS INSERT INTO dbo.tenure_lent VALUES (1)";
        session.run(procedure).await?;
        session.run(&format!("GRANT EXECUTE ON dbo.tenure_lend TO {}", login.name)).await?;
        Ok(login.session().await?.run("EXEC dbo.tenure_lend").await.is_ok())
    }

    /// Whether this server leaves undone what comes after `NOEXEC`.
    pub async fn knows_noexec(&self) -> Result<bool> {
        let mut session = self.session().await?;
        session.run("SET NOEXEC ON").await?;
        session.run("CREATE TABLE dbo.tenure_undone (id int)").await?;
        session.run("SET NOEXEC OFF").await?;
        let there = "SELECT name FROM sys.tables WHERE name = 'tenure_undone'";
        Ok(session.query_text(there, &[]).await?.is_empty())
    }

    /// Whether this server reads what JSON escapes.
    pub async fn reads_json(&self) -> Result<bool> {
        let quoted = r#"SELECT text FROM OPENJSON(N'["\""]') WITH (text nvarchar(9) '$')"#;
        let rows = self.session().await?.query_text(quoted, &[]).await?;
        Ok(rows.first().is_some_and(|row| row.get("text").ok() == Some(Some("\""))))
    }
}

/// What a law cannot show on this server, said aloud: it is not counted as shown.
pub fn not_shown(law: &str, why: &str) {
    println!("not shown on this server: {law}: {why}");
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

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.url)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), &self.name);
        let alone = format!("ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE");
        let drop = format!("DROP DATABASE {name}");
        at_last(async move {
            // Whoever is still connected is thrown out, where the server can.
            let _ = open(&server).await?.run(&alone).await;
            insist(&server, &drop).await
        });
    }
}

/// A login, gone with this value; its user goes with the database.
pub struct Login {
    server: SqlServerUrl,
    url: SqlServerUrl,
    secret: String,
    /// Of the login and of its user.
    pub name: String,
}

impl Login {
    /// Where the database is.
    #[must_use]
    pub fn url(&self) -> &SqlServerUrl {
        &self.url
    }

    /// A session of this login.
    pub async fn session(&self) -> Result<Session> {
        open(&self.url).await
    }

    /// Where the database is, with this login's password.
    #[must_use]
    pub fn secret_url(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.name)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("DROP LOGIN {}", self.name));
        at_last(async move { insist(&server, &drop).await });
    }
}

/// On a thread of its own, because the test's runtime may be ending.
fn at_last(tidying: impl Future<Output = Result<()>> + Send + 'static) {
    let done = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(tidying)
    });
    if let Ok(Err(error)) = done.join() {
        eprintln!("something of the test stays on the server: {error:#}");
    }
}
