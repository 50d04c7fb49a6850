//! Requests that wait for the outcome of an intent, woken by what the store tells.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use crate::{
    schedule::Row,
    store::{News, Store, Stored},
};

/// How many rows are remembered as done: a request may begin to wait just after.
const REMEMBERED: usize = 65_536;

/// Everybody who waits, on this instance.
#[derive(Clone, Debug, Default)]
pub struct Waiters(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    waiting: HashMap<Row, Vec<oneshot::Sender<()>>>,
    done: VecDeque<Row>,
    is_done: HashSet<Row>,
    is_closed: bool,
}

impl Waiters {
    /// Wakes whoever waits, for as long as the store tells.
    pub async fn hear(self, mut news: mpsc::UnboundedReceiver<News>) {
        while let Some(told) = news.recv().await {
            let mut waiting = self.locked();
            match told {
                News::Done(rows) => rows.into_iter().for_each(|row| waiting.done(row)),
                // Whoever waits looks again.
                News::Missed => waiting.waiting.clear(),
                News::Stored => {}
            }
        }
    }

    /// Waits until an attempt of this intent was recorded, or for so long; what it is then.
    pub async fn wait(&self, store: &dyn Store, stored: Stored, within: Duration) -> Stored {
        let deadline = tokio::time::Instant::now() + within;
        let mut stored = stored;
        let mut woken = self.wakes(stored.row);
        // What was done before anybody waited is seen by a look.
        if self.locked().is_over(stored.row) {
            stored = look(store, stored).await;
        }
        while !stored.is_answered() && !self.locked().is_closed {
            tokio::select! {
                // Woken, or the news were interrupted: either way, look.
                _ = &mut woken => {
                    woken = self.wakes(stored.row);
                    stored = look(store, stored).await;
                }
                () = tokio::time::sleep_until(deadline) => {
                    drop(woken);
                    self.locked().forget(stored.row);
                    return look(store, stored).await;
                }
            }
        }
        stored
    }

    /// Wakes when the row is done.
    fn wakes(&self, row: Row) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        self.locked().waiting.entry(row).or_default().push(wake);
        woken
    }

    /// Whoever waits is answered with what there is, and nobody waits any more.
    pub fn close(&self) {
        let mut waiting = self.locked();
        waiting.is_closed = true;
        waiting.waiting.clear();
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_over(&self, row: Row) -> bool {
        self.is_closed || self.is_done.contains(&row)
    }

    /// Nobody waits for it any more, unless somebody still does.
    fn forget(&mut self, row: Row) {
        if let Some(waiting) = self.waiting.get_mut(&row) {
            waiting.retain(|wake| !wake.is_closed());
            if waiting.is_empty() {
                self.waiting.remove(&row);
            }
        }
    }

    fn done(&mut self, row: Row) {
        // Dropping what they wait on wakes them.
        self.waiting.remove(&row);
        if self.is_done.insert(row) {
            self.done.push_back(row);
        }
        if self.done.len() > REMEMBERED
            && let Some(oldest) = self.done.pop_front()
        {
            self.is_done.remove(&oldest);
        }
    }
}

/// What the intent is now; what it was, when the database does not answer.
async fn look(store: &dyn Store, stored: Stored) -> Stored {
    match store.find_rows(&[stored.row]).await {
        Ok(mut found) if !found.is_empty() => found.remove(0),
        _ => stored,
    }
}
