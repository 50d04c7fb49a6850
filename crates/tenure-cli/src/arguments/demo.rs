//! `tenure demo`.

use std::{env, time::Duration};

use anyhow::{Result, bail};
use clap::Args;

use super::duration;
use crate::demo::Demo;

#[derive(Debug, Args)]
pub(super) struct TypedDemo {
    /// How long to submit intents and to kill leaders
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration)]
    lasts: Duration,
    /// How many intents per second
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Print one JSON object at the end, and nothing else
    #[arg(long)]
    json: bool,
}

impl TypedDemo {
    /// `TENURE_DB` is where the work is: a demo goes elsewhere, unless told by hand.
    pub(super) fn meaning(self, db: Option<String>) -> Result<Demo> {
        let db = db.filter(|db| env::var("TENURE_DB").ok().as_ref() != Some(db));
        if self.lasts.is_zero() {
            bail!("--for must be above 0s");
        }
        Ok(Demo { db, lasts: self.lasts, rate: self.rate, json: self.json })
    }
}
