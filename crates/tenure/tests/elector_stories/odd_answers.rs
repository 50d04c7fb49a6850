//! Answers that come late, twice, or to another question than the last.

use std::time::Duration;

use tenure::{
    Epoch, OnFailedRenew, Timing,
    elector::{Command, CommandId, EndReason, Event, Renewal, Shown},
};

use crate::node::{FIRST, LEASE, Node, acquire, node, release};

const SECOND: Epoch = Epoch::new(2);
const A_MOMENT: Duration = Duration::from_millis(1);

fn granted(node: &Node, command: CommandId, epoch: Epoch) -> Event {
    Event::Granted { command, sent_at: node.now, epoch, settle: Duration::ZERO }
}

fn raises(commands: &[Command]) -> Option<CommandId> {
    commands.iter().find_map(|command| match command {
        Command::RaiseFence { command, .. } => Some(*command),
        _ => None,
    })
}

#[test]
fn every_question_has_a_number_of_its_own() {
    let mut node = node();
    let first = node.asks();
    let raise = raises(&node.hears(granted(&node, first, FIRST))).unwrap();
    node.hears(Event::FenceRaised { epoch: FIRST });
    node.hears(Event::Prepared { epoch: FIRST });
    let renew = node.renews();
    assert!(first < raise && raise < renew, "{first} {raise} {renew}");
    assert_eq!(format!("{first} {raise} {renew}"), "#1 #2 #3");
}

#[test]
fn a_grant_that_comes_exactly_at_its_deadline_is_given_back() {
    let mut node = node();
    let (command, sent_at) = (node.asks(), node.now);
    node.now = node.now + LEASE - LEASE / 5;
    let grant = Event::Granted { command, sent_at, epoch: FIRST, settle: Duration::ZERO };
    assert!(release(&node.hears(grant)).is_some());
}

#[test]
fn a_late_grant_of_an_acquire_that_was_given_up_is_released() {
    let mut node = node();
    let first = node.asks();
    node.hears(Event::Unknown { command: first });
    let second = acquire(&node.sleeps(Duration::from_secs(5))).unwrap();
    assert_eq!(node.hears(granted(&node, first, FIRST)), [], "the second is under way");
    let left = Some(LEASE);
    let held = Event::Held { command: second, epoch: FIRST, left, shown: None, ours: false };
    assert_eq!(release(&node.hears(held)).map(|(_, epoch)| epoch), Some(FIRST));
}

#[test]
fn a_late_grant_of_a_term_that_is_long_over_is_no_news() {
    let mut node = node();
    let first = node.asks();
    node.hears(Event::Unknown { command: first });
    let second = acquire(&node.sleeps(Duration::from_secs(5))).unwrap();
    let (epoch, left) = (Epoch::new(3), Some(LEASE));
    node.hears(Event::Held { command: second, epoch, left, shown: None, ours: false });
    assert_eq!(node.hears(granted(&node, first, SECOND)), []);
}

#[test]
fn a_doubled_grant_is_not_given_back_when_its_term_has_ended() {
    let mut node = node();
    let command = node.asks();
    let grant = granted(&node, command, FIRST);
    node.hears(grant);
    node.hears(grant);
    let renew = node.renews();
    let lost = node.hears(Event::Lost { command: renew });
    assert!(release(&lost).is_none() && acquire(&lost).is_some(), "{lost:?}");
}

#[test]
fn a_newer_term_of_our_own_ends_the_one_that_is_led() {
    let mut node = node();
    node.leads();
    let newer = node.hears(granted(&node, CommandId::default(), SECOND));
    assert_eq!(newer[0], Command::CloseGate { epoch: FIRST, reason: EndReason::Superseded });
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert_eq!(release(&stopped).map(|(_, epoch)| epoch), Some(SECOND));
}

#[test]
fn a_loss_that_answers_another_question_is_none() {
    let mut node = node();
    node.leads();
    node.renews();
    assert_eq!(node.hears(Event::Lost { command: CommandId::default() }), []);
    assert_eq!(node.elector.holding(), Some(FIRST));
}

#[test]
fn an_older_works_end_does_not_release_the_term_whose_work_still_runs() {
    let mut node = node();
    node.leads();
    node.sleeps(LEASE);
    assert_eq!(node.hears(Event::Stopped { epoch: Epoch::ZERO }), []);
    assert!(release(&node.hears(Event::Stopped { epoch: FIRST })).is_some());
}

#[test]
fn a_raise_of_unknown_outcome_is_tried_again_after_a_pause_and_no_other_answer_repeats_it() {
    let mut node = node();
    let won = node.is_granted(FIRST);
    let raise = raises(&won).unwrap();
    let renew = node.renews();
    assert_eq!(node.hears(Event::Unknown { command: renew }), [], "that was the renewal");
    assert_eq!(node.hears(Event::Unknown { command: raise }), []);
    assert_eq!(raises(&node.hears(Event::Woke)), None, "not at once");
    assert!(raises(&node.sleeps(Duration::from_secs(1))).is_some());
}

#[test]
fn a_term_that_is_overdue_and_held_all_the_same_is_asked_for_after_a_pause() {
    let mut node = node();
    let (command, renewal) = (node.asks(), Renewal { epoch: FIRST, mark: 1 });
    let (left, shown) = (Some(LEASE * 9), Some(Shown { renewal, lasts: LEASE }));
    let held = |command| Event::Held { command, epoch: FIRST, left, shown, ours: false };
    node.hears(held(command));
    let command = acquire(&node.sleeps(LEASE)).expect("overdue");
    assert_eq!(acquire(&node.hears(held(command))), None, "not at once");
    assert_eq!(acquire(&node.sleeps(LEASE - A_MOMENT)), None);
    assert!(acquire(&node.sleeps(A_MOMENT)).is_some());
}

#[test]
fn a_proof_that_is_as_old_as_the_gate_is_trusted_for_opens_nothing() {
    let late = Duration::from_secs(6);
    let timing = Timing::heartbeat(Duration::from_secs(3), late).build().unwrap();
    let mut node = Node::new(timing);
    node.leads();
    let shut = node.sleeps(late);
    assert_eq!(shut[0], Command::CloseGate { epoch: FIRST, reason: EndReason::Late });
    let Command::Renew { command, .. } = shut[1] else { panic!("{shut:?}") };
    let sent_at = node.now;
    node.now = node.now + late;
    let proven = node.hears(Event::Renewed { command, sent_at, extends: true });
    assert!(matches!(proven[..], [Command::Renew { .. }]), "it only asks again: {proven:?}");
}

#[test]
fn a_node_whose_renewal_failed_pauses_before_it_contends() {
    let strict = Timing::lease(LEASE).on_failed_renew(OnFailedRenew::EndTerm).build().unwrap();
    let pause = strict.backoff().min;
    let mut node = Node::new(strict);
    node.is_granted(FIRST);
    let renew = node.renews();
    let ended = node.hears(Event::Unknown { command: renew });
    let (command, _) = release(&ended).unwrap();
    assert_eq!(acquire(&node.hears(Event::Released { command })), None, "not at once");
    assert_eq!(acquire(&node.sleeps(pause - A_MOMENT)), None);
    assert!(acquire(&node.sleeps(A_MOMENT)).is_some());
}

#[test]
fn a_drain_ends_with_its_grace_and_not_before() {
    let timing = Timing::lease(LEASE).drain_grace(Duration::from_secs(2)).build().unwrap();
    let mut node = Node::new(timing);
    node.leads();
    node.hears(Event::DrainAsked);
    assert_eq!(node.sleeps(Duration::from_secs(2) - A_MOMENT), []);
    let ended = node.sleeps(A_MOMENT);
    assert_eq!(ended, [Command::CloseGate { epoch: FIRST, reason: EndReason::Drained }]);
}
