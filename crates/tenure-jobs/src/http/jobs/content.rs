//! What makes a job this one: not the order of an object's keys, nor the space between them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::job::{Limits, NewJob};

/// Deeper than this, what was sent counts as it was sent.
const DEEPEST: usize = 64;

pub(super) fn hash(job: &NewJob) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [&job.op, job.pinned_agent.as_deref().unwrap_or_default()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update([u8::from(job.pinned_agent.is_some())]);
    hash.update(job.priority.to_be_bytes());
    if job.limits != Limits::default() {
        hash.update(format!("{:?}", job.limits));
    }
    let mut canonical = String::with_capacity(job.payload.get().len());
    write(&job.payload, DEEPEST, &mut canonical);
    hash.update(canonical);
    hash.finalize().into()
}

/// Keys sorted, no space; numbers and texts as they were sent, so that none loses a digit.
fn write(value: &RawValue, depth: usize, out: &mut String) {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') if depth > 0 => {
            match serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
                Ok(members) => {
                    out.push('{');
                    for (name, value) in members {
                        // A length in front, so that no name can look like what follows it.
                        out.push_str(&format!("{}:{name}:", name.len()));
                        write(value, depth - 1, out);
                        out.push(',');
                    }
                    out.push('}');
                }
                Err(_) => out.push_str(text),
            }
        }
        Some(b'[') if depth > 0 => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(elements) => {
                out.push('[');
                for value in elements {
                    write(value, depth - 1, out);
                    out.push(',');
                }
                out.push(']');
            }
            Err(_) => out.push_str(text),
        },
        _ => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        let value = RawValue::from_string(json.to_owned()).unwrap();
        let mut out = String::new();
        write(&value, DEEPEST, &mut out);
        out
    }

    #[test]
    fn the_order_of_keys_and_space_do_not_matter() {
        let one = canonical(r#"{"a": 1, "b": [1, {"c": null, "d": "x"}]}"#);
        assert_eq!(one, canonical(r#"{"b":[1,{"d":"x","c":null}],"a":1}"#));
    }

    #[test]
    fn what_differs_differs() {
        let all = [
            "1",
            "1.0",
            "10000000000000000000000001",
            "10000000000000000000000002",
            "[1,2]",
            "[2,1]",
            r#""1""#,
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":1,"b":2}"#,
            "{}",
            "[]",
            "null",
        ];
        let written: std::collections::HashSet<_> = all.into_iter().map(canonical).collect();
        assert_eq!(written.len(), all.len());
    }

    #[test]
    fn what_is_deeper_than_anybody_needs_is_still_told_apart() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert_ne!(canonical(&deep("1")), canonical(&deep("2")));
    }
}
