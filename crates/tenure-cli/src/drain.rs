//! `tenure drain`: a leader hands over, and stays out until it is told otherwise.

mod by_scope;
mod by_url;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use reqwest::Url;
use tenure::{BootInstant, DatabaseUrl, Scope};

#[cfg(test)]
pub use self::by_scope::BATCHES;
use crate::output::print;

/// How often to look whether the hand-over is done.
const AGAIN: Duration = Duration::from_millis(100);
/// How long to wait for whoever takes over, once the term has ended.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Whom to ask, and whether to take it back.
#[derive(Debug)]
pub struct Drain {
    pub whom: Whom,
    pub undo: bool,
    /// How long to wait for the hand-over.
    pub wait: Duration,
}

#[derive(Debug)]
pub enum Whom {
    /// The node that answers there.
    Url { url: Url, token_file: Option<PathBuf> },
    /// Whoever leads the scope.
    Scope { db: DatabaseUrl, scope: Scope },
}

/// A term as it was last seen: whose, and whether it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    holder: String,
    epoch: i64,
    goes_on: bool,
}

impl Drain {
    pub async fn run(&self) -> Result<()> {
        match &self.whom {
            Whom::Url { url, token_file } => by_url::drain(self, url, token_file.as_deref()).await,
            Whom::Scope { db, scope } => by_scope::drain(self, db, scope).await,
        }
    }

    /// Waits until the term that was asked has ended, and then a little for whoever takes over.
    async fn follow(&self, asked: &Seen, look: impl AsyncFn() -> Result<Seen>) -> Result<()> {
        let Seen { holder, epoch, .. } = asked;
        print(&format!("asked {holder} to hand over term {epoch}\n"))?;
        if self.wait.is_zero() {
            return Ok(());
        }
        let mut deadline = BootInstant::now() + self.wait;
        let mut has_ended = false;
        loop {
            let seen = look().await?;
            if seen.epoch > *epoch && seen.goes_on {
                return print(&format!("{} leads term {}\n", seen.holder, seen.epoch));
            }
            if !has_ended && (!seen.goes_on || seen.epoch > *epoch) {
                has_ended = true;
                deadline = BootInstant::now() + AFTERWARDS;
                print(&format!("{holder} has handed over\n"))?;
            }
            if BootInstant::now() >= deadline {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
        if !has_ended {
            bail!(
                "{holder} has not handed over term {epoch} within {:?}: is it running, and does it reach \
                 the database? (its lease ends by itself when it is not)",
                self.wait
            );
        }
        print("who has taken over is not known here yet\n")
    }
}
