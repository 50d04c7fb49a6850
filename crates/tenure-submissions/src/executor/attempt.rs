//! One attempt: from its reservation to its outcome.

use jiff::SignedDuration;
use tenure::{BootInstant, LeaderGate};

use super::Executor;
use crate::{
    intent::Status,
    policy::{self, Next, Outcome},
    schedule::{Row, Version},
    store::{Finished, Reservation},
};

/// What came of an attempt.
pub(super) enum Attempted {
    /// It has an outcome, to be recorded.
    Finished(Box<Finished>),
    /// The term was over, or nearly, before the call: nothing has happened.
    Aborted {
        /// Of which intent.
        row: Row,
        /// Its version.
        version: Version,
    },
}

/// Calls the gateway, if the gate is open for long enough to record what comes of it.
pub(super) async fn attempt(
    executor: &Executor,
    gate: &LeaderGate,
    reservation: Reservation,
    asked: BootInstant,
) -> Attempted {
    let (row, version) = (reservation.row, reservation.version);
    let needs = executor.time_of_an_attempt();
    let has_time = gate.open_until().is_some_and(|until| until.left() >= needs);
    // By the database's clock: what it said when the attempt was reserved, and all that has passed since.
    let now_there = || {
        let passed = BootInstant::now().since(asked);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        reservation.started_at.saturating_add(passed).unwrap_or(reservation.started_at)
    };
    let deadline = policy::deadline(reservation.contract.policy, reservation.created_at);
    let is_late = deadline.is_some_and(|deadline| now_there() >= deadline);
    let Some(token) = gate.require_leader().ok().filter(|_| has_time && !is_late) else {
        return Attempted::Aborted { row, version };
    };
    let began = BootInstant::now();
    let Ok(outcome) = executor.gateway.submit(gate, token, &reservation).await else {
        return Attempted::Aborted { row, version };
    };
    let took = BootInstant::now().since(began);
    executor.metrics.attempted(counts_as(&outcome), took);
    let finished_at = now_there();
    let next = policy::follow_up(
        &reservation.contract,
        reservation.created_at,
        reservation.number,
        &outcome,
        finished_at,
        executor.pace.retry_after,
    );
    let key_number = reservation.key_number();
    Attempted::Finished(Box::new(Finished {
        held_key: policy::held_key(key_number, reservation.is_unknown(), &outcome),
        key_number,
        row,
        number: reservation.number,
        started_at: reservation.started_at,
        finished_at,
        outcome,
        next,
    }))
}

fn counts_as(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted { .. } => "accepted",
        Outcome::Rejected { .. } => "rejected",
        Outcome::Failed { .. } => "error",
    }
}

/// The status that an intent has when this was recorded.
pub(super) fn status_after(next: &Next) -> Status {
    match next {
        Next::Accepted => Status::Accepted,
        Next::Rejected { .. } => Status::Rejected,
        Next::Exhausted(_) => Status::Exhausted,
        Next::Retry { .. } => Status::Pending,
    }
}
