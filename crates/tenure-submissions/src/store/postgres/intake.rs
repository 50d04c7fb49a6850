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

use tenure_database::{DatabaseError, postgres::Moment};
use tokio_postgres::{Row as Line, error::SqlState, types::ToSql};

use super::{FIND, PostgresStore, columns::stored};
use crate::store::{
    StoreError, Stored, Submission, Submitted, batch::Batch, columns::ContractColumns,
};

const INSERT: &str = include_str!("../../../sql/postgres/intake/insert.sql");
/// How often a batch is sent again before its clients are told.
const TRIES: usize = 3;

pub(super) async fn submit(
    store: &PostgresStore,
    submissions: &[Submission],
) -> Result<Vec<Submitted>, StoreError> {
    let mut batch = Batch::of(submissions);
    let unique = batch.unique();
    match insert(store, &unique, &mut batch).await {
        Err(StoreError::Database(error)) if is_of_the_data(&error) => {
            one_by_one(store, &unique, &mut batch).await?;
        }
        inserted => inserted?,
    }
    for stored in look_up(store, &batch.unknown()).await? {
        batch.was_there(stored);
    }
    Ok(batch.answers())
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

async fn one_by_one(
    store: &PostgresStore,
    unique: &[&Submission],
    batch: &mut Batch<'_>,
) -> Result<(), StoreError> {
    for one in unique {
        match insert(store, &[one], batch).await {
            // Only this one is refused.
            Err(StoreError::Database(error)) if is_of_the_data(&error) => {}
            inserted => inserted?,
        }
    }
    Ok(())
}

async fn insert(
    store: &PostgresStore,
    unique: &[&Submission],
    batch: &mut Batch<'_>,
) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        match insert_once(store, unique).await {
            Err(StoreError::Database(error)) if tries < TRIES && is_worth_another(&error) => {
                tries += 1;
            }
            Err(error) => return Err(error),
            Ok(rows) => {
                return rows.iter().try_for_each(|row| {
                    batch.is_new(row.get(0), row.get(1), row.get::<_, Moment>(2).micros())
                });
            }
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

/// The id, the row and the moment of each that was stored.
async fn insert_once(
    store: &PostgresStore,
    unique: &[&Submission],
) -> Result<Vec<Line>, StoreError> {
    let ids: Vec<_> = unique.iter().map(|one| one.intent_id.as_str()).collect();
    let targets: Vec<_> = unique.iter().map(|one| one.submission_target.as_str()).collect();
    let payloads: Vec<_> = unique.iter().map(|one| one.payload.as_ref()).collect();
    let hashes: Vec<_> = unique.iter().map(|one| one.payload_hash.as_slice()).collect();
    let (which, contracts) = contracts(unique);
    let gateway_types: Vec<_> = contracts.iter().map(|one| one.gateway_type).collect();
    let gateway_urls: Vec<_> = contracts.iter().map(|one| one.gateway_url).collect();
    let policies: Vec<_> = contracts.iter().map(|one| one.policy).collect();
    let seconds: Vec<_> = contracts.iter().map(|one| one.max_acceptance_seconds).collect();
    let attempts: Vec<_> = contracts.iter().map(|one| one.max_attempts).collect();
    let outcomes: Vec<_> = contracts.iter().map(|one| &one.terminal_outcomes).collect();
    let webhook_urls: Vec<_> = contracts.iter().map(|one| one.webhook_url).collect();
    let headers: Vec<_> = contracts.iter().map(|one| &one.webhook_headers).collect();
    let headers_env: Vec<_> = contracts.iter().map(|one| &one.webhook_headers_env).collect();
    let secrets_env: Vec<_> = contracts.iter().map(|one| one.webhook_secret_env).collect();
    let parameters: [&(dyn ToSql + Sync); 15] = [
        &ids,
        &targets,
        &payloads,
        &hashes,
        &which,
        &gateway_types,
        &gateway_urls,
        &policies,
        &seconds,
        &attempts,
        &outcomes,
        &webhook_urls,
        &headers,
        &headers_env,
        &secrets_env,
    ];
    store.query(&store.clients, INSERT, &parameters).await
}

/// Which contract each submission has, counted from 1 as SQL does, and the contracts, each once.
fn contracts<'c>(unique: &[&'c Submission]) -> (Vec<i32>, Vec<ContractColumns<'c>>) {
    let (mut seen, mut contracts) = (HashMap::new(), Vec::new());
    let which = unique.iter().map(|one| {
        *seen.entry(Arc::as_ptr(&one.contract)).or_insert_with(|| {
            contracts.push(ContractColumns::of(&one.contract));
            i32::try_from(contracts.len()).unwrap_or(i32::MAX)
        })
    });
    (which.collect(), contracts)
}
