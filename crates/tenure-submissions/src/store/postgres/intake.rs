//! Stores a batch of submissions in one round trip, and answers for each of them.
//!
//! What can go wrong with many in one statement, and what is done about it:
//!
//! - two batches that insert the same ids in another order wait for each other: ids are sorted, and a deadlock
//!   is tried again;
//! - an id that was taken meanwhile is neither stored nor seen by the same statement: it is looked up by a second;
//! - one row that the database refuses fails all: then each is stored on its own;
//! - a commit whose answer was lost: the same batch is sent again, and meets itself.

use std::{collections::HashMap, sync::Arc};

use tenure_database::DatabaseError;
use tokio_postgres::{error::SqlState, types::ToSql};

use super::{
    FIND, PostgresStore,
    columns::{Moment, stored},
};
use crate::{
    contract::{Contract, Policy},
    intent::{IntentView, Status},
    schedule::Row,
    store::{StoreError, Stored, Submission, Submitted},
};

const INSERT: &str = include_str!("../../../sql/postgres/intake/insert.sql");
/// How often a batch is sent again before its clients are told.
const TRIES: usize = 3;

pub(super) async fn submit(
    store: &PostgresStore,
    batch: &[Submission],
) -> Result<Vec<Submitted>, StoreError> {
    let unique = sorted_once(batch);
    let mut known = match insert(store, &unique).await {
        Ok(known) => known,
        Err(StoreError::Database(error)) if is_of_the_data(&error) && unique.len() > 1 => {
            one_by_one(store, &unique).await?
        }
        Err(error) => return Err(error),
    };
    let missing: Vec<_> = unique
        .iter()
        .map(|one| one.intent_id.as_str())
        .filter(|id| !known.contains_key(*id))
        .collect();
    for stored in look_up(store, &missing).await? {
        known.insert(stored.view.intent_id.clone(), (false, stored));
    }
    Ok(batch.iter().map(|one| answer(one, &known)).collect())
}

/// Those that were there before. An id that the database does not even compare is not.
async fn look_up(store: &PostgresStore, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    match store.query(&store.clients, FIND, &[&ids]).await {
        Ok(rows) => rows.iter().map(stored).collect(),
        Err(StoreError::Database(error)) if is_of_the_data(&error) => {
            let (left, right) = ids.split_at(ids.len() / 2);
            if left.is_empty() {
                return Ok(Vec::new());
            }
            let mut found = Box::pin(look_up(store, left)).await?;
            found.extend(Box::pin(look_up(store, right)).await?);
            Ok(found)
        }
        Err(error) => Err(error),
    }
}

/// Each id once, the first that asked for it, in the order of their bytes.
fn sorted_once(batch: &[Submission]) -> Vec<&Submission> {
    let mut unique: Vec<_> = batch.iter().collect();
    unique.sort_by(|a, b| a.intent_id.as_bytes().cmp(b.intent_id.as_bytes()));
    unique.dedup_by(|next, first| next.intent_id == first.intent_id);
    unique
}

/// What is known by id: whether it is new, and the intent.
type Known = HashMap<String, (bool, Stored)>;

fn answer(submission: &Submission, known: &Known) -> Submitted {
    match known.get(&submission.intent_id) {
        None => Submitted::Refused,
        Some((is_new, stored)) => {
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
    }
}

async fn one_by_one(store: &PostgresStore, unique: &[&Submission]) -> Result<Known, StoreError> {
    let mut known = Known::new();
    for one in unique {
        match insert(store, &[one]).await {
            Ok(stored) => known.extend(stored),
            // Only this one is refused.
            Err(StoreError::Database(error)) if is_of_the_data(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(known)
}

async fn insert(store: &PostgresStore, unique: &[&Submission]) -> Result<Known, StoreError> {
    let mut tries = 1;
    loop {
        match insert_once(store, unique).await {
            Err(StoreError::Database(error)) if tries < TRIES && is_worth_another(&error) => {
                tries += 1;
            }
            answer => return answer,
        }
    }
}

/// A deadlock was rolled back, and a lost answer may have been a success: the same again is right for both.
fn is_worth_another(error: &DatabaseError) -> bool {
    match error.sqlstate() {
        Some(state) => *state == SqlState::T_R_DEADLOCK_DETECTED,
        None => true,
    }
}

/// The database understood, and does not take a value: class 22, or a constraint.
fn is_of_the_data(error: &DatabaseError) -> bool {
    let class = error.sqlstate().map(|state| &state.code()[..2]);
    matches!(class, Some("22" | "23"))
}

async fn insert_once(store: &PostgresStore, unique: &[&Submission]) -> Result<Known, StoreError> {
    let ids: Vec<_> = unique.iter().map(|one| one.intent_id.as_str()).collect();
    let targets: Vec<_> = unique.iter().map(|one| one.submission_target.as_str()).collect();
    let payloads: Vec<_> = unique.iter().map(|one| one.payload.as_ref()).collect();
    let hashes: Vec<_> = unique.iter().map(|one| one.payload_hash.as_slice()).collect();
    let (which, contracts) = Contracts::of(unique);
    let parameters: [&(dyn ToSql + Sync); 15] = [
        &ids,
        &targets,
        &payloads,
        &hashes,
        &which,
        &contracts.gateway_types,
        &contracts.gateway_urls,
        &contracts.policies,
        &contracts.max_acceptance_seconds,
        &contracts.max_attempts,
        &contracts.terminal_outcomes,
        &contracts.webhook_urls,
        &contracts.webhook_headers,
        &contracts.webhook_headers_env,
        &contracts.webhook_secrets_env,
    ];
    let rows = store.query(&store.clients, INSERT, &parameters).await?;
    let by_id: HashMap<_, _> = unique.iter().map(|one| (one.intent_id.as_str(), *one)).collect();
    let mut known = Known::with_capacity(rows.len());
    for row in &rows {
        let id: &str = row.get("intent_id");
        let Some(one) = by_id.get(id) else { continue };
        let stored = fresh(one, row.get("row_number"), row.get("created_at"))?;
        known.insert(id.to_owned(), (true, stored));
    }
    Ok(known)
}

fn fresh(one: &Submission, row: Row, created_at: Moment) -> Result<Stored, StoreError> {
    let created_at = jiff::Timestamp::from_microsecond(created_at.micros())
        .map_err(|_| StoreError::Unreadable { what: "a moment out of range".to_owned() })?;
    Ok(Stored {
        row,
        view: IntentView {
            intent_id: one.intent_id.clone(),
            submission_target: one.submission_target.clone(),
            created_at,
            status: Status::Pending,
            completed_at: None,
            rejected_reason: None,
            exhausted_reason: None,
        },
        attempts: 0,
        payload_hash: one.payload_hash,
    })
}

/// The columns of the contracts of a batch, each contract once.
#[derive(Default)]
struct Contracts<'c> {
    gateway_types: Vec<&'static str>,
    gateway_urls: Vec<&'c str>,
    policies: Vec<&'static str>,
    max_acceptance_seconds: Vec<Option<i64>>,
    max_attempts: Vec<Option<i32>>,
    terminal_outcomes: Vec<String>,
    webhook_urls: Vec<Option<&'c str>>,
    webhook_headers: Vec<Option<String>>,
    webhook_headers_env: Vec<Option<String>>,
    webhook_secrets_env: Vec<Option<&'c str>>,
}

impl<'c> Contracts<'c> {
    /// Which contract each submission has, counted from 1 as SQL does, and the contracts.
    fn of(unique: &[&'c Submission]) -> (Vec<i32>, Self) {
        let (mut seen, mut contracts) = (HashMap::new(), Self::default());
        let which = unique.iter().map(|one| {
            *seen.entry(Arc::as_ptr(&one.contract)).or_insert_with(|| contracts.push(&one.contract))
        });
        (which.collect(), contracts)
    }

    fn push(&mut self, contract: &'c Contract) -> i32 {
        let Contract { gateway_type, gateway_url, policy, terminal_outcomes, webhook } = contract;
        self.gateway_types.push(gateway_type.as_str());
        self.gateway_urls.push(gateway_url);
        self.policies.push(policy.as_str());
        let (seconds, attempts) = match policy {
            Policy::Deadline { max_acceptance_seconds } => (Some(*max_acceptance_seconds), None),
            Policy::MaxAttempts { max_attempts } => (None, Some(*max_attempts)),
            Policy::OneShot => (None, None),
        };
        self.max_acceptance_seconds.push(seconds);
        self.max_attempts.push(attempts);
        self.terminal_outcomes.push(json(terminal_outcomes));
        let webhook = webhook.as_ref();
        self.webhook_urls.push(webhook.map(|webhook| webhook.url.as_str()));
        self.webhook_headers.push(webhook.map(|webhook| json(&webhook.headers)));
        self.webhook_headers_env.push(webhook.map(|webhook| json(&webhook.headers_env)));
        self.webhook_secrets_env.push(webhook.and_then(|webhook| webhook.secret_env.as_deref()));
        i32::try_from(self.policies.len()).unwrap_or(i32::MAX)
    }
}

/// Lists and maps of texts are always JSON.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
