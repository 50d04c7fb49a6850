//! A batch of submissions: each id once on its way in, and an answer for each on the way out.

use std::collections::HashMap;

use super::{StoreError, Stored, Submission, Submitted, columns::timestamp};
use crate::{
    intent::{IntentView, Status},
    schedule::{Micros, Row},
};

/// What is known by id: whether it is new, and the intent.
pub(super) type Known = HashMap<String, (bool, Stored)>;

/// Each id once, the first that asked for it, in the order of their bytes.
pub(super) fn sorted_once(batch: &[Submission]) -> Vec<&Submission> {
    let mut unique: Vec<_> = batch.iter().collect();
    unique.sort_by(|a, b| a.intent_id.as_bytes().cmp(b.intent_id.as_bytes()));
    unique.dedup_by(|next, first| next.intent_id == first.intent_id);
    unique
}

/// What is said to each, in the order of the batch.
pub(super) fn answers(batch: &[Submission], known: &Known) -> Vec<Submitted> {
    batch.iter().map(|one| answer(one, known)).collect()
}

fn answer(submission: &Submission, known: &Known) -> Submitted {
    let Some((is_new, stored)) = known.get(&submission.intent_id) else {
        return Submitted::Refused;
    };
    let is_same = stored.payload_hash == submission.payload_hash
        && stored.view.submission_target == submission.submission_target;
    match (is_same, is_new) {
        (true, true) => Submitted::New(stored.clone()),
        (true, false) => Submitted::Existing(stored.clone()),
        (false, _) => {
            Submitted::Conflict { existing_target: stored.view.submission_target.clone() }
        }
    }
}

/// A submission that was just stored.
pub(super) fn fresh(one: &Submission, row: Row, created_at: Micros) -> Result<Stored, StoreError> {
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
