//! A database with a store, terms that may write, and submissions.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tenure::Term;
use tenure_submissions::{
    contract::{Contract, GatewayType, Policy},
    policy::{Next, Outcome, held_key},
    schedule::Row,
    store::{Finished, OneShot, Reservation, Reserve, Store, Stored, Submission, Submitted},
};

/// What a law needs of a database beside its store.
#[async_trait]
pub trait Backend: Send + Sync {
    fn store(&self) -> &dyn Store;

    /// Whether a law can be shown here; one that cannot is named.
    fn shows(&self, law: &str) -> bool {
        let _ = law;
        true
    }

    /// Another instance on the same database.
    fn another(&self) -> Arc<dyn Store>;

    /// Whether a refresh brings nothing of what began to be written after a transaction that is open.
    fn stalls(&self) -> bool {
        false
    }

    /// A term that may write from now on; all before it may not.
    async fn term(&self) -> Term;

    /// `last_modified_at` of an intent, and the database's clock, in microseconds.
    async fn modified_and_now(&self, row: Row) -> (i64, i64);

    /// Moves the creation of an intent into the past.
    async fn age(&self, row: Row, seconds: i64);

    /// Removes an intent, as an operator does with old ones.
    async fn delete(&self, row: Row);

    /// Stores an intent in a transaction that is committed only when this is awaited again.
    async fn store_late(&self, id: &str) -> Box<dyn Commit>;
}

/// A transaction that is open.
#[async_trait]
pub trait Commit: Send {
    async fn commit(self: Box<Self>);
}

pub fn contract(policy: Policy) -> Arc<Contract> {
    Arc::new(Contract {
        gateway_type: GatewayType::Sms,
        gateway_url: "http://gateway".to_owned(),
        policy,
        terminal_outcomes: vec!["invalid_recipient".to_owned()],
        webhook: None,
    })
}

pub fn submission(id: &str, payload: &str) -> Submission {
    with_contract(id, payload, &contract(Policy::MaxAttempts { max_attempts: 3 }))
}

pub fn with_contract(id: &str, payload: &str, contract: &Arc<Contract>) -> Submission {
    Submission {
        intent_id: id.to_owned(),
        submission_target: "otp".to_owned(),
        payload: payload.to_owned().into(),
        payload_hash: Sha256::digest(payload).into(),
        contract: Arc::clone(contract),
    }
}

/// Stores one, which must be new.
pub async fn submit(backend: &dyn Backend, submission: Submission) -> Stored {
    match backend.store().submit(&[submission]).await.unwrap().remove(0) {
        Submitted::New(stored) => stored,
        other => panic!("{other:?}"),
    }
}

/// Takes one, which must be ready.
pub async fn reserve(backend: &dyn Backend, term: &Term, row: Row) -> Reservation {
    match backend.store().reserve(term, &[row], OneShot::Repeat).await.unwrap().remove(0) {
        Reserve::Ready(reservation) => *reservation,
        other => panic!("{other:?}"),
    }
}

pub fn finished(reservation: &Reservation, outcome: Outcome, next: Next) -> Finished {
    Finished {
        row: reservation.row,
        number: reservation.number,
        started_at: reservation.started_at,
        finished_at: reservation.started_at,
        key_number: reservation.key_number(),
        held_key: held_key(reservation.key_number(), reservation.is_unknown(), &outcome),
        outcome,
        next,
    }
}

pub fn accepted(reservation: &Reservation) -> Finished {
    finished(reservation, Outcome::Accepted { reason: None }, Next::Accepted)
}

pub fn failed(reservation: &Reservation, at: Timestamp) -> Finished {
    let error = "gateway returned status 500".to_owned();
    let outcome = Outcome::Failed { status: None, error, may_have_acted: true };
    finished(reservation, outcome, Next::Retry { at })
}
