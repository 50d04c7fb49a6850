//! The etcd lock under the laws.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use tenure::{
    Epoch, Timing,
    lock::{
        Lock,
        etcd::{EtcdLock, EtcdSettings},
    },
};

use super::backend::{Backend, Blocked, Blocker, named};
use crate::{etcd::Etcd, millis, proxy::Proxy};

/// One etcd, and a proxy that can keep its answers back.
pub struct EtcdBackend {
    server: Etcd,
    proxy: Proxy,
}

impl EtcdBackend {
    pub async fn start() -> Result<Self> {
        let server = Etcd::start().await?;
        let proxy = Proxy::to(server.endpoint().parse()?).await?;
        Ok(Self { server, proxy })
    }

    fn lock(&self, endpoint: String, scope: &str, holder: &str) -> Box<dyn Lock> {
        let settings = EtcdSettings::at(vec![endpoint]);
        Box::new(EtcdLock::new(settings, named(scope, holder), self.timing()).expect("a lock"))
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    fn candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.lock(self.server.endpoint(), scope, holder)
    }

    /// Whole seconds, because etcd rounds up.
    fn timing(&self) -> Timing {
        let lease = Timing::lease(Duration::from_secs(3));
        // Two hundred candidates on two cores take their time.
        lease.call_timeout(millis(900)).build().expect("a lease of 3 s")
    }

    fn patient_candidate(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        self.candidate(scope, holder)
    }

    /// Nothing comes through after the transaction that names the holder: neither its answer, nor what was sent to
    /// undo it.
    async fn candidate_whose_reply_is_lost(&self, scope: &str, holder: &str) -> Box<dyn Lock> {
        let mut lock = self.lock(self.proxy.addr().to_string(), scope, holder);
        self.proxy.hold_after(&format!("\n{holder}"));
        let answer = lock.acquire(Epoch::ZERO).await;
        assert!(answer.is_err(), "the answer was kept back, and yet came: {answer:?}");
        self.proxy.cut();
        self.proxy.pass();
        let seen = self.candidate(scope, "onlooker").observe().await.expect("an answer");
        assert!(seen.held.is_some_and(|held| held.holder == holder), "it was applied");
        lock
    }

    async fn block(&self, _: &str, _: Blocker) -> Box<dyn Blocked> {
        unreachable!("a law without meaning for etcd")
    }

    async fn restart_server(&self) {
        self.server.restart().await.expect("a restart");
    }

    async fn listening(&self) {
        // A watch has no trace that could be waited for from outside.
        tokio::time::sleep(millis(500)).await;
    }

    fn has_no_meaning(&self, law: &str) -> Option<&'static str> {
        law.starts_with("renew_refused_after_waiting_past_expiry")
            .then_some("etcd has no locks on rows that a renewal could wait for")
    }
}
