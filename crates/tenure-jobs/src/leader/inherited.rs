//! Leases of earlier leaders, whose answers may have died with them.
//!
//! An agent asks for jobs in one place at a time. When it comes here, whatever it was told before has reached it: a lease
//! in its name that it does not name is known to nobody, and need not run out first.

use std::collections::HashMap;

use super::desk::LeaseAsked;
use crate::round::OpenLease;

/// By namespace and agent, until that agent has said what it knows.
#[derive(Default)]
pub(super) struct Inherited(HashMap<(String, String), Vec<String>>);

impl Inherited {
    pub(super) fn new(leases: Vec<OpenLease>) -> Self {
        let mut inherited = Self::default();
        for OpenLease { lease_id, namespace, agent } in leases {
            inherited.0.entry((namespace, agent)).or_default().push(lease_id);
        }
        inherited
    }

    /// What whoever asks was never told of. Once in a term: two processes under one name do not take from each other
    /// for ever.
    pub(super) fn unknown_to(&mut self, asked: &LeaseAsked) -> Vec<String> {
        let Some(named) = asked.leases.as_ref().filter(|_| !self.0.is_empty()) else {
            return Vec::new();
        };
        let agent = (asked.namespace.clone(), asked.agent.clone());
        let mut leases = self.0.remove(&agent).unwrap_or_default();
        leases.retain(|lease| !named.contains(lease));
        leases
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::Ops;

    fn open(lease_id: &str, namespace: &str, agent: &str) -> OpenLease {
        let [lease_id, namespace, agent] = [lease_id, namespace, agent].map(str::to_owned);
        OpenLease { lease_id, namespace, agent }
    }

    fn asks(agent: &str, leases: Option<&[&str]>) -> LeaseAsked {
        LeaseAsked {
            namespace: "here".to_owned(),
            agent: agent.to_owned(),
            ops: Ops::All,
            most: 1,
            wait: Duration::ZERO,
            lasts: None,
            leases: leases.map(|leases| leases.iter().map(|&lease| lease.to_owned()).collect()),
        }
    }

    #[test]
    fn what_an_agent_does_not_name_is_unknown_to_it_once_and_only_if_it_names_any() {
        let mut inherited = Inherited::new(vec![
            open("known", "here", "ann"),
            open("lost", "here", "ann"),
            open("elsewhere", "there", "ann"),
            open("another's", "here", "bob"),
        ]);
        assert!(inherited.unknown_to(&asks("ann", None)).is_empty());
        assert_eq!(inherited.unknown_to(&asks("ann", Some(&["known"]))), ["lost"]);
        assert!(inherited.unknown_to(&asks("ann", Some(&[]))).is_empty());
        assert_eq!(inherited.unknown_to(&asks("bob", Some(&[]))), ["another's"]);
    }
}
