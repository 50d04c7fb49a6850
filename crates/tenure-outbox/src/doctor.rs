//! Compares what a live database has with what it should have.

use tokio_postgres::{Client, Error, types::Type};

use crate::install;

const DESCRIBE: &str = include_str!("../sql/postgres/describe.sql");
/// What a fresh installation is described as.
const EXPECTED: &str = include_str!("../sql/postgres/expected.txt");

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
    let names: Vec<_> = install::functions().collect();
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
