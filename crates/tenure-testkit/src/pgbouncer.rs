//! A pgbouncer before a test's Postgres: every transaction may run in another server session, so
//! whatever a session keeps (advisory locks, prepared statements, `set`) does not stay.

use std::net::Ipv4Addr;

use anyhow::Result;
use rustix::process::Signal;
use tokio::net::TcpStream;

use crate::{
    postgres::Postgres,
    server::{Folder, Launch, Port, Server, find_program},
};

/// A running pgbouncer, gone with this value.
pub struct Pgbouncer {
    // Held for its Drop, which ends the process.
    _server: Server,
    port: Port,
}

impl Pgbouncer {
    /// Pools the connections to `server` per transaction.
    pub async fn transaction_mode(server: &Postgres) -> Result<Self> {
        let (folder, port) = (Folder::new("pgbouncer")?, Port::claim()?);
        folder.write("pgbouncer.ini", &configuration(&folder, port.number(), server.port()))?;
        folder.write("users", "\"postgres\" \"\"\n")?;
        let launch = Launch {
            program: find_program("pgbouncer")?,
            arguments: vec![folder.entry("pgbouncer.ini")],
            environment: Vec::new(),
            farewell: Signal::KILL,
        };
        let server = Server::new(folder, launch);
        server
            .start(async |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).await.is_ok())
            .await?;
        Ok(Self { _server: server, port })
    }

    /// The superuser's URL of the database `postgres`, through the pool.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("postgres", "postgres")
    }

    /// The URL of a database for any role that the Postgres behind knows.
    #[must_use]
    pub fn url_as(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port.number())
    }
}

/// Even `trust` wants to know the role, which pgbouncer looks up as `auth_user` where its own list
/// ends.
fn configuration(folder: &Folder, port: u16, server_port: u16) -> String {
    format!(
        "[databases]
* = host=127.0.0.1 port={server_port} auth_user=postgres

[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
max_client_conn = 300
",
        users = folder.entry("users"),
    )
}

#[cfg(test)]
mod tests {
    use tokio_postgres::{Client, NoTls};

    use super::*;

    async fn connect(url: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn session(client: &Client) -> String {
        let rows = client.simple_query("select pg_backend_pid()").await.unwrap();
        let row = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        row.unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_session_changes_hands_between_transactions() {
        let postgres = Postgres::start().await.unwrap();
        let pgbouncer = Pgbouncer::transaction_mode(&postgres).await.unwrap();
        let (one, two) = (connect(&pgbouncer.url()).await, connect(&pgbouncer.url()).await);
        assert_eq!(session(&one).await, session(&two).await);

        one.batch_execute("begin").await.unwrap();
        assert_ne!(session(&one).await, session(&two).await);
    }

    #[tokio::test]
    async fn any_role_of_the_server_may_come_through() {
        let postgres = Postgres::start().await.unwrap();
        let admin = postgres.connect().await.unwrap();
        admin.batch_execute("create role worker login").await.unwrap();
        let pgbouncer = Pgbouncer::transaction_mode(&postgres).await.unwrap();
        let worker = connect(&pgbouncer.url_as("worker", "postgres")).await;
        assert!(worker.batch_execute("create role another").await.is_err());
    }
}
