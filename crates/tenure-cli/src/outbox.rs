//! `tenure outbox`: the payment outbox of a Postgres database.

mod enqueue;
mod look;
mod work;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use tenure::HolderId;
use tenure_database::{Deadline, postgres::PostgresUrl};
use tenure_outbox::{install, store::Store};

pub use self::{
    enqueue::{Enqueue, Source},
    work::Work,
};
use crate::{database::CONNECT, output};

/// How long a call of the database may take at most.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long an installation may take: an old table may get an index.
const INSTALL_WITHIN: Duration = Duration::from_secs(600);
/// Counting years of attempts takes its time.
const LOOK_WITHIN: Duration = Duration::from_secs(300);

/// What to do with which outbox.
#[derive(Debug)]
pub struct Outbox {
    /// Not needed to print.
    pub url: Option<PostgresUrl>,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    Print,
    Install,
    Enqueue(Enqueue),
    Work(Box<Work>),
    Repair { batch: usize },
    Stats { json: bool },
    Doctor { json: bool },
}

/// A name that nobody else has.
pub fn fresh_worker_id() -> String {
    HolderId::fresh().to_string()
}

impl Outbox {
    pub async fn run(self) -> Result<ExitCode> {
        let Some(url) = self.url else {
            output::print(&install::script())?;
            return Ok(ExitCode::SUCCESS);
        };
        let used = format!("cannot use the outbox in {url}");
        match self.what {
            What::Print => output::print(&install::script())?,
            What::Install => {
                install(&url).await.with_context(|| format!("cannot install into {url}"))?;
            }
            What::Enqueue(enqueue) => {
                enqueue.run(&Store::new(&url, PATIENCE)).await.context(used)?;
            }
            What::Work(work) => work.run(&url).await?,
            What::Repair { batch } => {
                repair(&Store::new(&url, PATIENCE), batch).await.context(used)?;
            }
            What::Stats { json } => {
                look::stats(&Store::new(&url, LOOK_WITHIN), json).await.context(used)?;
            }
            What::Doctor { json } => return look::doctor(&url, json).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn install(url: &PostgresUrl) -> Result<()> {
    let session = url.connect(Deadline::after(CONNECT)).await?;
    Deadline::after(INSTALL_WITHIN).run(install::install(&session)).await?;
    output::print(&format!("the outbox is installed in {url}\n"))
}

async fn repair(store: &Store, batch: usize) -> Result<()> {
    let worker = fresh_worker_id();
    let mut all = 0;
    loop {
        let count = store.repair(batch, &worker).await?;
        all += count;
        if count < batch {
            break;
        }
    }
    output::print(&format!(
        "took back {all} expired {}\n",
        if all == 1 { "lease" } else { "leases" }
    ))
}
