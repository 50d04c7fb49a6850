//! The rows of some tables: as they are, and without what differs between two runs that do the same.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};
use tenure::Term;
use tokio_postgres::{Client, Statement};

/// Tables, and one statement that reads them all at one moment.
pub(super) struct Tables {
    read: Statement,
}

impl Tables {
    pub async fn of(owner: &Client, names: &[&str]) -> Self {
        let parts = names.iter().enumerate().map(|(at, name)| {
            format!("SELECT {at} AS place, to_jsonb(t)::text AS line FROM {name} AS t")
        });
        let parts: Vec<_> = parts.collect();
        let query = format!("{} ORDER BY place, line", parts.join(" UNION ALL "));
        Self { read: owner.prepare(&query).await.unwrap() }
    }

    pub async fn read(&self, owner: &Client) -> Data {
        let rows = owner.query(&self.read, &[]).await.unwrap();
        let line = |row: &tokio_postgres::Row| (row.get("place"), row.get("line"));
        Data(rows.iter().map(line).collect())
    }
}

/// Rows, each with the number of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data(Vec<(i32, String)>);

impl Data {
    /// The rows without moments and numbers that no two runs share.
    pub fn meaning(&self, term: &Term) -> Vec<String> {
        let rows: Vec<(i32, Map<String, Value>)> = self
            .0
            .iter()
            .map(|(place, line)| (*place, serde_json::from_str(line).expect("a row in JSON")))
            .collect();
        // A write that is rolled back uses numbers up: what counts is their order.
        let number = |row: &Map<String, Value>| row.get("row_number").and_then(Value::as_i64);
        let numbers: BTreeSet<i64> = rows.iter().filter_map(|(_, row)| number(row)).collect();
        let mut lines: Vec<_> = rows
            .into_iter()
            .map(|(place, mut row)| {
                for (column, value) in &mut row {
                    *value = plain(column, value, &numbers, term);
                }
                format!("{place} {}", Value::Object(row))
            })
            .collect();
        lines.sort();
        lines
    }

    /// What is here and not there, and the other way round.
    pub fn unlike(&self, other: &Self) -> String {
        let less = |one: &Self, other: &Self| {
            let lines = one.0.iter().filter(|line| !other.0.contains(line));
            Self(lines.cloned().collect())
        };
        format!("{} instead of {}", less(self, other), less(other, self))
    }
}

impl fmt::Display for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(|(_, line)| line.as_str()).collect();
        write!(formatter, "[{}]", lines.join(", "))
    }
}

fn plain(column: &str, value: &Value, numbers: &BTreeSet<i64>, term: &Term) -> Value {
    let number = value.as_i64();
    match column {
        "modified_xid" | "history" => Value::Null,
        "row_number" => number.map(|number| numbers.range(..number).count()).into(),
        "leader_epoch" | "reserved_epoch" => {
            number.map(|number| number - term.epoch().get()).into()
        }
        _ if column.ends_with("_at") => (!value.is_null()).into(),
        _ if value == term.holder().as_str() => "the leader".into(),
        _ => value.clone(),
    }
}
