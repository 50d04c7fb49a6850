//! When a node wants to be woken: as soon as there is something to do, and not while an answer is awaited.

use std::time::Duration;

use tenure::{
    Timing,
    elector::{Event, Renewal, Shown},
};

use crate::node::{FIRST, LEASE, Node, node, observe};

fn held(node: &mut Node, left: Duration) {
    let command = node.asks();
    let shown = Some(Shown { renewal: Renewal { epoch: FIRST, mark: 1 }, lasts: LEASE });
    node.hears(Event::Held { command, epoch: FIRST, left: Some(left), shown, ours: false });
}

#[test]
fn a_follower_wakes_when_the_lease_that_it_saw_ends_and_not_while_it_asks() {
    let mut node = node();
    let left = LEASE / 2;
    held(&mut node, left);
    assert_eq!(node.wakes().map(|(at, _)| at), Some(node.now + left));
    node.now = node.now + left;
    node.asks();
    assert_eq!(node.wakes(), None, "the answer wakes it");
}

#[test]
fn a_cautious_follower_wakes_when_its_caution_is_over() {
    let mut node = node();
    held(&mut node, LEASE / 2);
    node.hears(Event::ClockJumped);
    assert_eq!(node.wakes().map(|(at, _)| at), Some(node.now + LEASE));
}

#[test]
fn a_leader_wakes_for_its_renewal_and_while_that_is_under_way_for_its_deadline() {
    let timing = Timing::lease(LEASE).build().unwrap();
    let (interval, open_for) = (timing.renew_interval(), timing.gate_open_for());
    let mut node = Node::new(timing);
    node.leads();
    let won = node.now;
    assert_eq!(node.wakes().map(|(at, _)| at), Some(won + interval));
    node.renews();
    assert_eq!(node.wakes().map(|(at, _)| at), Some(won + open_for));
}

#[test]
fn heartbeats_are_spread_around_their_interval() {
    let interval = Duration::from_secs(3);
    let timing = Timing::heartbeat(interval, interval * 2).build().unwrap();
    let jitter = timing.renew_jitter();
    let mut node = Node::new(timing);
    node.leads();
    assert!(!jitter.is_zero());
    assert_eq!(node.wakes(), Some((node.now + interval - jitter, jitter * 2)));
}

#[test]
fn a_node_at_rest_wakes_to_look_and_not_while_it_does() {
    let timing = Timing::lease(LEASE).build().unwrap();
    let pause = timing.look_interval();
    let mut node = Node::new(timing);
    node.hears(Event::DrainAsked);
    assert_eq!(node.wakes().map(|(at, _)| at), Some(node.now + pause));
    node.sleeps(pause);
    assert_eq!(node.wakes(), None, "the answer wakes it");
}

#[test]
fn a_look_that_got_no_answer_is_repeated_after_a_pause() {
    let mut node = node();
    node.hears(Event::DrainAsked);
    let command = observe(&node.sleeps(LEASE));
    assert_eq!(node.hears(Event::Unknown { command }), [], "not at once");
    let (at, spread) = node.wakes().expect("it looks again");
    assert!(at + spread > node.now);
    observe(&node.sleeps(LEASE));
}

#[test]
fn a_late_gate_is_shut_in_time_even_while_a_renewal_is_under_way() {
    let timing = Timing::heartbeat(Duration::from_secs(3), Duration::from_secs(6)).build().unwrap();
    let open_for = timing.gate_open_for();
    let mut node = Node::new(timing);
    node.leads();
    let won = node.now;
    node.renews();
    assert_eq!(node.wakes().map(|(at, _)| at), Some(won + open_for));
    node.sleeps(open_for);
    assert_eq!(node.wakes(), None, "the answer opens it again");
}
