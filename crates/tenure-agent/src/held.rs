//! The leases that an agent works on, or has results of: its heartbeats name them, and no others.
//!
//! Another process may have had the agent's name before. Whatever that one held must run out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldLeases {
    leases: Arc<Mutex<BTreeMap<String, Lease>>>,
    /// Cancelled when whatever runs is to end.
    cut: CancellationToken,
}

#[derive(Debug)]
struct Lease {
    /// How many jobs or results it has here.
    count: usize,
    gone: CancellationToken,
}

/// One of them, as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    id: String,
    gone: CancellationToken,
    all: HeldLeases,
}

impl HeldLeases {
    pub fn hold(&self, id: &str) -> Held {
        let mut all = self.all();
        let lease = all
            .entry(id.to_owned())
            .or_insert_with(|| Lease { count: 0, gone: self.cut.child_token() });
        lease.count += 1;
        Held { id: id.to_owned(), gone: lease.gone.clone(), all: self.clone() }
    }

    pub fn ids(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    /// The controller says that it is this agent's no more: whatever would come of its jobs is refused.
    pub fn is_gone(&self, id: &str) {
        if let Some(lease) = self.all().get(id) {
            lease.gone.cancel();
        }
    }

    /// Ends whatever runs.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Cancelled when its jobs are to end.
    pub fn ends(&self) -> CancellationToken {
        self.gone.clone()
    }

    /// Whether its jobs end because it is another's, and not with the agent.
    pub fn was_lost(&self) -> bool {
        self.gone.is_cancelled() && !self.all.cut.is_cancelled()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.all.all();
        match all.get_mut(&self.id) {
            Some(lease) if lease.count > 1 => lease.count -= 1,
            _ => drop(all.remove(&self.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_until_the_last_of_its_jobs_lets_go() {
        let leases = HeldLeases::default();
        let (one, other, third) = (leases.hold("a"), leases.hold("a"), leases.hold("b"));
        assert_eq!((leases.ids(), third.id()), (vec!["a".to_owned(), "b".to_owned()], "b"));
        drop((one, third));
        assert_eq!(leases.ids(), ["a"]);
        drop(other);
        assert!(leases.ids().is_empty());
    }

    #[test]
    fn a_lease_that_is_gone_ends_its_jobs_and_no_others() {
        let leases = HeldLeases::default();
        let (lost, kept) = (leases.hold("lost"), leases.hold("kept"));
        leases.is_gone("lost");
        leases.is_gone("never held");
        assert!(lost.ends().is_cancelled() && lost.was_lost());
        assert!(!kept.ends().is_cancelled());
        leases.cut();
        assert!(kept.ends().is_cancelled() && !kept.was_lost(), "it ends with the agent");
    }
}
