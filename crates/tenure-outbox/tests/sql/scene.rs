//! A server with an outbox, and those who use it.

use tenure_outbox::install;
use tenure_testkit::postgres::Postgres;
use tokio_postgres::Client;

/// The versions that every law is tried on.
pub const VERSIONS: [u32; 2] = [15, 18];

/// A fresh server with an outbox.
pub struct Scene {
    pub postgres: Postgres,
    /// A superuser.
    pub admin: Client,
}

impl Scene {
    pub async fn on(version: u32) -> Self {
        let postgres = Postgres::of_version(version).await.unwrap();
        let admin = postgres.connect().await.unwrap();
        install::install(&admin).await.unwrap();
        Self { postgres, admin }
    }

    /// Somebody who logs in, and is one of this role.
    pub async fn member_of(&self, role: &str) -> Client {
        let login = format!("{role}_member");
        let create = format!("CREATE ROLE {login} LOGIN IN ROLE {role}");
        // The second time it is there.
        let _ = self.admin.batch_execute(&create).await;
        self.postgres.connect_as(&login).await.unwrap()
    }
}

/// A law, as a test per version.
macro_rules! on_every_version {
    ($($law:ident),* $(,)?) => {
        mod on_postgres_15 {
            $(#[tokio::test] async fn $law() { super::$law(&$crate::scene::Scene::on(15).await).await; })*
        }
        mod on_postgres_18 {
            $(#[tokio::test] async fn $law() { super::$law(&$crate::scene::Scene::on(18).await).await; })*
        }
    };
}
pub(crate) use on_every_version;
