//! The statements, one file each.

use std::sync::OnceLock;

use tenure::{fence::sqlserver as fence, lock::sqlserver_lease};
use tenure_database::{sqlserver::Batch, sqlserver_batch};

pub(super) const INSERT: Batch = sqlserver_batch!("intake/insert", 3);
pub(super) const FIND: Batch = sqlserver_batch!("intake/find", 1);
pub(super) const FIND_ROWS: Batch = sqlserver_batch!("intake/find_rows", 1);
pub(super) const ATTEMPTS: Batch = sqlserver_batch!("intake/attempts", 1);
pub(super) const NOW: Batch = sqlserver_batch!("schedule/now", 0);
pub(super) const LOOK: Batch = sqlserver_batch!("execute/look", 3);
pub(super) const PENDING_WEBHOOKS: Batch = sqlserver_batch!("webhook/pending", 2);

pub(super) static REBUILD: Made = Made::identified(sqlserver_batch!("schedule/rebuild", 0));
pub(super) static REFRESH: Made = Made::identified(sqlserver_batch!("schedule/refresh", 5));

pub(super) static RESERVE: Made = Made::fenced(sqlserver_batch!("execute/reserve", 5));
pub(super) static UNRESERVE: Made = Made::fenced(sqlserver_batch!("execute/unreserve", 4));
pub(super) static GIVE_UP: Made = Made::fenced(sqlserver_batch!("execute/give_up", 5));
pub(super) static RECORD: Made = Made::fenced(sqlserver_batch!("execute/record", 4));
pub(super) static BEGIN_WEBHOOK: Made = Made::fenced(sqlserver_batch!("webhook/begin", 4));
pub(super) static UNBEGIN_WEBHOOK: Made = Made::fenced(sqlserver_batch!("webhook/unbegin", 4));
pub(super) static FINISH_WEBHOOK: Made = Made::fenced(sqlserver_batch!("webhook/finish", 4));

/// All of them. Those of a fenced transaction count the three parameters of their term.
#[must_use]
pub fn all() -> Vec<Batch> {
    let plain = [INSERT, FIND, FIND_ROWS, ATTEMPTS, NOW, LOOK, PENDING_WEBHOOKS];
    let fenced = [
        &RESERVE,
        &UNRESERVE,
        &GIVE_UP,
        &RECORD,
        &BEGIN_WEBHOOK,
        &UNBEGIN_WEBHOOK,
        &FINISH_WEBHOOK,
    ];
    let made = [&REBUILD, &REFRESH].into_iter().chain(fenced);
    plain.into_iter().chain(made.map(|made| made.batch)).collect()
}

/// A batch with something around it or in it, put together once.
pub(super) struct Made {
    batch: Batch,
    make: fn(&Batch) -> String,
    text: OnceLock<String>,
}

impl Made {
    /// Behind the fence.
    const fn fenced(batch: Batch) -> Self {
        Self { batch, make: fence::fenced, text: OnceLock::new() }
    }

    /// With which server answers.
    const fn identified(batch: Batch) -> Self {
        Self { batch, make: sqlserver_lease::identified, text: OnceLock::new() }
    }

    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| (self.make)(&self.batch))
    }
}
