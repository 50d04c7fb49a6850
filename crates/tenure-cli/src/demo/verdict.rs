//! What the demo has shown.

use std::{fmt, time::Duration};

use anyhow::Result;
use serde::Serialize;
use tenure_submissions::{intent::Status, store::Store};

use super::{gateway::Gateway, instances::Kill};

/// How many intents to ask for at once.
const PAGE: usize = 500;

/// The counts, as `--json` prints them.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Intents that an instance has confirmed.
    submitted: usize,
    /// Those of them that were accepted.
    accepted: usize,
    /// Attempts that were recorded.
    attempts: i64,
    /// Calls that a new leader repeated under the key of its dead predecessor: one effect.
    repeats: u64,
    /// Effects beyond the first of an intent.
    duplicates: u64,
    /// Intents that were confirmed and not accepted.
    lost: usize,
    /// Clients that gave up, because no instance answered.
    given_up: usize,
    /// Leaders that were killed and followed by another that acts.
    failovers: usize,
    /// From each kill to the first act of the next leader, in order.
    failover_ms: Vec<u64>,
}

/// How many of these are over, in a row and page by page, from the first on.
pub async fn count_over(store: &dyn Store, ids: &[String]) -> Result<usize> {
    let mut over = 0;
    for page in ids.chunks(PAGE) {
        let ids: Vec<_> = page.iter().map(String::as_str).collect();
        if store.find(&ids).await?.iter().any(|found| found.view.status == Status::Pending) {
            break;
        }
        over += page.len();
    }
    Ok(over)
}

impl Verdict {
    pub async fn reach(
        store: &dyn Store,
        gateway: &Gateway,
        submitted: Vec<String>,
        given_up: usize,
        kills: &[Kill],
    ) -> Result<Self> {
        let (mut accepted, mut attempts) = (0, 0);
        for ids in submitted.chunks(PAGE) {
            let ids: Vec<_> = ids.iter().map(String::as_str).collect();
            for found in store.find(&ids).await? {
                accepted += usize::from(found.view.status == Status::Accepted);
                attempts += i64::from(found.attempts);
            }
        }
        let took = |kill: &Kill| gateway.next_act(kill.epoch).map(|act| act.since(kill.at));
        let failover_ms: Vec<_> = kills.iter().filter_map(took).map(millis).collect();
        Ok(Self {
            submitted: submitted.len(),
            accepted,
            attempts,
            repeats: gateway.repeats(),
            duplicates: gateway.duplicates(),
            lost: submitted.len() - accepted,
            given_up,
            failovers: failover_ms.len(),
            failover_ms,
        })
    }

    pub fn is_clean(&self) -> bool {
        self.submitted > 0 && self.given_up == 0 && self.lost == 0 && self.duplicates == 0
    }

    pub fn json(&self) -> Result<String> {
        Ok(format!("{}\n", serde_json::to_string(self)?))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, count: &dyn fmt::Display, meaning: &str| {
            writeln!(f, "  {name:<11}{count:>8}  {meaning}")
        };
        line("submitted", &self.submitted, "confirmed to the client")?;
        line("accepted", &self.accepted, "by the gateway, and recorded")?;
        line("attempts", &self.attempts, "the gateway turns one in fifty away")?;
        line("repeats", &self.repeats, "of a dead leader's call, under its key: one effect")?;
        line("duplicates", &self.duplicates, "executed twice")?;
        line("lost", &self.lost, "confirmed and not accepted")?;
        line("given up", &self.given_up, "by clients that no instance answered")?;
        line("failovers", &self.failovers, &times(&self.failover_ms))?;
        match self.is_clean() {
            true => writeln!(f, "Clean: every intent was accepted, and none twice."),
            false => writeln!(f, "NOT CLEAN: something was lost, executed twice, or never taken."),
        }
    }
}

/// From kill to the next act.
fn times(failovers: &[u64]) -> String {
    let mut sorted = failovers.to_vec();
    sorted.sort_unstable();
    let seconds = |at: usize| sorted.get(at).map_or(0.0, |ms| *ms as f64 / 1_000.0);
    format!(
        "from kill -9 to the next leader's first act: fastest {:.1}s, median {:.1}s, slowest {:.1}s",
        seconds(0),
        seconds(sorted.len() / 2),
        seconds(sorted.len().saturating_sub(1))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_in_which_everything_went_well_is_clean() {
        let clean = || Verdict {
            submitted: 9,
            accepted: 9,
            attempts: 9,
            repeats: 3,
            duplicates: 0,
            lost: 0,
            given_up: 0,
            failovers: 1,
            failover_ms: vec![3_000],
        };
        assert!(clean().is_clean());
        for spoilt in [
            Verdict { submitted: 0, ..clean() },
            Verdict { duplicates: 1, ..clean() },
            Verdict { lost: 1, ..clean() },
            Verdict { given_up: 1, ..clean() },
        ] {
            assert!(!spoilt.is_clean() && spoilt.to_string().contains("NOT CLEAN"), "{spoilt:?}");
        }
    }
}
