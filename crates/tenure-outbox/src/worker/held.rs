//! The claims that a worker has in hand, from the claim to the record.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::claim::Claim;

/// All of them; whatever becomes of a claim's [`Work`], it is in hand no longer than that.
#[derive(Clone, Debug)]
pub(super) struct Held {
    claims: Arc<Mutex<HashMap<Uuid, Arc<Claim>>>>,
    count: Gauge,
}

/// A claim with the place that it takes.
#[derive(Debug)]
pub(super) struct Work {
    pub claim: Arc<Claim>,
    held: Held,
    _place: OwnedSemaphorePermit,
}

impl Held {
    pub fn counted_by(count: Gauge) -> Self {
        Self { claims: Arc::default(), count }
    }

    pub fn hold(&self, claim: Arc<Claim>, place: OwnedSemaphorePermit) -> Work {
        self.all().insert(claim.lease_token, Arc::clone(&claim));
        self.count.inc();
        Work { claim, held: self.clone(), _place: place }
    }

    /// Those that have less than this left.
    pub fn ending_within(&self, left: Duration) -> Vec<Arc<Claim>> {
        self.all().values().filter(|claim| claim.left() < left).cloned().collect()
    }

    /// These are somebody else's by now: nothing makes them last.
    pub fn give_up(&self, lost: &[Arc<Claim>]) {
        let mut all = self.all();
        for claim in lost {
            all.remove(&claim.lease_token);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Claim>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.held.all().remove(&self.claim.lease_token);
        self.held.count.dec();
    }
}
