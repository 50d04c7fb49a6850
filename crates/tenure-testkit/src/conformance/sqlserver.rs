//! The lease row of SQL Server under the laws, on the server that `TENURE_TEST_SQLSERVER` names.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use async_trait::async_trait;
use tenure::{
    Epoch, Timing,
    lock::{
        Acquire, Lock,
        sqlserver_lease::{LeaseTable, SqlServerLease},
    },
    schema,
};
use tenure_database::sqlserver::{Session, SqlServerUrl};

use super::backend::{Backend, Blocked, Blocker, named};
use crate::{
    eventually_true,
    proxy::{Direction, Proxy},
    secs,
    sqlserver::{Database, VARIABLE, not_shown},
};

const NEEDS_LOCKS: &str = "this server takes UPDLOCK and HOLDLOCK and ignores them";
const NEEDS_WAITS: &str = "this server does not show who waits for whom";

/// A migrated database, and a proxy that can keep its answers back.
pub struct SqlServerBackend {
    database: Database,
    proxy: Proxy,
    locks: bool,
    shows_waits: bool,
}

impl SqlServerBackend {
    pub async fn start() -> Result<Self> {
        let database = Database::with(&[(schema::COMPONENT, &schema::SQLSERVER)]).await?;
        let address = database.url().config().get_addr();
        let mut found = tokio::net::lookup_host(address).await?;
        let address: SocketAddr = found.next().context("the server has no address")?;
        let proxy = Proxy::to(address).await?;
        let (locks, shows_waits) = (database.locks().await?, database.shows_waits().await?);
        Ok(Self { database, proxy, locks, shows_waits })
    }

    fn lock(&self, url: SqlServerUrl, scope: &str, holder: &str, timing: Timing) -> Box<dyn Lock> {
        let lock = SqlServerLease::new(url, LeaseTable::default(), named(scope, holder), timing);
        Box::new(lock.expect("a lock"))
    }

    /// The same database, with answers that can be kept back.
    fn url_through_proxy(&self) -> SqlServerUrl {
        let told = std::env::var(VARIABLE).expect("the server's URL");
        let mut url: url::Url = told.parse().expect("a URL, and no connection string");
        url.set_host(Some("127.0.0.1")).expect("a host");
        url.set_port(Some(self.proxy.port())).expect("a port");
        let name = self.database.url().to_string();
        let name = name.rsplit('/').next().expect("a database").to_owned();
        url.as_str().parse::<SqlServerUrl>().expect("a URL").database(&name)
    }

    async fn session(&self) -> Session {
        self.database.session().await.expect("a session")
    }
}

struct OpenTransaction {
    session: Session,
}

#[async_trait]
impl Blocked for OpenTransaction {
    async fn unblock(mut self: Box<Self>) {
        self.session.run("COMMIT TRANSACTION").await.expect("a commit");
    }
}

#[async_trait]
impl Backend for SqlServerBackend {
    fn candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(self.database.url().clone(), scope, holder, self.timing())
    }

    fn one_of_many(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        let timing =
            Timing::lease(secs(600)).call_timeout(secs(180)).build().expect("a long lease");
        self.lock(self.database.url().clone(), scope, holder, timing)
    }

    /// A login, and a session's first statements, take much longer than a statement does.
    fn timing(&self) -> Timing {
        let lease = Timing::lease(secs(15));
        lease.call_timeout(Duration::from_millis(4_900)).build().expect("a lease of 15 s")
    }

    fn patient_candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(self.database.url().clone(), scope, holder, self.patient_timing())
    }

    async fn candidate_whose_reply_is_lost(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        let mut first = self.candidate(scope, "first");
        if let Ok(Acquire::Granted(grant)) = first.acquire(Epoch::ZERO).await {
            first.release(grant.epoch).await.expect("a release");
        }
        let blocker = self.block(scope, Blocker::Changes).await;
        let mut lock = self.lock(self.url_through_proxy(), scope, holder, self.patient_timing());
        let session = tokio::sync::Mutex::new(self.session().await);
        let lose = async {
            eventually_true("the acquire waits in the server", secs(10), async || {
                let waits = "IF NOT EXISTS (SELECT 1 FROM sys.dm_exec_requests WHERE blocking_session_id <> 0) \
                             THROW 51003, N'nobody waits', 1";
                session.lock().await.run(waits).await.is_ok()
            })
            .await;
            self.proxy.hold(Direction::ToClient);
            blocker.unblock().await;
        };
        let (answer, ()) = tokio::join!(lock.acquire(Epoch::ZERO), lose);
        assert!(answer.is_err(), "the answer was kept back, and yet came: {answer:?}");
        self.proxy.pass();
        lock
    }

    async fn block(&self, scope: &str, blocker: Blocker) -> Box<dyn Blocked> {
        let mut session = self.session().await;
        session.run("BEGIN TRANSACTION").await.expect("a transaction");
        let row = format!("WHERE lease_name = '{scope}'");
        let statement = match blocker {
            Blocker::Locks => {
                format!("SELECT lease_name FROM dbo.tenure_leases WITH (UPDLOCK, ROWLOCK) {row}")
            }
            Blocker::Changes => format!("UPDATE dbo.tenure_leases SET nonce = nonce {row}"),
        };
        session.run(&statement).await.expect("the row");
        Box::new(OpenTransaction { session })
    }

    async fn restart_server(&self) {
        unreachable!("it is not ours to restart");
    }

    /// The first look tells whatever it sees.
    async fn listening(&self) {}

    fn has_no_meaning(&self, law: &str) -> Option<&'static str> {
        let why = match law {
            "epochs_survive_a_restart_of_the_server" => Some("the server is not ours to restart"),
            "renew_refused_after_waiting_past_expiry_behind_a_locked_row"
            | "renew_refused_after_waiting_past_expiry_behind_a_changed_row" => {
                (!self.locks).then_some(NEEDS_LOCKS)
            }
            "a_reply_lost_after_commit_is_safe_and_does_not_cost_a_lease" => {
                (!self.shows_waits).then_some(NEEDS_WAITS)
            }
            _ => None,
        }?;
        not_shown(law, why);
        Some(why)
    }
}
