//! Calls to etcd on a connection of one's own, made anew whenever one of them went wrong.

use std::{fmt, future::Future, time::Duration};

use etcd_client::{Client, ConnectOptions, TlsOptions, Txn, TxnResponse};
use tenure_database::{DatabaseError, Deadline};

use super::{
    EtcdSettings,
    keys::{Keys, Seen},
};
use crate::lock::LockError;

/// Keeps one client for calls that come one after another.
///
/// A call takes it out, and puts it back when it has succeeded; whatever else happens drops it. The next
/// client goes to the next endpoint, so that a member that is silent costs one call and not every third.
pub(super) struct Line {
    settings: EtcdSettings,
    turn: usize,
    idle: Option<Client>,
    notices_silence: bool,
}

impl Line {
    /// Connects at the first call.
    pub(super) fn to(settings: EtcdSettings) -> Self {
        let turn = fastrand::usize(..settings.endpoints.len());
        Self { settings, turn, idle: None, notices_silence: false }
    }

    /// For a connection on which nothing may come for long: is anybody still there?
    pub(super) fn noticing_silence(mut self) -> Self {
        self.notices_silence = true;
        self
    }

    pub(super) async fn take(&mut self, deadline: Deadline) -> Result<Session, LockError> {
        let client = match self.idle.take() {
            Some(client) => client,
            None => self.connect(deadline).await?,
        };
        Ok(Session { client, deadline })
    }

    pub(super) fn put_back(&mut self, session: Session) {
        self.idle = Some(session.client);
    }

    async fn connect(&mut self, deadline: Deadline) -> Result<Client, LockError> {
        let endpoint = &self.settings.endpoints[self.turn];
        self.turn = (self.turn + 1) % self.settings.endpoints.len();
        let connecting = Client::connect([endpoint], Some(self.options(endpoint)));
        call(deadline, connecting).await.map_err(|error| refuse_malformed(endpoint, error))
    }

    fn options(&self, endpoint: &str) -> ConnectOptions {
        // A member without a leader says so at once, and ends its watches, instead of keeping silent.
        let mut options = ConnectOptions::new().with_require_leader(true);
        if let Some((name, password)) = &self.settings.user {
            options = options.with_user(name, password).with_auto_token_refresh(true);
        }
        if endpoint.starts_with("https://") {
            options = options.with_tls(TlsOptions::new().with_enabled_roots());
        }
        if self.notices_silence {
            // etcd hangs up on those who ask more often than every 5 s.
            options = options.with_keep_alive(Duration::from_secs(10), Duration::from_secs(20));
        }
        options
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("to", &self.settings).finish_non_exhaustive()
    }
}

/// A client, and the moment by which its calls must have answered.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) deadline: Deadline,
}

impl Session {
    pub(super) async fn look(&mut self, keys: &Keys) -> Result<Seen, LockError> {
        keys.read(&self.transact(keys.look()).await?)
    }

    pub(super) async fn transact(&mut self, transaction: Txn) -> Result<TxnResponse, LockError> {
        call(self.deadline, self.client.txn(transaction)).await
    }

    pub(super) async fn grant(&mut self, secs: i64) -> Result<i64, LockError> {
        let lease = call(self.deadline, self.client.lease_grant(secs, None)).await?;
        Ok(lease.id())
    }

    /// Sends one keep-alive and waits for its answer; a lease that is gone is an error.
    pub(super) async fn keep_alive(&mut self, lease: i64) -> Result<(), LockError> {
        call(self.deadline, self.client.lease_keep_alive(lease)).await?;
        Ok(())
    }

    /// How long a lease still runs, at most: etcd says the whole seconds.
    pub(super) async fn left(&mut self, lease: i64) -> Result<Duration, LockError> {
        let lease = call(self.deadline, self.client.lease_time_to_live(lease, None)).await?;
        // One that has run out is there until a quorum has revoked it.
        Ok(Duration::from_secs(lease.ttl().max(0).unsigned_abs() + 1))
    }

    /// Gives a lease back, and with it what is attached to it; one that is gone is no error.
    pub(super) async fn revoke(&mut self, lease: i64) -> Result<(), LockError> {
        match call(self.deadline, self.client.lease_revoke(lease)).await {
            Err(LockError::Etcd(error)) if is_not_found(&error) => Ok(()),
            answer => answer.map(drop),
        }
    }
}

/// Runs a call that must have answered by then. What etcd itself says is a value to the deadline, which
/// knows only the errors of databases.
pub(super) async fn call<T>(
    deadline: Deadline,
    call: impl Future<Output = Result<T, etcd_client::Error>> + Send,
) -> Result<T, LockError> {
    let answer = deadline.run(async { Ok::<_, DatabaseError>(call.await) }).await?;
    answer.map_err(|error| LockError::Etcd(Box::new(error)))
}

fn is_not_found(error: &etcd_client::Error) -> bool {
    const NOT_FOUND: i32 = 5;
    matches!(error, etcd_client::Error::GRpcStatus(status) if status.code() as i32 == NOT_FOUND)
}

fn refuse_malformed(endpoint: &str, error: LockError) -> LockError {
    use etcd_client::Error::{InvalidArgs, InvalidUri};
    match error {
        LockError::Etcd(error) if matches!(*error, InvalidArgs(_) | InvalidUri(_)) => {
            LockError::Refused(format!("etcd endpoint {endpoint:?} is not a URL: {error}"))
        }
        error => error,
    }
}
