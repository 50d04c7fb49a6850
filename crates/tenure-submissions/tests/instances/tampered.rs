//! A store that hears nothing, waits, fails, hides something, or counts: real otherwise.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tenure::Term;
use tenure_submissions::{
    intent::AttemptView,
    schedule::{Micros, Row},
    store::{
        Each, Ended, Finished, News, OneShot, Position, Refreshed, Reserve, Store, StoreError,
        Stored, Submission, Submitted, WebhookDue,
    },
};
use tokio::sync::{Semaphore, mpsc};

pub struct Tampered {
    pub store: Arc<dyn Store>,
    /// Tells nothing.
    pub is_deaf: bool,
    /// How many rebuilds have begun, and how many may go on.
    pub begun: AtomicUsize,
    pub rebuilds: Semaphore,
    /// What no refresh brings.
    pub hidden: Mutex<Vec<Row>>,
    /// How many refreshes were answered.
    pub refreshes: AtomicUsize,
    /// How often intents were taken and webhooks noted, and how many of these may be answered.
    pub takes: AtomicUsize,
    pub answers: Semaphore,
    /// Whether refreshes fail.
    pub fails: AtomicBool,
}

impl Tampered {
    pub fn with(store: Arc<dyn Store>) -> Self {
        let free = || Semaphore::new(Semaphore::MAX_PERMITS);
        Self {
            store,
            is_deaf: false,
            begun: AtomicUsize::new(0),
            rebuilds: free(),
            hidden: Mutex::default(),
            refreshes: AtomicUsize::new(0),
            takes: AtomicUsize::new(0),
            answers: free(),
            fails: AtomicBool::new(false),
        }
    }

    /// What is taken from now on is done, and not answered until the permits are given back.
    pub fn hold_answers(&self) -> usize {
        self.answers.forget_permits(Semaphore::MAX_PERMITS)
    }

    async fn taken<T>(&self, answer: T) -> T {
        self.takes.fetch_add(1, Ordering::SeqCst);
        self.answers.acquire().await.unwrap().forget();
        answer
    }
}

#[async_trait]
impl Store for Tampered {
    async fn submit(&self, batch: &[Submission]) -> Result<Vec<Submitted>, StoreError> {
        self.store.submit(batch).await
    }

    async fn find(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        self.store.find(ids).await
    }

    async fn find_rows(&self, rows: &[Row]) -> Result<Vec<Stored>, StoreError> {
        self.store.find_rows(rows).await
    }

    async fn attempts(&self, intent_id: &str) -> Result<Vec<AttemptView>, StoreError> {
        self.store.attempts(intent_id).await
    }

    async fn pending(&self, each: Each<'_>) -> Result<Position, StoreError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.rebuilds.acquire().await.unwrap().forget();
        self.store.pending(each).await
    }

    async fn refresh(&self, since: &Position) -> Result<Refreshed, StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Database(tenure_database::DatabaseError::ThreadEnded));
        }
        let mut read = self.store.refresh(since).await?;
        let hidden = self.hidden.lock().unwrap();
        read.changes.retain(|change| !hidden.contains(&change.row));
        self.refreshes.fetch_add(1, Ordering::SeqCst);
        Ok(read)
    }

    async fn now(&self) -> Result<Micros, StoreError> {
        self.store.now().await
    }

    async fn reserve(
        &self,
        term: &Term,
        rows: &[Row],
        one_shot: OneShot,
    ) -> Result<Vec<Reserve>, StoreError> {
        self.taken(self.store.reserve(term, rows, one_shot).await).await
    }

    async fn unreserve(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        self.store.unreserve(term, rows).await
    }

    async fn record(&self, term: &Term, finished: &[Finished]) -> Result<Vec<Ended>, StoreError> {
        self.store.record(term, finished).await
    }

    async fn pending_webhooks(
        &self,
        above: Row,
        most: i64,
    ) -> Result<Vec<(Row, bool)>, StoreError> {
        self.store.pending_webhooks(above, most).await
    }

    async fn begin_webhooks(
        &self,
        term: &Term,
        rows: &[Row],
    ) -> Result<Vec<WebhookDue>, StoreError> {
        self.taken(self.store.begin_webhooks(term, rows).await).await
    }

    async fn unbegin_webhooks(&self, term: &Term, rows: &[Row]) -> Result<(), StoreError> {
        self.store.unbegin_webhooks(term, rows).await
    }

    async fn finish_webhooks(
        &self,
        term: &Term,
        results: &[(Row, Option<String>)],
    ) -> Result<(), StoreError> {
        self.store.finish_webhooks(term, results).await
    }

    fn news(&self) -> mpsc::UnboundedReceiver<News> {
        match self.is_deaf {
            true => mpsc::unbounded_channel().1,
            false => self.store.news(),
        }
    }
}
