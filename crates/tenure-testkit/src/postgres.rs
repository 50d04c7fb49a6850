//! A real Postgres per test: a copy of a cached cluster on a port of its own.
//!
//! It gives up what protects from a crash of the *machine* (`fsync`), never what protects from a
//! crash of the server: a commit survives [`Stop::Immediate`].

mod clock;
mod configuration;
mod installation;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use crate::server::{Folder, Launch, Port, Server, run};
use clock::SettableClock;
use configuration::configuration;
pub(crate) use installation::Installation;

const DATA: &str = "data";
const SUPERUSER: &str = "postgres";

/// How a server is taken down.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Ends the sessions and shuts down in order.
    Fast,
    /// Stops as a crash would; the next start recovers.
    Immediate,
}

/// A running Postgres, gone with this value.
pub struct Postgres {
    server: Server,
    installation: Installation,
    port: Port,
    settings: Vec<(String, String)>,
    clock: Option<SettableClock>,
}

impl Postgres {
    /// Starts a server with the kit's settings.
    pub async fn start() -> Result<Self> {
        Self::with(&[]).await
    }

    /// Starts a server with settings of `postgresql.conf` on top of the kit's.
    pub async fn with(settings: &[(&str, &str)]) -> Result<Self> {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let settings: Vec<_> = settings.collect();
        Self::fresh(Installation::find()?, folder_for(&settings)?, settings, None).await
    }

    /// Starts a server of this version.
    pub async fn of_version(version: u32) -> Result<Self> {
        let folder = Folder::in_memory("postgres")?;
        Self::fresh(Installation::of_version(version)?, folder, Vec::new(), None).await
    }

    /// Starts a server whose wall clock [`Postgres::step_clock`] moves.
    pub async fn with_settable_clock() -> Result<Self> {
        let folder = Folder::new("postgres")?;
        let clock = SettableClock::build(&folder).await?;
        Self::fresh(Installation::find()?, folder, Vec::new(), Some(clock)).await
    }

    async fn fresh(
        installation: Installation,
        folder: Folder,
        settings: Vec<(String, String)>,
        clock: Option<SettableClock>,
    ) -> Result<Self> {
        installation.copy_cluster(&folder, DATA).await?;
        Self::serve(folder, installation, settings, clock).await
    }

    /// Starts a standby that streams from this server and has its settings, but not its clock.
    pub async fn replica(&self) -> Result<Self> {
        let folder = folder_for(&self.settings)?;
        let mut backup = folder.command(&self.installation.program("pg_basebackup"));
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        backup.args(["--pgdata", &folder.entry(DATA), "--dbname", &self.url()]);
        run(backup).await?;
        Self::serve(folder, self.installation.clone(), self.settings.clone(), None).await
    }

    async fn serve(
        folder: Folder,
        installation: Installation,
        settings: Vec<(String, String)>,
        clock: Option<SettableClock>,
    ) -> Result<Self> {
        let port = Port::claim()?;
        let configuration = configuration(port.number(), &folder, &settings);
        folder.write(&format!("{DATA}/postgresql.conf"), &configuration)?;
        let launch = Launch {
            program: installation.program("postgres"),
            arguments: vec!["-D".to_owned(), folder.entry(DATA)],
            environment: match clock {
                Some(_) => SettableClock::environment(&folder),
                None => Vec::new(),
            },
            // An immediate shutdown frees the System V segment that a killed postmaster leaves.
            farewell: Stop::Immediate.signal(),
        };
        let server = Server::new(folder, launch);
        let postgres = Self { server, installation, port, settings, clock };
        postgres.resume().await?;
        Ok(postgres)
    }

    /// The superuser's URL of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as(SUPERUSER, "postgres")
    }

    /// The URL of a database for a role; no password is asked for.
    #[must_use]
    pub fn url_as(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port())
    }

    /// Where it listens, say for a proxy to connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The port on 127.0.0.1, the same after every restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Connects as the superuser.
    pub async fn connect(&self) -> Result<Client> {
        self.connect_as(SUPERUSER).await
    }

    /// Connects as `role` to the database `postgres`.
    pub async fn connect_as(&self, role: &str) -> Result<Client> {
        let (client, connection) =
            tokio_postgres::connect(&self.url_as(role, "postgres"), NoTls).await?;
        // Ends with the client, or with the server, whose loss the client's next call reports.
        tokio::spawn(async move { connection.await.ok() });
        Ok(client)
    }

    /// Stops the server and starts it again.
    pub async fn restart(&self, stop: Stop) -> Result<()> {
        self.stop(stop).await?;
        self.resume().await
    }

    /// Stops the server; its data stay.
    pub async fn stop(&self, stop: Stop) -> Result<()> {
        self.server.stop(stop.signal()).await
    }

    /// Starts a stopped or killed server again, on the same port and data.
    pub async fn resume(&self) -> Result<()> {
        let state = self.server.folder().path().join(DATA).join("postmaster.pid");
        let mut retries = 0..100;
        loop {
            match self.server.start(async |pid| is_ready(&state, pid)).await {
                Err(error) if is_too_early(&error) && retries.next().is_some() => {
                    sleep(Duration::from_millis(50)).await;
                }
                result => return result,
            }
        }
    }

    /// Makes a standby the primary of its own timeline.
    pub async fn promote(&self) -> Result<()> {
        let promoted = self.connect().await?.query_one("select pg_promote()", &[]).await?;
        ensure!(promoted.get::<_, bool>(0), "the standby was not promoted in a minute");
        Ok(())
    }

    /// Makes a standby receive nothing more; what it has stays, and may be promoted.
    pub async fn stop_streaming(&self) -> Result<()> {
        let session = self.connect().await?;
        session.batch_execute("alter system set primary_conninfo = ''").await?;
        session.batch_execute("select pg_reload_conf()").await?;
        while !session.query("select from pg_stat_wal_receiver", &[]).await?.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The process to pause or to kill.
    ///
    /// # Panics
    /// When the server is stopped.
    #[must_use]
    pub fn postmaster_pid(&self) -> Pid {
        self.server.pid().expect("the server runs")
    }

    /// Moves the server's wall clock by `offset_secs` from where it is, in open sessions too.
    pub fn step_clock(&self, offset_secs: i64) -> Result<()> {
        let clock = self.clock.as_ref().context("start it with_settable_clock")?;
        clock.step(offset_secs)
    }
}

impl Stop {
    fn signal(self) -> Signal {
        match self {
            Self::Fast => Signal::INT,
            Self::Immediate => Signal::QUIT,
        }
    }
}

/// A server that is told to sync gets a disk to sync to, or benchmarks would measure nothing.
fn folder_for(settings: &[(String, String)]) -> Result<Folder> {
    if settings.iter().any(|(name, value)| name == "fsync" && value == "on") {
        return Folder::new("postgres");
    }
    Folder::in_memory("postgres")
}

/// Reads the postmaster's own word: its first line is its pid, its eighth its state.
fn is_ready(state: &Path, pid: Pid) -> bool {
    let state = fs::read_to_string(state).unwrap_or_default();
    let mut lines = state.lines().map(str::trim);
    lines.next() == Some(&pid.as_raw_pid().to_string()) && lines.nth(6) == Some("ready")
}

/// A killed postmaster's backends take a moment to notice, and keep its memory until they do.
fn is_too_early(error: &anyhow::Error) -> bool {
    error.to_string().contains("shared memory block") && error.to_string().contains("in use")
}

#[cfg(test)]
mod tests {
    use rustix::process::kill_process;

    use super::*;
    use crate::eventually::{eventually, eventually_true, secs};

    async fn offset_from_here(session: &Client) -> f64 {
        let read = "select extract(epoch from clock_timestamp())::float8";
        let theirs: f64 = session.query_one(read, &[]).await.unwrap().get(0);
        let here = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        theirs - here.tv_sec as f64
    }

    #[tokio::test]
    async fn settings_and_roles_are_as_asked() {
        let postgres = Postgres::with(&[("application_name", "it's")]).await.unwrap();
        postgres.connect().await.unwrap().batch_execute("create role worker login").await.unwrap();

        let worker = postgres.connect_as("worker").await.unwrap();
        let asked = "select current_user::text, current_setting('max_connections')";
        let row = worker.query_one(asked, &[]).await.unwrap();
        assert_eq!((row.get(0), row.get(1)), ("worker", "300"));
    }

    #[tokio::test]
    async fn a_commit_survives_every_stop() {
        let postgres = Postgres::start().await.unwrap();
        let (port, pid) = (postgres.port(), postgres.postmaster_pid());
        let client = postgres.connect().await.unwrap();
        client.batch_execute("create table kept (n int)").await.unwrap();

        for stop in [Stop::Fast, Stop::Immediate] {
            let client = postgres.connect().await.unwrap();
            client.batch_execute("insert into kept values (1)").await.unwrap();
            postgres.restart(stop).await.unwrap();
            assert!(client.batch_execute("select 1").await.is_err(), "{stop:?}");
        }
        let client = postgres.connect().await.unwrap();
        let kept: i64 = client.query_one("select count(*) from kept", &[]).await.unwrap().get(0);
        assert_eq!((kept, postgres.port()), (2, port));
        assert_ne!(postgres.postmaster_pid(), pid);
    }

    #[tokio::test]
    async fn a_killed_server_can_be_resumed() {
        let postgres = Postgres::start().await.unwrap();
        let _idle = postgres.connect().await.unwrap();
        kill_process(postgres.postmaster_pid(), Signal::KILL).unwrap();
        eventually_true("the end", secs(5), async || postgres.server.pid().is_err()).await;
        postgres.resume().await.unwrap();
        postgres.connect().await.unwrap();
    }

    #[tokio::test]
    async fn a_replica_follows_and_can_be_promoted() {
        let primary = Postgres::start().await.unwrap();
        let replica = primary.replica().await.unwrap();
        let ours = primary.connect().await.unwrap();
        ours.batch_execute("create table copied as select 7 as n").await.unwrap();

        let theirs = replica.connect().await.unwrap();
        let row = eventually("the copied row", secs(5), async || {
            theirs.query_one("select n from copied", &[]).await.ok()
        })
        .await;
        assert_eq!(row.get::<_, i32>(0), 7);
        assert!(theirs.batch_execute("insert into copied values (8)").await.is_err());

        primary.stop(Stop::Immediate).await.unwrap();
        replica.promote().await.unwrap();
        theirs.batch_execute("insert into copied values (8)").await.unwrap();
    }

    #[tokio::test]
    async fn the_clock_steps_in_open_and_new_sessions() {
        let postgres = Postgres::with_settable_clock().await.unwrap();
        let open = postgres.connect().await.unwrap();
        for (step, expected) in [(0, 0.0), (60, 60.0), (-90, -30.0), (30, 0.0)] {
            postgres.step_clock(step).unwrap();
            let new = postgres.connect().await.unwrap();
            for session in [&open, &new] {
                let offset = offset_from_here(session).await;
                assert!((offset - expected).abs() < 2.0, "{offset} s instead of {expected}");
            }
        }
    }

    #[tokio::test]
    async fn the_server_stays_healthy_when_the_clock_steps_forward_and_back() {
        let postgres = Postgres::with_settable_clock().await.unwrap();
        let open = postgres.connect().await.unwrap();
        open.batch_execute("create table ticks (n int); checkpoint").await.unwrap();
        for step in [60, -60] {
            postgres.step_clock(step).unwrap();
            open.batch_execute("insert into ticks values (1); checkpoint").await.unwrap();
            let new = postgres.connect().await.unwrap();
            for session in [&open, &new] {
                session.batch_execute("set statement_timeout = '100ms'").await.unwrap();
                assert!(session.batch_execute("select pg_sleep(5)").await.is_err());
                session.batch_execute("reset statement_timeout").await.unwrap();
                session.batch_execute("select pg_sleep(0.01)").await.unwrap();
            }
        }
        postgres.restart(Stop::Fast).await.unwrap();
        postgres.connect().await.unwrap();
    }

    #[tokio::test]
    async fn a_server_that_cannot_start_shows_its_log() {
        let Err(error) = Postgres::with(&[("max_connections", "none")]).await else {
            panic!("it started");
        };
        assert!(error.to_string().contains("invalid value for parameter"), "{error}");
    }
}
