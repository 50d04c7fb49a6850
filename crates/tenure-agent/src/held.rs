//! The leases that an agent works on, or has results of: its heartbeats name them, and no others.
//!
//! Another process may have had the agent's name before. Whatever that one held must run out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldLeases(Arc<Mutex<BTreeMap<String, usize>>>);

/// One of them, as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    id: String,
    all: HeldLeases,
}

impl HeldLeases {
    pub fn hold(&self, id: &str) -> Held {
        *self.all().entry(id.to_owned()).or_insert(0) += 1;
        Held { id: id.to_owned(), all: self.clone() }
    }

    pub fn ids(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.all.all();
        match all.get_mut(&self.id) {
            Some(count) if *count > 1 => *count -= 1,
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
}
