//! What the programs wrote through the fence: what was acknowledged, and what the surviving history has.

use std::{collections::HashSet, fs, path::Path};

use tokio_postgres::Client;

/// Numbered inside the fenced transaction: the fence keeps those of two terms apart, so that this is the order
/// of commits across terms.
pub const ACTS: &str = "CREATE TABLE acts
    (id bigserial PRIMARY KEY, scope text NOT NULL, epoch bigint NOT NULL, act text NOT NULL UNIQUE)";

const BEHIND: &str = "SELECT scope, epoch, before, act FROM
    (SELECT *, max(epoch) OVER (PARTITION BY scope ORDER BY id) AS before FROM acts) AS told
    WHERE epoch < before";

/// No write of the surviving history comes after one of a newer term.
pub async fn assert_in_order(client: &Client) {
    let behind = client.query(BEHIND, &[]).await.unwrap();
    let told: Vec<_> = behind
        .iter()
        .map(|row| {
            let (epoch, before): (i64, i64) = (row.get("epoch"), row.get("before"));
            format!("{} in term {epoch} after term {before}", row.get::<_, &str>("act"))
        })
        .collect();
    assert!(told.is_empty(), "accepted behind a newer term: {told:?}");
}

/// What the programs in this folder were told is committed.
pub fn acknowledged(folder: &Path) -> HashSet<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let acks = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("acks-"));
    let text: Vec<_> = acks.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect();
    // A line without its end is one that was being written.
    let whole = text.iter().flat_map(|text| text.split_inclusive('\n'));
    whole.filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

/// What was acknowledged and is no longer there.
pub async fn lost(client: &Client, folder: &Path) -> HashSet<String> {
    let mut acknowledged = acknowledged(folder);
    for row in client.query("SELECT act FROM acts", &[]).await.unwrap() {
        acknowledged.remove(row.get::<_, &str>(0));
    }
    acknowledged
}
