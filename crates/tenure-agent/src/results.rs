//! The outbox of an agent, in memory: results that nobody has accepted yet, by the lease they belong to.
//!
//! A lease is handed in by one request at a time, and leases do not wait for each other. Nothing leaves the outbox
//! for being sent: a result is forgotten when its fate is known.

mod hand_in;
mod verdict;

use std::{collections::VecDeque, sync::Arc};

use reqwest::StatusCode;
use tenure_database::BootInstant;

use self::verdict::{Fate, Verdict};
pub(crate) use self::{hand_in::HandIn, verdict::Dropped};
use crate::{
    backoff::Backoff,
    controller::Refusal,
    held::Held,
    job::{Finished, Outcome},
};

/// The most results of one request.
const MOST_AT_ONCE: usize = 64;
/// The most bytes of one request with more than one result: a server that closes the connection on too large a
/// request may not get to say so.
const MOST_BYTES: usize = 1024 * 1024;

/// A result that is to be handed in.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub lease: Held,
    pub result: Finished,
}

/// Results of one lease that go in one request.
#[derive(Debug)]
struct Batch {
    lease_id: String,
    results: Vec<Arc<Finished>>,
}

/// What became of a result that is in the outbox no more.
#[derive(Debug)]
struct Gone {
    result: Arc<Finished>,
    /// Why, unless it was accepted.
    dropped: Option<(Dropped, Option<String>)>,
}

/// Everything that waits.
#[derive(Debug, Default)]
struct Outbox {
    leases: VecDeque<Lease>,
}

#[derive(Debug)]
struct Lease {
    held: Held,
    results: VecDeque<Arc<Finished>>,
    /// How many of them, from the front, are under way.
    sent: usize,
    /// How many go at once: fewer after a refusal.
    most: usize,
    backoff: Backoff,
    not_before: BootInstant,
}

impl Outbox {
    fn push(&mut self, delivery: Delivery) {
        let result = Arc::new(delivery.result);
        match self.leases.iter_mut().find(|lease| lease.held.id() == delivery.lease.id()) {
            Some(lease) => lease.results.push_back(result),
            None => self.leases.push_back(Lease {
                held: delivery.lease,
                results: VecDeque::from([result]),
                sent: 0,
                most: MOST_AT_ONCE,
                backoff: Backoff::default(),
                not_before: BootInstant::default(),
            }),
        }
    }

    fn len(&self) -> usize {
        self.leases.iter().map(|lease| lease.results.len()).sum()
    }

    /// Each with its lease.
    fn all(&self) -> impl Iterator<Item = (&str, &Finished)> {
        self.leases
            .iter()
            .flat_map(|lease| lease.results.iter().map(|result| (lease.held.id(), &**result)))
    }

    /// The results of one lease that is due. It goes to the end of the queue: everybody has a turn.
    fn next(&mut self, now: BootInstant) -> Option<Batch> {
        let is_due = |lease: &Lease| lease.sent == 0 && lease.not_before <= now;
        let at = self.leases.iter().position(is_due)?;
        let mut lease = self.leases.remove(at)?;
        let batch = lease.batch();
        self.leases.push_back(lease);
        Some(batch)
    }

    /// When the next lease is due of which nothing is under way.
    fn due(&self) -> Option<BootInstant> {
        let idle = self.leases.iter().filter(|lease| lease.sent == 0);
        idle.map(|lease| lease.not_before).min()
    }

    /// Applies what came of a batch; those that are in the outbox no more.
    fn settle(&mut self, lease_id: &str, verdict: Verdict, now: BootInstant) -> Vec<Gone> {
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.held.id() == lease_id) else {
            return Vec::new();
        };
        let gone = match verdict {
            Verdict::Each(fates) => lease.settle_each(fates, now),
            Verdict::Refused(refusal) => lease.refused(&refusal).into_iter().collect(),
            Verdict::Unheard(unheard) => {
                lease.not_before = now + unheard.pause(&mut lease.backoff);
                Vec::new()
            }
        };
        lease.sent = 0;
        if !gone.is_empty() {
            self.wake_all_but(lease_id);
        }
        self.leases.retain(|lease| !lease.results.is_empty());
        gone
    }

    /// Somebody leads, and answers: the others need not wait until they find it themselves.
    fn wake_all_but(&mut self, lease_id: &str) {
        for lease in self.leases.iter_mut().filter(|lease| lease.held.id() != lease_id) {
            lease.not_before = BootInstant::default();
        }
    }
}

impl Lease {
    fn batch(&mut self) -> Batch {
        let mut bytes = 0;
        let fits = |result: &&Arc<Finished>| {
            bytes += result.size();
            bytes <= MOST_BYTES
        };
        // One that is too large for this goes alone.
        self.sent = self.results.iter().take(self.most).take_while(fits).count().max(1);
        let results = self.results.iter().take(self.sent).cloned().collect();
        Batch { lease_id: self.held.id().to_owned(), results }
    }

    /// Those that are kept go to the end, where they keep nobody else of their lease from being heard.
    fn settle_each(&mut self, fates: Vec<Fate>, now: BootInstant) -> Vec<Gone> {
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        let sent: Vec<_> = self.results.drain(..self.sent).collect();
        for (result, fate) in sent.into_iter().zip(fates) {
            match fate {
                Fate::Accepted => gone.push(Gone { result, dropped: None }),
                Fate::Dropped(why) => gone.push(Gone { result, dropped: Some((why, None)) }),
                Fate::Kept => kept.push(result),
            }
        }
        match kept.is_empty() {
            true => {
                self.backoff.reset();
                self.most = (self.most * 2).min(MOST_AT_ONCE);
            }
            false => self.not_before = now + self.backoff.pause(),
        }
        self.results.extend(kept);
        gone
    }

    /// Halves what goes at once, until it is clear which one is meant; that one is replaced, or dropped.
    fn refused(&mut self, refusal: &Refusal) -> Option<Gone> {
        if self.sent > 1 {
            self.most = self.sent / 2;
            return None;
        }
        let result = self.results.pop_front()?;
        let why = match Dropped::of(refusal.error.as_deref(), refusal.stale.as_deref()) {
            Some(why) => why,
            None if result.is_final() || refusal.status == StatusCode::CONFLICT => Dropped::Refused,
            None => {
                self.results.push_front(Arc::new(stand_in(&result, refusal)));
                return None;
            }
        };
        Some(Gone { result, dropped: Some((why, Some(refusal.to_string()))) })
    }
}

impl Finished {
    /// Whether nothing else is handed in for it: it stands in for another already; or it was given back, and is
    /// somebody else's when its lease has run out, whether or not a controller of an older version understands that.
    fn is_final(&self) -> bool {
        self.stands_in || matches!(self.outcome, Outcome::GivenBack)
    }
}

/// A job whose result cannot be handed in has failed, and whoever looks at it finds out why.
fn stand_in(result: &Finished, refusal: &Refusal) -> Finished {
    Finished {
        job_id: result.job_id.clone(),
        job_epoch: result.job_epoch,
        outcome: Outcome::failed(format!("the controller refused the result: {refusal}")),
        stands_in: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{controller::Unheard, held::HeldLeases, job::raw};

    const NOW: BootInstant = BootInstant::from_nanos(1_000);

    fn outbox(results: &[(&str, &str)]) -> Outbox {
        let mut outbox = Outbox::default();
        for (lease_id, job_id) in results {
            push(&mut outbox, lease_id, job_id, 1);
        }
        outbox
    }

    fn push(outbox: &mut Outbox, lease_id: &str, job_id: &str, size: usize) {
        let outcome = Outcome::Succeeded(raw(&"x".repeat(size)));
        let result =
            Finished { job_id: (*job_id).to_owned(), job_epoch: 1, outcome, stands_in: false };
        outbox.push(Delivery { lease: HeldLeases::default().hold(lease_id), result });
    }

    fn next(outbox: &mut Outbox) -> Option<(String, Vec<String>)> {
        let batch = outbox.next(NOW)?;
        Some((batch.lease_id, batch.results.iter().map(|one| one.job_id.clone()).collect()))
    }

    fn jobs(outbox: &mut Outbox) -> Vec<String> {
        next(outbox).unwrap().1
    }

    fn refusal(status: u16, body: &str) -> Verdict {
        Verdict::Refused(Refusal::new(StatusCode::from_u16(status).unwrap(), body.as_bytes()))
    }

    #[test]
    fn leases_do_not_wait_for_each_other_and_one_is_not_sent_twice_at_once() {
        let mut outbox = outbox(&[("l1", "a"), ("l2", "b"), ("l1", "c")]);
        assert_eq!(jobs(&mut outbox), ["a", "c"]);
        assert_eq!(jobs(&mut outbox), ["b"]);
        push(&mut outbox, "l1", "d", 1);
        assert_eq!(next(&mut outbox), None);
        assert_eq!(outbox.len(), 4);
        outbox.settle("l1", Verdict::Each(vec![Fate::Accepted, Fate::Accepted]), NOW);
        assert_eq!(jobs(&mut outbox), ["d"]);
    }

    #[test]
    fn a_mixed_answer_keeps_only_what_is_to_be_kept() {
        let mut outbox = outbox(&[("l", "a"), ("l", "b"), ("l", "c"), ("l", "d")]);
        assert_eq!(jobs(&mut outbox).len(), 4);
        let fates =
            vec![Fate::Kept, Fate::Accepted, Fate::Dropped(Dropped::StaleJob), Fate::Accepted];
        let gone = outbox.settle("l", Verdict::Each(fates), NOW);
        let dropped: Vec<_> = gone.iter().map(|gone| gone.dropped.is_some()).collect();
        assert_eq!(dropped, [false, true, false]);
        let left: Vec<_> = outbox.all().map(|(_, result)| result.job_id.as_str()).collect();
        assert_eq!(left, ["a"]);
    }

    #[test]
    fn what_nobody_heard_waits_and_is_woken_when_somebody_answers() {
        let mut outbox = outbox(&[("l1", "a"), ("l2", "b")]);
        assert_eq!((jobs(&mut outbox).len(), jobs(&mut outbox).len()), (1, 1));
        outbox.settle("l1", Verdict::Unheard(Unheard::forbidden()), NOW);
        assert!(outbox.due().unwrap() > NOW);
        assert_eq!(next(&mut outbox), None);
        outbox.settle("l2", Verdict::Each(vec![Fate::Accepted]), NOW);
        assert_eq!(jobs(&mut outbox), ["a"]);
    }

    #[test]
    fn a_refused_batch_is_halved_until_the_one_is_found_that_is_meant() {
        let mut outbox = outbox(&[("l", "a"), ("l", "b"), ("l", "c"), ("l", "d")]);
        assert_eq!(jobs(&mut outbox).len(), 4);
        assert!(outbox.settle("l", refusal(413, ""), NOW).is_empty());
        assert_eq!(jobs(&mut outbox), ["a", "b"]);
        assert!(outbox.settle("l", refusal(422, ""), NOW).is_empty());
        assert_eq!(jobs(&mut outbox), ["a"]);
        assert!(outbox.settle("l", refusal(400, "nonsense"), NOW).is_empty());
        let batch = outbox.next(NOW).unwrap();
        match &batch.results[0].outcome {
            Outcome::Failed(error) => assert!(error.contains("400") && error.contains("nonsense")),
            other => panic!("{other:?}"),
        }
        outbox.settle("l", Verdict::Each(vec![Fate::Accepted]), NOW);
        assert_eq!(jobs(&mut outbox), ["b", "c"]);
    }

    #[test]
    fn what_stands_in_is_not_replaced_once_more() {
        let mut outbox = outbox(&[("l", "a")]);
        for _ in 0..2 {
            assert_eq!(jobs(&mut outbox), ["a"]);
            let gone = outbox.settle("l", refusal(400, ""), NOW);
            assert_eq!(gone.len(), usize::from(outbox.len() == 0));
        }
        assert_eq!(outbox.len(), 0);
    }

    /// An older controller does not understand it. Whatever it says, the job has not failed.
    #[test]
    fn what_was_given_back_never_becomes_a_failure() {
        let mut outbox = Outbox::default();
        let lease = HeldLeases::default().hold("l");
        let outcome = Outcome::GivenBack;
        let result = Finished { job_id: "a".to_owned(), job_epoch: 1, outcome, stands_in: false };
        outbox.push(Delivery { lease, result });
        assert_eq!(jobs(&mut outbox), ["a"]);
        let gone = outbox.settle("l", refusal(400, r#"{"error":"BAD_STATUS"}"#), NOW);
        assert!(matches!(gone[0].dropped, Some((Dropped::Refused, _))) && outbox.len() == 0);
    }

    #[test]
    fn a_single_result_that_is_stale_is_dropped_and_not_replaced() {
        for (status, body) in [
            (409, r#"{"error":"STALE_EPOCH","stale":"lease"}"#),
            (404, r#"{"error":"NOT_FOUND"}"#),
            (409, r#"{"error":"OTHER"}"#),
        ] {
            let mut outbox = outbox(&[("l", "a")]);
            assert_eq!(jobs(&mut outbox), ["a"]);
            assert_eq!(outbox.settle("l", refusal(status, body), NOW).len(), 1, "{body}");
            assert_eq!(outbox.len(), 0);
        }
    }

    #[test]
    fn a_batch_is_limited_in_number_and_in_bytes() {
        let mut many = Outbox::default();
        for number in 0..100 {
            push(&mut many, "l", &number.to_string(), 1);
        }
        assert_eq!(jobs(&mut many).len(), MOST_AT_ONCE);
        let mut large = Outbox::default();
        for (job_id, size) in [("a", MOST_BYTES), ("b", MOST_BYTES / 2), ("c", MOST_BYTES / 3)] {
            push(&mut large, "l", job_id, size);
        }
        assert_eq!(jobs(&mut large), ["a"]);
        large.settle("l", Verdict::Each(vec![Fate::Accepted]), NOW);
        assert_eq!(jobs(&mut large), ["b", "c"]);
    }
}
