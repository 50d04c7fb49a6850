//! Stores a batch of submissions in one round trip, and answers for each of them.
//!
//! What can go wrong with many in one statement, and what is done about it:
//!
//! - two batches that insert the same ids at once: one of them fails with 2627 or 1205, is sent again, and meets what
//!   the other has stored;
//! - an id that SQL Server would take for another, or cut: it is not sent;
//! - one row that the database refuses fails all: then each is stored on its own;
//! - a commit whose answer was lost: the same batch is sent again, and meets itself.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use serde_json::value::RawValue;
use tenure_database::{
    DatabaseError,
    sqlserver::{Meaning, Row as Line},
};

use super::{SqlServerStore, columns::stored, json, statements as sql};
use crate::store::{StoreError, Submission, Submitted, batch::Batch, columns::ContractColumns};

/// How often a batch is sent again before its clients are told.
const TRIES: usize = 5;
/// The longest id, in the units of `nvarchar`.
const LONGEST_ID: usize = 200;

/// Whether the column keeps this id as it is: `=` there does not mind spaces at the end.
pub(super) fn fits(id: &str) -> bool {
    id.encode_utf16().count() <= LONGEST_ID && !id.ends_with(' ') && !id.contains('\0')
}

pub(super) async fn submit(
    store: &SqlServerStore,
    submissions: &[Submission],
) -> Result<Vec<Submitted>, StoreError> {
    let mut batch = Batch::of(submissions);
    let mut unique = batch.unique();
    unique.retain(|one| fits(&one.intent_id));
    match insert(store, &unique, &mut batch).await {
        Err(StoreError::Database(error)) if means(&error, Meaning::OfTheData) => {
            for one in &unique {
                match insert(store, &[one], &mut batch).await {
                    // Only this one is refused.
                    Err(StoreError::Database(error)) if means(&error, Meaning::OfTheData) => {}
                    inserted => inserted?,
                }
            }
        }
        inserted => inserted?,
    }
    let mut unknown = batch.unknown();
    unknown.retain(|id| fits(id));
    if !unknown.is_empty() {
        for row in &store.query(&store.clients, &sql::FIND, &[&json(&unknown)]).await? {
            batch.was_there(stored(row)?);
        }
    }
    Ok(batch.answers())
}

fn means(error: &DatabaseError, meaning: Meaning) -> bool {
    error.meaning() == Some(meaning)
}

async fn insert(
    store: &SqlServerStore,
    unique: &[&Submission],
    batch: &mut Batch<'_>,
) -> Result<(), StoreError> {
    if unique.is_empty() {
        return Ok(());
    }
    let mut tries = 1;
    loop {
        match insert_once(store, unique).await {
            Err(StoreError::Database(error)) if tries < TRIES && is_worth_another(&error) => {
                tries += 1;
            }
            Err(error) => return Err(error),
            Ok(rows) => {
                for row in &rows {
                    let (id, number) = (row.need("intent_id")?, row.need("row_number")?);
                    batch.is_new(id, number, row.need("created_at")?)?;
                }
                return Ok(());
            }
        }
    }
}

/// What was rolled back for another's sake, and a lost answer, which may have been a success: the same again is right
/// for all of them.
fn is_worth_another(error: &DatabaseError) -> bool {
    matches!(error.meaning(), None | Some(Meaning::Duplicate | Meaning::TryAgain))
}

#[derive(Serialize)]
struct SubmissionLine<'s> {
    id: &'s str,
    target: &'s str,
    contract: usize,
    begins: usize,
    length: usize,
}

#[derive(Serialize)]
struct ContractLine<'c> {
    number: usize,
    gateway_type: &'c str,
    gateway_url: &'c str,
    policy: &'c str,
    max_acceptance_seconds: Option<i64>,
    max_attempts: Option<i32>,
    terminal_outcomes: Option<&'c RawValue>,
    webhook_url: Option<&'c str>,
    webhook_headers: Option<&'c RawValue>,
    webhook_headers_env: Option<&'c RawValue>,
    webhook_secret_env: Option<&'c str>,
}

/// The id, the row and the moment of each that was stored.
async fn insert_once(
    store: &SqlServerStore,
    unique: &[&Submission],
) -> Result<Vec<Line>, StoreError> {
    let (lines, bytes, contracts) = lines(unique);
    store.query(&store.clients, &sql::INSERT, &[&lines, &bytes, &contracts]).await
}

/// What `intake/insert.sql` takes.
fn lines(unique: &[&Submission]) -> (String, Vec<u8>, String) {
    let (mut numbers, mut contracts) = (HashMap::new(), Vec::new());
    let (mut lines, mut bytes) = (Vec::with_capacity(unique.len()), Vec::new());
    for one in unique {
        let contract = *numbers.entry(Arc::as_ptr(&one.contract)).or_insert_with(|| {
            contracts.push(ContractColumns::of(&one.contract));
            contracts.len()
        });
        lines.push(SubmissionLine {
            id: &one.intent_id,
            target: &one.submission_target,
            contract,
            begins: bytes.len(),
            length: one.payload.len(),
        });
        bytes.extend_from_slice(&one.payload_hash);
        bytes.extend_from_slice(&one.payload);
    }
    let contracts: Vec<_> =
        contracts.iter().enumerate().map(|(at, columns)| contract_line(at + 1, columns)).collect();
    (json(&lines), bytes, json(&contracts))
}

/// JSON inside of JSON, as it is.
fn raw(json: Option<&String>) -> Option<&RawValue> {
    json.and_then(|json| serde_json::from_str(json).ok())
}

fn contract_line<'c>(number: usize, columns: &'c ContractColumns<'c>) -> ContractLine<'c> {
    ContractLine {
        number,
        gateway_type: columns.gateway_type,
        gateway_url: columns.gateway_url,
        policy: columns.policy,
        max_acceptance_seconds: columns.max_acceptance_seconds,
        max_attempts: columns.max_attempts,
        terminal_outcomes: raw(Some(&columns.terminal_outcomes)),
        webhook_url: columns.webhook_url,
        webhook_headers: raw(columns.webhook_headers.as_ref()),
        webhook_headers_env: raw(columns.webhook_headers_env.as_ref()),
        webhook_secret_env: columns.webhook_secret_env,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_the_column_would_change_is_not_sent() {
        assert!(fits("a") && fits("größe") && fits(" a") && fits(&"x".repeat(200)));
        for id in ["a ", "a\0b", &"x".repeat(201), &"𝄞".repeat(101)] {
            assert!(!fits(id), "{id:?}");
        }
    }
}
