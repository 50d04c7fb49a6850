//! What can happen to a term, from the asking to the end.

use std::time::Duration;

use tenure::{
    Epoch, OnFailedRenew, Timing,
    elector::{Admits, Command, EndReason, Event, Renewal, Shown},
};

use crate::node::{FIRST, LEASE, Node, acquire, node, observe, release};

#[test]
fn a_term_is_won_then_raised_then_prepared_and_only_then_is_the_gate_opened() {
    let mut node = node();
    let won = node.is_granted(FIRST);
    assert!(matches!(won[..], [Command::RaiseFence { epoch: FIRST, .. }]), "{won:?}");
    let raised = node.hears(Event::FenceRaised { epoch: FIRST });
    assert_eq!(raised, [Command::Prepare { epoch: FIRST }]);
    let until = node.now + LEASE - LEASE / 5;
    let prepared = node.hears(Event::Prepared { epoch: FIRST });
    assert_eq!(prepared, [Command::OpenGate { epoch: FIRST, until, admits: Admits::NewWork }]);
}

#[test]
fn a_slow_grant_is_trusted_from_the_sending_and_not_from_the_answer() {
    let mut node = node();
    let (command, sent_at) = (node.asks(), node.now);
    node.now = node.now + Duration::from_secs(3);
    node.hears(Event::Granted { command, sent_at, epoch: FIRST, settle: Duration::ZERO });
    node.hears(Event::FenceRaised { epoch: FIRST });
    let opened = node.hears(Event::Prepared { epoch: FIRST });
    let until = sent_at + LEASE - LEASE / 5;
    assert!(matches!(opened[0], Command::OpenGate { until: told, .. } if told == until));
}

#[test]
fn a_predecessor_is_sat_out_from_the_answer_and_not_from_the_sending() {
    let mut node = node();
    let (command, sent_at, settle) = (node.asks(), node.now, Duration::from_secs(2));
    node.now = node.now + Duration::from_secs(3);
    node.hears(Event::Granted { command, sent_at, epoch: FIRST, settle });
    let prepare = Command::Prepare { epoch: FIRST };
    assert!(!node.hears(Event::FenceRaised { epoch: FIRST }).contains(&prepare));
    assert!(!node.sleeps(settle - Duration::from_millis(1)).contains(&prepare));
    assert!(node.sleeps(Duration::from_millis(1)).contains(&prepare));
}

#[test]
fn a_grant_that_comes_after_its_own_deadline_is_given_back_unopened() {
    let mut node = node();
    let (command, sent_at) = (node.asks(), node.now);
    node.now = node.now + LEASE;
    let late =
        node.hears(Event::Granted { command, sent_at, epoch: FIRST, settle: Duration::ZERO });
    assert_eq!(release(&late).map(|(_, epoch)| epoch), Some(FIRST));
    assert_eq!(late.len(), 1);
}

#[test]
fn the_deadline_ends_the_term_in_order_and_release_waits_for_the_work() {
    let mut node = node();
    node.leads();
    let renew = node.renews();
    let ended = node.sleeps(LEASE);
    assert_eq!(
        ended,
        [
            Command::CloseGate { epoch: FIRST, reason: EndReason::DeadlinePassed },
            Command::StopWork { epoch: FIRST },
        ]
    );
    assert_eq!(node.hears(Event::Unknown { command: renew }), [], "the work has not stopped yet");
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert_eq!(release(&stopped).map(|(_, epoch)| epoch), Some(FIRST));
}

#[test]
fn a_failed_renewal_is_ridden_out_until_the_deadline_or_ends_the_term_as_the_rule_says() {
    let mut patient = node();
    patient.leads();
    let renew = patient.renews();
    assert_eq!(patient.hears(Event::Unknown { command: renew }), []);
    let again = patient.sleeps(Duration::from_secs(1));
    assert!(matches!(again[..], [Command::Renew { .. }]), "{again:?}");

    let strict = Timing::lease(LEASE).on_failed_renew(OnFailedRenew::EndTerm).build().unwrap();
    let mut strict = Node::new(strict);
    strict.leads();
    let renew = strict.renews();
    let ended = strict.hears(Event::Unknown { command: renew });
    assert_eq!(ended[0], Command::CloseGate { epoch: FIRST, reason: EndReason::RenewFailed });
}

#[test]
fn a_lost_term_is_not_released_and_the_node_contends_again() {
    let mut node = node();
    node.leads();
    let renew = node.renews();
    let lost = node.hears(Event::Lost { command: renew });
    assert_eq!(lost[0], Command::CloseGate { epoch: FIRST, reason: EndReason::Lost });
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert!(release(&stopped).is_none() && acquire(&stopped).is_some(), "{stopped:?}");
}

#[test]
fn a_late_heartbeat_shuts_the_gate_and_a_proof_of_the_same_term_opens_it_again() {
    let timing = Timing::heartbeat(Duration::from_secs(3), Duration::from_secs(6)).build().unwrap();
    let mut node = Node::new(timing);
    node.leads();
    let late = node.sleeps(Duration::from_secs(7));
    assert_eq!(late[0], Command::CloseGate { epoch: FIRST, reason: EndReason::Late });
    let Command::Renew { command, epoch: FIRST } = late[1] else { panic!("{late:?}") };
    let proven = node.hears(Event::Renewed { command, sent_at: node.now, extends: true });
    assert!(matches!(proven[..], [Command::OpenGate { epoch: FIRST, .. }]), "{proven:?}");
}

#[test]
fn a_term_of_an_abandoned_acquire_is_released_instead_of_waited_out() {
    let mut node = node();
    let first = node.asks();
    node.hears(Event::Unknown { command: first });
    let second = acquire(&node.sleeps(Duration::from_secs(1))).unwrap();
    let left = Some(LEASE);
    let seen =
        node.hears(Event::Held { command: second, epoch: FIRST, left, shown: None, ours: true });
    let (command, epoch) = release(&seen).unwrap();
    assert_eq!(epoch, FIRST);
    let released = node.hears(Event::Released { command });
    assert!(acquire(&released).is_some(), "it contends at once");
}

#[test]
fn a_doubled_grant_of_the_term_that_is_led_changes_nothing() {
    let mut node = node();
    let (command, sent_at) = (node.asks(), node.now);
    let granted = Event::Granted { command, sent_at, epoch: FIRST, settle: Duration::ZERO };
    node.hears(granted);
    node.hears(Event::FenceRaised { epoch: FIRST });
    node.hears(Event::Prepared { epoch: FIRST });
    assert_eq!(node.hears(granted), []);
    assert_eq!(node.elector.holding(), Some(FIRST));
}

#[test]
fn a_win_after_a_refusal_of_the_fence_goes_above_where_the_fence_stands() {
    let mut node = node();
    node.is_granted(FIRST);
    let fence = Epoch::new(41);
    let refused = node.hears(Event::FenceRefused { epoch: FIRST, fence });
    let (command, _) = release(&refused).unwrap();
    let again = node.hears(Event::Released { command });
    assert!(matches!(again[0], Command::Acquire { floor, .. } if floor == fence), "{again:?}");
}

#[test]
fn a_jump_of_the_databases_clock_is_sat_out_for_a_lease() {
    let mut node = node();
    let (command, sent_at) = (node.asks(), node.now);
    node.hears(Event::ClockJumped);
    node.hears(Event::Granted { command, sent_at, epoch: FIRST, settle: Duration::ZERO });
    assert_eq!(node.hears(Event::FenceRaised { epoch: FIRST }), [], "raised, and not yet prepared");
    let renew = node.renews();
    node.hears(Event::Renewed { command: renew, sent_at: node.now, extends: true });
    let renew = node.renews();
    node.hears(Event::Renewed { command: renew, sent_at: node.now, extends: true });
    let after = node.sleeps(LEASE / 3);
    assert!(after.contains(&Command::Prepare { epoch: FIRST }), "{after:?}");
}

/// Whoever held it last may have a longer lease than we.
#[test]
fn a_jump_is_sat_out_for_the_lease_that_was_seen_last_where_that_is_longer() {
    let mut node = node();
    let (command, renewal) = (node.asks(), Renewal { epoch: FIRST, mark: 1 });
    let shown = Some(Shown { renewal, lasts: LEASE * 3 });
    node.hears(Event::Held { command, epoch: FIRST, left: Some(LEASE * 3), shown, ours: false });
    node.hears(Event::ClockJumped);
    assert_eq!(acquire(&node.sleeps(LEASE * 3 - Duration::from_millis(1))), None);
    assert!(acquire(&node.sleeps(Duration::from_millis(1))).is_some());
}

#[test]
fn a_drain_lets_running_work_finish_releases_and_stays_out() {
    let mut node = node();
    node.leads();
    let draining = node.hears(Event::DrainAsked);
    assert!(matches!(draining[0], Command::OpenGate { admits: Admits::RunningWork, .. }));
    assert_eq!(draining[1], Command::StopWork { epoch: FIRST });
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert_eq!(stopped[0], Command::CloseGate { epoch: FIRST, reason: EndReason::Drained });
    let (command, _) = release(&stopped).unwrap();
    node.hears(Event::Released { command });
    assert!(node.elector.is_at_rest());
    let looks = node.sleeps(LEASE / 3);
    assert!(matches!(looks[..], [Command::Observe { .. }]), "it only looks: {looks:?}");
    assert!(acquire(&node.hears(Event::DrainEnded)).is_none(), "one question at a time");
    let free = Event::Observed { command: observe(&looks), epoch: FIRST, free: true, ours: false };
    assert!(acquire(&node.hears(free)).is_some());
}

#[test]
fn work_that_gives_up_shuts_the_gate_at_once_and_keeps_the_lock_until_it_has_ended() {
    let mut node = node();
    node.leads();
    assert_eq!(node.hears(Event::GivenUp { epoch: Epoch::new(7) }), [], "another term's");
    let given_up = node.hears(Event::GivenUp { epoch: FIRST });
    let shut = Command::CloseGate { epoch: FIRST, reason: EndReason::WorkEnded };
    assert_eq!(given_up, [shut, Command::StopWork { epoch: FIRST }]);
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert_eq!(release(&stopped).map(|(_, epoch)| epoch), Some(FIRST));
}

#[test]
fn a_drain_that_is_asked_for_twice_keeps_the_grace_of_the_first() {
    let mut node = node();
    node.leads();
    node.hears(Event::DrainAsked);
    assert_eq!(node.hears(Event::DrainAsked), []);
    assert!(node.elector.holding().is_some(), "its work may still finish");
}

#[test]
fn a_drained_node_comes_back_by_itself_only_when_it_has_cooled_down_and_nobody_leads() {
    let mut node = node();
    node.hears(Event::DrainAsked);
    let mut look = |free| {
        let looks = node.sleeps(LEASE / 3);
        let command = observe(&looks);
        let answer = node.hears(Event::Observed { command, epoch: FIRST, free, ours: false });
        acquire(&answer).is_some()
    };
    // It cools down for three leases.
    assert!((0..8).all(|_| !look(true)), "it is free, and too early");
    assert!(!look(false), "late enough, and somebody leads");
    assert!(look(true));
}

#[test]
fn a_nudge_during_a_question_is_not_forgotten() {
    let mut node = node();
    let command = node.asks();
    node.hears(Event::Nudged);
    let left = Some(LEASE);
    let held = node.hears(Event::Held { command, epoch: FIRST, left, shown: None, ours: false });
    assert!(acquire(&held).is_some(), "the answer may be older than the change");
}

#[test]
fn news_of_an_old_term_never_touch_a_newer_one() {
    let mut node = node();
    node.leads();
    let old = Epoch::ZERO;
    for event in [
        Event::FenceRefused { epoch: old, fence: old },
        Event::SessionEnded { epoch: old },
        Event::ServerChanged { epoch: old },
        Event::Stalled { epoch: old },
        Event::Stopped { epoch: old },
        Event::Prepared { epoch: old },
    ] {
        assert_eq!(node.hears(event), [], "{event:?}");
    }
}

#[test]
fn a_node_whose_work_has_failed_stays_out_whatever_news_there_is() {
    let mut node = node();
    node.leads();
    let ended = node.hears(Event::Stopped { epoch: FIRST });
    let (command, _) = release(&ended).expect("it gives the term back");
    node.hears(Event::Released { command });
    // Its own release is news of the lock, too.
    assert_eq!(node.hears(Event::Nudged), []);
    assert_eq!(node.sleeps(LEASE / 2 - Duration::from_millis(1)), []);
    assert!(acquire(&node.sleeps(Duration::from_millis(1))).is_some());
}

fn is_ended_by(commands: &[Command], expected: EndReason) -> bool {
    commands
        .iter()
        .any(|command| matches!(command, Command::CloseGate { reason, .. } if *reason == expected))
}

#[test]
fn a_winner_that_cannot_raise_the_fence_gives_the_term_back_and_stays_out() {
    let timing = Timing::lease(LEASE).build().unwrap();
    let mut node = Node::new(timing);
    node.is_granted(FIRST);
    let (won_at, mut ended) = (node.now, false);
    while !ended {
        assert!(node.now.since(won_at) < LEASE * 2, "it tries for ever");
        let commands = node.sleeps(Duration::from_millis(500));
        for command in commands.clone() {
            match command {
                Command::RaiseFence { command, .. } => drop(node.hears(Event::Unknown { command })),
                Command::Renew { command, .. } => {
                    let sent_at = node.now;
                    let _ = node.hears(Event::Renewed { command, sent_at, extends: true });
                }
                _ => {}
            }
        }
        ended = is_ended_by(&commands, EndReason::CannotBegin);
        if let Some((command, epoch)) = release(&commands) {
            assert_eq!(epoch, FIRST);
            let _ = node.hears(Event::Released { command });
        }
    }
    assert!(node.now.since(won_at) >= timing.raise_within());
    // Others may hear of the release only when they look again; its own news does not bring it back sooner.
    let left_at = node.now;
    while acquire(&node.sleeps(Duration::from_millis(500))).is_none() {
        assert!(node.now.since(left_at) < LEASE * 10, "it has asked at once, or never asks again");
        assert_eq!(acquire(&node.hears(Event::Nudged)), None);
    }
    assert!(node.now.since(left_at) >= timing.acquire_interval() * 2 - Duration::from_secs(1));
}

#[test]
fn a_winner_whose_work_is_never_prepared_stops_it_and_gives_the_term_back() {
    let timing = Timing::lease(LEASE).prepare_within(LEASE / 2).build().unwrap();
    let mut node = Node::new(timing);
    node.is_granted(FIRST);
    let prepares = node.hears(Event::FenceRaised { epoch: FIRST });
    assert!(matches!(prepares[..], [Command::Prepare { epoch }] if epoch == FIRST));
    let ended = node.sleeps(LEASE / 2);
    assert!(is_ended_by(&ended, EndReason::CannotBegin), "{ended:?}");
    assert!(ended.contains(&Command::StopWork { epoch: FIRST }));
    assert_eq!(release(&ended), None, "not while it may still run");
    let stopped = node.hears(Event::Stopped { epoch: FIRST });
    assert_eq!(release(&stopped).unwrap().1, FIRST);
    assert!(!matches!(
        node.hears(Event::Prepared { epoch: FIRST })[..],
        [Command::OpenGate { .. }]
    ));
}

#[test]
fn a_renewal_that_does_not_extend_the_term_extends_no_trust() {
    let timing = Timing::lease(LEASE).build().unwrap();
    let mut node = Node::new(timing);
    node.leads();
    let won_at = node.now;
    let command = node.renews();
    let told = node.hears(Event::Renewed { command, sent_at: node.now, extends: false });
    assert!(told.is_empty(), "{told:?}");
    node.now = won_at + timing.gate_open_for();
    assert!(is_ended_by(&node.hears(Event::Woke), EndReason::DeadlinePassed));
}

#[test]
fn a_lock_that_is_kept_with_its_gate_shut_is_given_back_when_the_clock_was_set_back() {
    let timing = Timing::heartbeat(Duration::from_secs(3), Duration::from_secs(6)).build().unwrap();
    let mut node = Node::new(timing);
    node.leads();
    let beat = |node: &mut Node| {
        let commands = node.sleeps(Duration::from_millis(3_700));
        let renew = commands.iter().find_map(|command| match command {
            Command::Renew { command, .. } => Some(*command),
            _ => None,
        });
        let told = Event::Renewed { command: renew.unwrap(), sent_at: node.now, extends: false };
        node.hears(told)
    };
    assert!(beat(&mut node).is_empty(), "its gate is still open");
    assert!(is_ended_by(&beat(&mut node), EndReason::ClockSetBack));
}

#[test]
fn a_follower_asks_for_a_term_as_overdue_once_its_renewal_has_stood_for_as_long_as_it_lasts() {
    let timing = Timing::lease(LEASE).build().unwrap();
    let mut node = Node::new(timing);
    let renewal = |mark| Renewal { epoch: FIRST, mark };
    let an_hour = Some(Duration::from_secs(3_600));
    let held = |command, mark| Event::Held {
        command,
        epoch: FIRST,
        left: an_hour,
        shown: Some(Shown { renewal: renewal(mark), lasts: LEASE }),
        ours: false,
    };
    let asked = |commands: &[Command]| {
        commands.iter().find_map(|command| match command {
            Command::Acquire { command, overdue, .. } => Some((*command, *overdue)),
            _ => None,
        })
    };
    let (first, overdue) = asked(&node.hears(Event::Woke)).unwrap();
    assert_eq!(overdue, None);
    node.hears(held(first, 1));
    // A look in between does not count anew.
    node.now = node.now + LEASE / 2;
    let (second, overdue) = asked(&node.hears(Event::Nudged)).unwrap();
    assert_eq!(overdue, None);
    node.hears(held(second, 1));
    let (third, overdue) = asked(&node.sleeps(LEASE / 2)).unwrap();
    assert_eq!(overdue, Some(renewal(1)));
    // It was renewed after all, and that one counts from when it is seen.
    node.hears(held(third, 2));
    let (_, overdue) = asked(&node.sleeps(LEASE)).unwrap();
    assert_eq!(overdue, Some(renewal(2)));
}

/// It is the taking of terms that a clock makes doubtful, not the term that we hold and renew.
#[test]
fn an_open_gate_is_extended_by_renewals_through_a_jump_of_the_clock() {
    let mut node = node();
    node.leads();
    node.hears(Event::ClockJumped);
    let command = node.renews();
    let renewed = node.hears(Event::Renewed { command, sent_at: node.now, extends: true });
    assert!(matches!(renewed[..], [Command::OpenGate { epoch: FIRST, .. }]), "{renewed:?}");
}

#[test]
fn a_gate_that_caution_kept_shut_opens_only_by_a_proof_that_was_sent_after_it() {
    let mut node = Node::new(Timing::lease(LEASE).build().unwrap());
    node.is_granted(FIRST);
    node.hears(Event::ClockJumped);
    node.hears(Event::FenceRaised { epoch: FIRST });
    let began = node.now;
    let mut proofs = Vec::new();
    while node.now.since(began) < LEASE {
        for command in node.sleeps(Duration::from_millis(500)) {
            match command {
                Command::Renew { command, .. } => {
                    let renewed = Event::Renewed { command, sent_at: node.now, extends: true };
                    proofs.extend(node.hears(renewed));
                }
                Command::Prepare { epoch } => proofs.extend(node.hears(Event::Prepared { epoch })),
                _ => {}
            }
        }
    }
    let opens = |commands: &[Command]| {
        commands.iter().any(|command| matches!(command, Command::OpenGate { .. }))
    };
    assert!(!opens(&proofs), "its last proof was sent before: {proofs:?}");
    let command = node.renews();
    let proven = node.hears(Event::Renewed { command, sent_at: node.now, extends: true });
    assert!(opens(&proven), "{proven:?}");
}
