//! Compares what a live database has with what it should have.

use tokio_postgres::{Client, Error, types::Type};

const DESCRIBE: &str = include_str!("../sql/postgres/describe.sql");
/// What a fresh installation is described as.
const EXPECTED: &str = include_str!("../sql/postgres/expected.txt");

/// The functions of the outbox.
pub const FUNCTIONS: [&str; 21] = [
    "announce_outbox_work",
    "append_lost_outbox_attempts",
    "bump_participant_outbox_seq",
    "claim_outbox_batch",
    "complete_outbox_attempt",
    "complete_outbox_attempts",
    "deny_outbox_attempts_mutation",
    "enqueue_payment_outbox",
    "enqueue_payment_outbox_batch",
    "extend_outbox_leases",
    "find_payment_outbox",
    "first_of_ordered_participants",
    "is_first_in_order",
    "lock_outbox_leases",
    "look_for_claimable_outbox",
    "outbox_retry_ceiling",
    "release_outbox_leases",
    "repair_expired_leases",
    "uuid_strategy",
    "uuid_v7_or_random",
    "uuidv7",
];

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It should be there.
    Missing(String),
    /// It should not be there.
    Unexpected(String),
}

/// What is installed, a line per fact. Sets the session's search path, on which the spelling of names depends.
pub async fn describe(client: &Client) -> Result<Vec<String>, Error> {
    client.batch_execute("SET search_path = pg_catalog, public").await?;
    let names = FUNCTIONS.as_slice();
    let rows = client.query_typed(DESCRIBE, &[(&names, Type::TEXT_ARRAY)]).await?;
    Ok(rows.iter().map(|row| row.get("fact")).collect())
}

/// What differs from a fresh installation by this binary; nothing when all is well.
pub async fn examine(client: &Client) -> Result<Vec<Finding>, Error> {
    Ok(compare(&describe(client).await?))
}

fn compare(facts: &[String]) -> Vec<Finding> {
    let missing = EXPECTED.lines().filter(|line| !facts.iter().any(|fact| fact == line));
    let unexpected = facts.iter().filter(|fact| !EXPECTED.lines().any(|line| line == *fact));
    let missing = missing.map(|line| Finding::Missing(line.to_owned()));
    missing.chain(unexpected.map(|fact| Finding::Unexpected(fact.clone()))).collect()
}
