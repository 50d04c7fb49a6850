//! A server with an outbox, and those who use it.

use std::ops::Deref;

use tenure_outbox::install;
use tenure_testkit::{
    eventually::{eventually_true, secs},
    postgres::Postgres,
};
use tokio_postgres::{Client, error::SqlState};
use uuid::Uuid;

/// A fresh server.
pub struct Scene {
    pub postgres: Postgres,
    /// A superuser.
    pub admin: Client,
}

/// Somebody's connection, of which the others can see whether it waits.
pub struct Session {
    client: Client,
    pid: i32,
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Scene {
    pub async fn with_outbox(version: u32) -> Self {
        let scene = Self::without_outbox(version).await;
        install::install(&scene.admin).await.unwrap();
        scene
    }

    pub async fn without_outbox(version: u32) -> Self {
        let postgres = Postgres::of_version(version).await.unwrap();
        let admin = postgres.connect().await.unwrap();
        Self { postgres, admin }
    }

    /// Somebody who logs in, and is one of this role.
    pub async fn member_of(&self, role: &str) -> Session {
        self.login(&format!("one_of_{role}"), &format!("IN ROLE {role}")).await
    }

    /// Somebody who claims and completes.
    pub async fn worker(&self) -> Session {
        self.member_of("symphony_executor").await
    }

    /// Somebody who enqueues.
    pub async fn ingest(&self) -> Session {
        self.member_of("symphony_ingest").await
    }

    /// Somebody who logs in, with these attributes.
    pub async fn login(&self, name: &str, attributes: &str) -> Session {
        let create = format!("CREATE ROLE {name} LOGIN {attributes}");
        if let Err(error) = self.admin.batch_execute(&create).await {
            // The second time it is there.
            assert_eq!(error.code(), Some(&SqlState::DUPLICATE_OBJECT), "{create}");
        }
        self.session_of(name).await
    }

    /// Another superuser.
    pub async fn stranger(&self) -> Session {
        self.session_of("postgres").await
    }

    async fn session_of(&self, role: &str) -> Session {
        let client = self.postgres.connect_as(role).await.unwrap();
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        Session { client, pid }
    }

    /// What `call` answers, which has to wait for a lock that somebody gives up in `meanwhile`.
    pub async fn while_waiting<T>(
        &self,
        session: &Session,
        call: impl Future<Output = T>,
        meanwhile: impl Future<Output = ()>,
    ) -> T {
        let meanwhile = async {
            self.until_waiting(session).await;
            meanwhile.await;
        };
        tokio::join!(call, meanwhile).0
    }

    /// Returns once the session waits for somebody's lock.
    pub async fn until_waiting(&self, session: &Session) {
        let ask =
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
        eventually_true("a wait for a lock", secs(20), async || {
            self.admin.query_one(ask, &[&session.pid]).await.unwrap().get(0)
        })
        .await;
    }

    /// Returns once the lease is over, if nobody extends it; `lease_expires_at` as it is committed.
    pub async fn until_expired(&self, outbox_id: Uuid) {
        let ask = "SELECT lease_expires_at < clock_timestamp() FROM payment_outbox_pending WHERE outbox_id = $1";
        eventually_true("the end of the lease", secs(20), async || {
            self.admin.query_one(ask, &[&outbox_id]).await.unwrap().get(0)
        })
        .await;
    }

    /// Ends the lease now. Not earlier than now: a session does not look again at once for what it has seen end.
    pub async fn expire(&self, outbox_id: Uuid) {
        let expire = "UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() WHERE outbox_id = $1";
        assert_eq!(self.admin.execute(expire, &[&outbox_id]).await.unwrap(), 1);
    }

    /// `number STATE error_code` of every attempt at it.
    pub async fn attempts_at(&self, outbox_id: Uuid) -> Vec<String> {
        let ask =
            "SELECT concat_ws(' ', attempt_no, state, error_code) FROM payment_outbox_attempts
            WHERE outbox_id = $1 ORDER BY attempt_no";
        let rows = self.admin.query(ask, &[&outbox_id]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// What a query says in a text.
    pub async fn text(&self, query: &str) -> String {
        self.admin.query_one(query, &[]).await.unwrap().get(0)
    }

    /// What a query says of one pending row in a text.
    pub async fn text_of(&self, outbox_id: Uuid, columns: &str) -> String {
        let query = format!("SELECT {columns} FROM payment_outbox_pending WHERE outbox_id = $1");
        self.admin.query_one(&query, &[&outbox_id]).await.unwrap().get(0)
    }

    pub async fn is_pending(&self, outbox_id: Uuid) -> bool {
        let ask = "SELECT count(*) > 0 FROM payment_outbox_pending WHERE outbox_id = $1";
        self.admin.query_one(ask, &[&outbox_id]).await.unwrap().get(0)
    }
}

pub async fn begin(session: &Client) {
    session.batch_execute("BEGIN").await.unwrap();
}

pub async fn commit(session: &Client) {
    session.batch_execute("COMMIT").await.unwrap();
}

/// Begins a transaction with this statement, and so holds its locks.
pub async fn hold(session: &Client, statement: &str) {
    begin(session).await;
    session.batch_execute(statement).await.unwrap();
}

/// A law, as a test per version; by default on a server that has an outbox.
macro_rules! on_every_version {
    (on Scene::$made:ident: $($law:ident),* $(,)?) => {
        mod on_postgres_15 {
            $(#[tokio::test] async fn $law() { super::$law(&$crate::scene::Scene::$made(15).await).await; })*
        }
        mod on_postgres_18 {
            $(#[tokio::test] async fn $law() { super::$law(&$crate::scene::Scene::$made(18).await).await; })*
        }
    };
    ($($law:ident),* $(,)?) => {
        $crate::scene::on_every_version! { on Scene::with_outbox: $($law),* }
    };
}
pub(crate) use on_every_version;
