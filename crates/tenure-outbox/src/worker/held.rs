//! The claims that a worker has in hand, from the claim to the record.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::claim::Claim;

/// A claim with the place that it takes.
#[derive(Debug)]
pub(super) struct Work {
    pub claim: Arc<Claim>,
    pub _place: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HashMap<Uuid, Arc<Claim>>>);

impl Held {
    pub fn add(&self, claims: &[Arc<Claim>]) {
        self.all().extend(claims.iter().map(|claim| (claim.lease_token, Arc::clone(claim))));
    }

    pub fn remove<'c>(&self, claims: impl IntoIterator<Item = &'c Arc<Claim>>) {
        let mut all = self.all();
        for claim in claims {
            all.remove(&claim.lease_token);
        }
    }

    /// Those that have less than this left.
    pub fn ending_within(&self, left: Duration) -> Vec<Arc<Claim>> {
        self.all().values().filter(|claim| claim.left() < left).cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Claim>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
