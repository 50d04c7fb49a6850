//! What an elector says of itself, to whoever must know whether it may leave.

use std::hash::{DefaultHasher, Hash, Hasher};

use tenure::elector::{Elector, Event};

use crate::node::{FIRST, LEASE, node, release};

fn hash(elector: &Elector) -> u64 {
    let mut hasher = DefaultHasher::new();
    elector.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_term_is_had_from_its_grant_until_it_is_given_back() {
    let mut node = node();
    assert!(!node.elector.has_term());
    node.leads();
    assert!(node.elector.has_term());
    node.sleeps(LEASE);
    assert!(node.elector.has_term() && node.elector.holding().is_none(), "its work still runs");
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert!(node.elector.has_term(), "it is being released");
    let (command, _) = release(&stopped).unwrap();
    node.hears(Event::Released { command });
    assert!(!node.elector.has_term());
}

#[test]
fn a_node_is_at_rest_when_it_neither_contends_nor_waits_for_an_answer() {
    let mut node = node();
    assert!(!node.elector.is_at_rest(), "it will ask");
    let command = node.asks();
    assert!(!node.elector.acquires_in_vain() && !node.elector.is_drained());
    node.hears(Event::DrainAsked);
    assert!(node.elector.is_drained());
    assert!(node.elector.acquires_in_vain() && !node.elector.is_at_rest(), "an answer may come");
    let sent_at = node.now;
    let settle = std::time::Duration::ZERO;
    let granted = node.hears(Event::Granted { command, sent_at, epoch: FIRST, settle });
    assert!(!node.elector.acquires_in_vain() && !node.elector.is_at_rest(), "it has a stray term");
    let (command, _) = release(&granted).unwrap();
    node.hears(Event::Released { command });
    assert!(node.elector.is_at_rest());
    node.hears(Event::DrainEnded);
    assert!(!node.elector.is_drained() && !node.elector.is_at_rest());
}

/// A look does not keep a node from leaving; an acquire does.
#[test]
fn a_node_that_looks_is_at_rest() {
    let mut node = node();
    node.hears(Event::DrainAsked);
    node.sleeps(LEASE);
    assert!(node.elector.is_at_rest() && !node.elector.acquires_in_vain());
}

/// The model checker tells worlds apart by it.
#[test]
fn electors_in_different_states_hash_differently() {
    let mut node = node();
    let before = node.elector.clone();
    node.asks();
    assert_ne!(hash(&before), hash(&node.elector));
}
