//! A batch of submissions: each id once on its way in, and an answer for each on the way out.

use super::{StoreError, Stored, Submission, Submitted, columns::timestamp};
use crate::{
    intent::{IntentView, Status},
    schedule::{Micros, Row},
};

/// Whether an intent is new, and what it is.
type Known = (bool, Stored);

/// The batch, with what is known so far.
pub(super) struct Batch<'b> {
    all: &'b [Submission],
    /// Each id once, the first that asked for it, in the order of their bytes.
    unique: Vec<&'b Submission>,
    /// For each of those.
    known: Vec<Option<Known>>,
}

impl<'b> Batch<'b> {
    pub(super) fn of(all: &'b [Submission]) -> Self {
        let mut unique: Vec<_> = all.iter().collect();
        unique.sort_by(|a, b| a.intent_id.cmp(&b.intent_id));
        unique.dedup_by(|next, first| next.intent_id == first.intent_id);
        let known = unique.iter().map(|_| None).collect();
        Self { all, unique, known }
    }

    /// Each id once, sorted.
    pub(super) fn unique(&self) -> Vec<&'b Submission> {
        self.unique.clone()
    }

    /// This was stored now.
    pub(super) fn is_new(&mut self, id: &str, row: Row, at: Micros) -> Result<(), StoreError> {
        let Some(place) = place(&self.unique, id) else { return Ok(()) };
        self.known[place] = Some((true, fresh(self.unique[place], row, at)?));
        Ok(())
    }

    /// This was there before.
    pub(super) fn was_there(&mut self, stored: Stored) {
        if let Some(place) = place(&self.unique, &stored.view.intent_id) {
            self.known[place] = Some((false, stored));
        }
    }

    /// The ids of which nothing is known.
    pub(super) fn unknown(&self) -> Vec<&'b str> {
        let all = self.unique.iter().zip(&self.known);
        all.filter(|(_, known)| known.is_none()).map(|(one, _)| one.intent_id.as_str()).collect()
    }

    /// What is said to each, in the order of the batch.
    pub(super) fn answers(mut self) -> Vec<Submitted> {
        let each_once = self.all.len() == self.unique.len();
        let answers = self.all.iter().map(|one| {
            let known = place(&self.unique, &one.intent_id).and_then(|place| {
                let known = &mut self.known[place];
                if each_once {
                    return known.take();
                }
                // Whoever comes second finds it there.
                let answer = known.clone();
                known.iter_mut().for_each(|(is_new, _)| *is_new = false);
                answer
            });
            known.map_or(Submitted::Refused, |known| answer(one, known))
        });
        answers.collect()
    }
}

fn place(unique: &[&Submission], id: &str) -> Option<usize> {
    unique.binary_search_by(|one| one.intent_id.as_str().cmp(id)).ok()
}

fn answer(submission: &Submission, (is_new, stored): Known) -> Submitted {
    let is_same = stored.payload_hash == submission.payload_hash
        && stored.view.submission_target == submission.submission_target;
    match (is_same, is_new) {
        (true, true) => Submitted::New(stored),
        (true, false) => Submitted::Existing(stored),
        (false, _) => Submitted::Conflict { existing_target: stored.view.submission_target },
    }
}

/// A submission that was just stored.
fn fresh(one: &Submission, row: Row, created_at: Micros) -> Result<Stored, StoreError> {
    Ok(Stored {
        row,
        view: IntentView {
            intent_id: one.intent_id.clone(),
            submission_target: one.submission_target.clone(),
            created_at: timestamp(created_at)?,
            status: Status::Pending,
            completed_at: None,
            rejected_reason: None,
            exhausted_reason: None,
        },
        attempts: 0,
        payload_hash: one.payload_hash,
    })
}
