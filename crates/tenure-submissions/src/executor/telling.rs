//! The webhooks of a term: a part of its work, which ends before the term is released.

use std::collections::VecDeque;

use tenure::Term;

use super::term::{Lost, Report, TermOfWork};
use crate::{
    schedule::Row,
    store::{Store, StoreError, WebhookDue},
};

/// How many are sent at once.
const AT_ONCE: usize = 32;
/// How many are read at once when a leader takes over.
const PAGE: i64 = 1_000;
const UNKNOWN: &str = "outcome unknown: the leader that sent it did not live to record it";

/// What is to be sent, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Telling {
    due: VecDeque<Row>,
    results: Vec<(Row, Option<String>)>,
    /// Begun, and the term was over before they were sent: given back at the end.
    unsent: Vec<Row>,
    /// Begun or being sent.
    busy: usize,
    is_beginning: bool,
    is_finishing: bool,
}

/// What happened to webhooks.
pub(super) enum Told {
    Begun {
        count: usize,
        answer: Result<Vec<WebhookDue>, StoreError>,
    },
    /// An error, or none.
    Sent(Row, Option<String>),
    /// The term was over before.
    NotSent(Row),
    Finished(Result<(), StoreError>),
}

impl Telling {
    /// A new leader sends what nobody began, and gives up what somebody did.
    pub(super) async fn take_over(store: &dyn Store, term: &Term) -> Result<Self, StoreError> {
        let (mut telling, mut above) = (Self::default(), 0);
        loop {
            let page = store.pending_webhooks(above, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(telling) };
            above = *last;
            let (begun, fresh): (Vec<_>, Vec<_>) =
                page.into_iter().partition(|(_, was_attempted)| *was_attempted);
            telling.due.extend(fresh.into_iter().map(|(row, _)| row));
            let unknown = begun.into_iter().map(|(row, _)| (row, Some(UNKNOWN.to_owned())));
            let unknown: Vec<_> = unknown.collect();
            if !unknown.is_empty() {
                store.finish_webhooks(term, &unknown).await?;
            }
        }
    }

    /// This one is to be sent.
    pub(super) fn add(&mut self, row: Row) {
        self.due.push_back(row);
    }
}

impl TermOfWork {
    /// Notes in the database which are sent next, as many as there is room and time for.
    pub(super) fn begin_webhooks(&mut self) {
        let room = AT_ONCE.saturating_sub(self.webhooks.busy).min(self.webhooks.due.len());
        if room == 0 || self.webhooks.is_beginning || !self.has_time() {
            return;
        }
        let rows: Vec<_> = self.webhooks.due.drain(..room).collect();
        self.webhooks.is_beginning = true;
        self.webhooks.busy += rows.len();
        let (executor, term) = (self.executor.clone(), self.tenure.term.clone());
        self.tasks.spawn(async move {
            let answer = executor.store.begin_webhooks(&term, &rows).await;
            Report::Webhook(Told::Begun { count: rows.len(), answer })
        });
    }

    pub(super) fn told(&mut self, told: Told) -> Result<(), Lost> {
        match told {
            Told::Begun { count, answer } => {
                self.webhooks.is_beginning = false;
                self.webhooks.busy -= count;
                let due = answer.map_err(|error| self.lost("begin_webhooks", &error))?;
                due.into_iter().for_each(|due| self.send(due));
            }
            Told::Sent(row, error) => {
                self.webhooks.busy -= 1;
                self.webhooks.results.push((row, error));
                self.finish_webhooks();
            }
            Told::NotSent(row) => {
                self.webhooks.busy -= 1;
                self.webhooks.unsent.push(row);
            }
            Told::Finished(answer) => {
                self.webhooks.is_finishing = false;
                answer.map_err(|error| self.lost("finish_webhooks", &error))?;
                self.finish_webhooks();
            }
        }
        Ok(())
    }

    fn send(&mut self, due: WebhookDue) {
        self.webhooks.busy += 1;
        let (executor, gate) = (self.executor.clone(), self.gate.clone());
        self.tasks.spawn(async move {
            let sent = match gate.require_leader() {
                Ok(token) => executor.webhooks.send(&gate, token, &due).await,
                Err(refused) => Err(refused),
            };
            Report::Webhook(match sent {
                Ok(error) => Told::Sent(due.row, error),
                Err(_) => Told::NotSent(due.row),
            })
        });
    }

    /// What was begun and not sent is as if it had never been begun.
    pub(super) async fn give_back_webhooks(&mut self) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.webhooks.unsent);
        match rows.is_empty() {
            true => Ok(()),
            false => self.executor.store.unbegin_webhooks(&self.tenure.term, &rows).await,
        }
    }

    /// Keeps the results that have come in, one batch at a time.
    pub(super) fn finish_webhooks(&mut self) {
        if self.webhooks.is_finishing || self.webhooks.results.is_empty() {
            return;
        }
        self.webhooks.is_finishing = true;
        let results = std::mem::take(&mut self.webhooks.results);
        let (executor, term) = (self.executor.clone(), self.tenure.term.clone());
        self.tasks.spawn(async move {
            let answer = executor.store.finish_webhooks(&term, &results).await;
            Report::Webhook(Told::Finished(answer))
        });
    }
}
