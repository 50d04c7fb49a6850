//! How long nobody acted, as percentiles.

use std::{collections::BTreeMap, time::Duration};

use crate::blows::Blow;

/// From a blow to the next program's first sign, for each kind of blow and each lock.
#[derive(Default)]
pub struct Pauses(BTreeMap<String, Vec<Duration>>);

impl Pauses {
    pub fn add(&mut self, who: &str, blow: Blow, pause: Duration) {
        self.0.entry(format!("{who}, {blow}")).or_default().push(pause);
    }

    pub fn print(&mut self) {
        for (what, pauses) in &mut self.0 {
            pauses.sort_unstable();
            let at = |part: usize| pauses[(pauses.len() - 1) * part / 100].as_secs_f64();
            let count = pauses.len();
            println!(
                "pause, {what}: p50 {:.1} s, p90 {:.1} s, most {:.1} s of {count}",
                at(50),
                at(90),
                at(100)
            );
        }
    }
}
