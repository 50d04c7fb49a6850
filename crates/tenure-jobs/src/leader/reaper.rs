//! What is taken back without anybody asking for it: leases that ran out, leases that no agent knows of, and all that
//! an agent has which works no more.
//!
//! It has rounds of its own, every other one, and each takes so much that it is written within its time: however much
//! there is, whoever asks for something is served in between.

use std::{collections::VecDeque, time::Duration};

use tenure_database::BootInstant;

use super::desk::{Refusal, Reply};
use crate::round::{AgentName, Emptied, Reaped, Reaping, RunOut};

/// How many leases that no agent knows of are taken back at once; each has 64 jobs at most.
const STRAYS: usize = 16;

/// An agent that works no more.
struct Dismissal {
    agent: Emptied,
    /// Whether it becomes a tombstone first.
    burial: Option<AgentName>,
    replies: Vec<Reply<()>>,
}

pub(super) struct Reaper {
    strays: VecDeque<String>,
    dismissals: VecDeque<Dismissal>,
    /// Whether something has run out.
    has_run_out: bool,
    /// Whether the last round was one of these.
    had_its_turn: bool,
    /// Whether nothing is taken back any more but what no agent knows of.
    is_draining: bool,
    began: BootInstant,
    /// How long after the beginning leases of earlier terms count though they ran out.
    window: Duration,
    /// How long after it agents that are silent still count.
    hearing: Duration,
}

impl Reaper {
    pub(super) fn new(window: Duration, hearing: Duration, dead_agent: Option<String>) -> Self {
        let reason = "the agent's node leads now";
        let dead = dead_agent.map(|name| Dismissal {
            agent: Emptied { namespace: None, name, reason },
            burial: None,
            replies: Vec::new(),
        });
        Self {
            strays: VecDeque::new(),
            dismissals: dead.into_iter().collect(),
            has_run_out: true,
            had_its_turn: false,
            is_draining: false,
            began: BootInstant::now(),
            window,
            hearing,
        }
    }

    fn lasted(&self) -> Duration {
        BootInstant::now().since(self.began)
    }

    /// Whether leases of earlier terms still count though they ran out.
    pub(super) fn spares(&self) -> bool {
        self.lasted() < self.window
    }

    /// What may have run out by now.
    pub(super) fn run_out(&self) -> RunOut {
        RunOut { spares: self.spares(), agents: self.lasted() >= self.hearing }
    }

    pub(super) fn looked(&mut self, has_run_out: bool) {
        self.has_run_out = has_run_out;
    }

    pub(super) fn add_strays(&mut self, strays: impl IntoIterator<Item = String>) {
        self.strays.extend(strays);
    }

    /// Makes a tombstone of an agent, and takes from it what it has.
    pub(super) fn bury(&mut self, agent: AgentName, reply: Reply<()>) {
        let known = self.dismissals.iter_mut().find(|one| one.burial.as_ref() == Some(&agent));
        if let Some(dismissal) = known {
            dismissal.replies.push(reply);
            return;
        }
        let AgentName { namespace, name } = agent.clone();
        let reason = "the agent was deleted";
        self.dismissals.push_back(Dismissal {
            agent: Emptied { namespace: Some(namespace), name, reason },
            burial: Some(agent),
            replies: vec![reply],
        });
    }

    pub(super) fn has_work(&self) -> bool {
        let may_reap = !self.is_draining;
        !self.strays.is_empty() || may_reap && (self.has_run_out || !self.dismissals.is_empty())
    }

    /// The next of its rounds, if it is its turn.
    pub(super) fn next(&mut self) -> Option<(Reaping, Option<AgentName>)> {
        self.had_its_turn = !self.had_its_turn && self.has_work();
        if !self.had_its_turn {
            return None;
        }
        let may_reap = !self.is_draining;
        let dismissal = self.dismissals.front().filter(|_| may_reap);
        let strays = self.strays.iter().take(STRAYS).cloned().collect();
        let run_out = (self.has_run_out && may_reap).then(|| self.run_out());
        let reaping = Reaping { strays, emptied: dismissal.map(|one| one.agent.clone()), run_out };
        Some((reaping, dismissal.and_then(|one| one.burial.clone())))
    }

    /// One of its rounds was written: `most` of a kind is as much as there could be of it.
    pub(super) fn written(&mut self, reaping: &Reaping, reaped: Reaped, most: usize) {
        self.strays.drain(..reaping.strays.len());
        if reaping.run_out.is_some() {
            self.has_run_out = reaped.run_out >= most;
        }
        if reaping.emptied.is_some()
            && reaped.emptied < most
            && let Some(done) = self.dismissals.pop_front()
        {
            answer(done.replies, Ok(()));
        }
    }

    /// Nobody knows whether it was: it is done again. Whoever waits for it need not.
    pub(super) fn not_written(&mut self) {
        self.has_run_out = true;
        self.send_away(Refusal::Unavailable);
    }

    /// The leader hands over: nobody else waits for what it takes back.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        self.refuse(Refusal::NotLeader);
    }

    /// Whoever asked goes elsewhere, and what it asked for is not done.
    pub(super) fn refuse(&mut self, why: Refusal) {
        self.send_away(why);
        self.dismissals.retain(|one| one.burial.is_none());
    }

    fn send_away(&mut self, why: Refusal) {
        self.dismissals.iter_mut().for_each(|one| answer(one.replies.drain(..), Err(why)));
    }
}

fn answer(replies: impl IntoIterator<Item = Reply<()>>, answer: Result<(), Refusal>) {
    for reply in replies {
        // Whoever is gone waits for no answer.
        let _ = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn reaper() -> Reaper {
        Reaper::new(Duration::ZERO, Duration::ZERO, None)
    }

    fn named(name: &str) -> AgentName {
        AgentName { namespace: "n".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn it_has_every_other_round_for_as_long_as_there_is_something() {
        let mut reaper = reaper();
        for _ in 0..3 {
            let (reaping, _) = reaper.next().unwrap();
            reaper.written(&reaping, Reaped { emptied: 0, run_out: 10 }, 10);
            assert!(reaper.next().is_none(), "others have their turn");
        }
        let (reaping, _) = reaper.next().unwrap();
        reaper.written(&reaping, Reaped { emptied: 0, run_out: 9 }, 10);
        assert!(!reaper.has_work() && reaper.next().is_none());
    }

    #[test]
    fn strays_are_taken_back_some_at_a_time_and_again_if_that_failed() {
        let mut reaper = reaper();
        reaper.looked(false);
        reaper.add_strays((0..STRAYS + 1).map(|number| number.to_string()));
        let (first, _) = reaper.next().unwrap();
        assert_eq!(first.strays.len(), STRAYS);
        reaper.not_written();
        reaper.next();
        assert_eq!(reaper.next().unwrap().0.strays, first.strays);
        reaper.written(&first, Reaped::default(), 10);
        reaper.next();
        assert_eq!(reaper.next().unwrap().0.strays, [STRAYS.to_string()]);
    }

    #[test]
    fn whoever_buries_an_agent_is_answered_when_it_has_nothing_left() {
        let mut reaper = reaper();
        reaper.looked(false);
        let (reply, mut replied) = oneshot::channel();
        let (again, mut replied_again) = oneshot::channel();
        reaper.bury(named("ann"), reply);
        reaper.bury(named("ann"), again);
        let (reaping, burial) = reaper.next().unwrap();
        assert_eq!(burial, Some(named("ann")));
        reaper.written(&reaping, Reaped { emptied: 10, run_out: 0 }, 10);
        assert!(replied.try_recv().is_err() && reaper.has_work());
        reaper.written(&reaping, Reaped { emptied: 3, run_out: 0 }, 10);
        assert_eq!((replied.try_recv(), replied_again.try_recv()), (Ok(Ok(())), Ok(Ok(()))));
        assert!(!reaper.has_work());
    }

    #[test]
    fn what_ran_out_while_nobody_led_counts_for_a_while() {
        let fresh = Reaper::new(Duration::from_secs(60), Duration::from_secs(60), None);
        assert!(fresh.spares());
        assert_eq!(fresh.run_out(), RunOut { spares: true, agents: false });
        assert_eq!(reaper().run_out(), RunOut { spares: false, agents: true });
    }

    #[test]
    fn the_agent_of_a_node_that_leads_is_emptied_in_every_namespace_first() {
        let mut reaper = Reaper::new(Duration::ZERO, Duration::ZERO, Some("own".to_owned()));
        let (reaping, burial) = reaper.next().unwrap();
        assert_eq!(burial, None);
        assert_eq!(reaping.emptied.unwrap().namespace, None);
    }
}
