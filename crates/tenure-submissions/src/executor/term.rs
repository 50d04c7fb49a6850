//! One term of execution: the loop that owns the schedule.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tenure::{BootInstant, LeaderGate, Term, election::Tenure, fence::FenceError};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{Interval, MissedTickBehavior},
};

use super::{
    Executor,
    attempt::{Attempted, attempt, status_after},
    clock::DatabaseClock,
    telling::{Telling, Told},
};
use crate::{
    intent::Status,
    policy::Next,
    schedule::{Change, Gathered, Row, Schedule},
    store::{
        Ended, Finished, GivenUp, News, Position, Read, Refreshed, Reservation, Reserve, StoreError,
    },
};

/// How many outcomes are recorded together at most.
const LARGEST_RECORD: usize = 500;
/// How many are taken together at most.
const LARGEST_RESERVE: usize = 500;
/// How long to wait for a renewal when there is no time for an attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// What a new leader has read.
pub(super) struct Rebuilt {
    schedule: Schedule,
    position: Position,
    clock: DatabaseClock,
    news: mpsc::UnboundedReceiver<News>,
    webhooks: Telling,
}

impl Rebuilt {
    /// Reads everything, after having begun to listen.
    pub(super) async fn read(executor: &Executor, term: &Term) -> Result<Self, StoreError> {
        let news = executor.store.news();
        let mut pending = Gathered::default();
        let position = executor.store.pending(&mut |change| pending.add(change)).await?;
        let clock = DatabaseClock::read(executor.store.now().await?);
        let webhooks = Telling::take_over(&*executor.store, term).await?;
        Ok(Self { schedule: pending.schedule(), position, clock, news, webhooks })
    }
}

/// What runs beside the loop, and what it reports.
pub(super) enum Report {
    Refreshed(Result<Refreshed, StoreError>),
    ReadAgain(Result<Read, StoreError>),
    Reserved { rows: Vec<Row>, asked: BootInstant, answer: Result<Vec<Reserve>, StoreError> },
    Attempted(Attempted),
    Recorded { finished: Vec<Finished>, answer: Result<Vec<Ended>, StoreError> },
    Webhook(Told),
}

pub(super) struct TermOfWork {
    pub(super) executor: Arc<Executor>,
    pub(super) gate: LeaderGate,
    pub(super) tenure: Tenure,
    schedule: Schedule,
    position: Position,
    clock: DatabaseClock,
    news: mpsc::UnboundedReceiver<News>,
    refresh_due: Interval,
    reconcile_due: Interval,
    /// All that was pending at a moment, until a refresh that began after it is done.
    to_reconcile: Option<ToReconcile>,
    pub(super) tasks: JoinSet<Report>,
    /// Reads that nobody needs once the term is over.
    reads: Vec<AbortHandle>,
    pub(super) webhooks: Telling,
    /// Taken, and nobody was called: given back at the end.
    uncalled: Vec<Row>,
    /// When each intent under way was submitted, for the time that it took.
    submitted: HashMap<Row, jiff::Timestamp>,
    finished: Vec<Finished>,
    is_refreshing: bool,
    must_refresh: bool,
    /// How many refreshes have begun.
    refreshes: u64,
    is_reconciling: bool,
    is_reserving: bool,
    is_recording: bool,
    /// Attempts under way, and reservations about to be.
    busy: usize,
}

/// What every refresh before should have brought, and the first refresh after which it must be known.
struct ToReconcile {
    pending: Vec<Change>,
    known_after: u64,
}

/// The term cannot go on.
pub(super) struct Lost;

impl TermOfWork {
    pub(super) fn new(
        executor: Arc<Executor>,
        gate: LeaderGate,
        tenure: Tenure,
        rebuilt: Rebuilt,
    ) -> Self {
        let Rebuilt { schedule, position, clock, news, webhooks } = rebuilt;
        let refresh_due = every(executor.pace.refresh_interval);
        let reconcile_due = every(executor.pace.reconcile_interval);
        Self {
            executor,
            gate,
            tenure,
            schedule,
            position,
            clock,
            news,
            refresh_due,
            reconcile_due,
            to_reconcile: None,
            tasks: JoinSet::new(),
            reads: Vec::new(),
            webhooks,
            uncalled: Vec::new(),
            submitted: HashMap::new(),
            finished: Vec::new(),
            is_refreshing: false,
            must_refresh: false,
            refreshes: 0,
            is_reconciling: false,
            is_reserving: false,
            is_recording: false,
            busy: 0,
        }
    }

    /// Runs until the term ends. What was begun is awaited and recorded, as far as the fence lets it.
    pub(super) async fn run(mut self) {
        let stop = self.tenure.stop.clone();
        // Whatever is ready takes its turn: a stream of outcomes must not keep new intents out.
        while !stop.is_cancelled() {
            self.begin_what_is_due();
            self.begin_webhooks();
            let due = self.next_due();
            tokio::select! {
                () = stop.cancelled() => {}
                Some(report) = self.tasks.join_next() => {
                    let taken_in = report.map_err(|_| Lost).and_then(|report| self.take_in(report));
                    if taken_in.is_err() {
                        // Others may lead as soon as what was begun is over; nobody begins anything meanwhile.
                        self.tenure.give_up();
                        break;
                    }
                }
                Some(news) = self.news.recv() => {
                    if !matches!(news, News::Done(_)) {
                        self.refresh();
                    }
                }
                _ = self.refresh_due.tick() => self.refresh(),
                _ = self.reconcile_due.tick() => self.read_again(),
                () = tokio::time::sleep(due) => {}
            }
        }
        self.finish().await;
    }

    /// Nothing new begins; the calls that were sent are awaited, and their outcomes recorded.
    async fn finish(&mut self) {
        self.reads.iter().for_each(AbortHandle::abort);
        loop {
            self.record();
            self.finish_webhooks();
            let Some(report) = self.tasks.join_next().await else { break };
            let taken_in = match report {
                // Ended above.
                Err(_) | Ok(Report::Refreshed(_) | Report::ReadAgain(_)) => Ok(()),
                // Taken, and not called.
                Ok(Report::Reserved { rows, .. }) => {
                    self.uncalled.extend(rows);
                    Ok(())
                }
                Ok(report) => self.take_in(report),
            };
            if taken_in.is_err() {
                return;
            }
        }
        if let Err(error) = self.give_back().await {
            self.lost("give back", &error);
        }
    }

    /// What was taken and not called is as if it had never been taken.
    async fn give_back(&mut self) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.uncalled);
        if !rows.is_empty() {
            self.executor.store.unreserve(&self.tenure.term, &rows).await?;
        }
        self.give_back_webhooks().await
    }

    fn next_due(&self) -> Duration {
        let is_full = self.is_reserving || self.busy >= self.executor.pace.concurrency;
        match self.schedule.next_due() {
            Some(due) if !is_full && self.has_time() => {
                self.clock.until(due).max(Duration::from_millis(1))
            }
            Some(_) if !is_full => PAUSE,
            _ => Duration::from_secs(3_600),
        }
    }

    /// Whether the gate is open for as long as an attempt may take.
    pub(super) fn has_time(&self) -> bool {
        let needs = self.executor.time_of_an_attempt();
        self.gate.open_until().is_some_and(|until| until.left() >= needs)
    }

    /// Takes what is due, while the gate is open and there is room.
    fn begin_what_is_due(&mut self) {
        let room = self.executor.pace.concurrency.saturating_sub(self.busy).min(LARGEST_RESERVE);
        if self.is_reserving || room == 0 || !self.gate.is_leader() || !self.has_time() {
            return;
        }
        let rows = self.schedule.take_due(self.clock.now(), room);
        self.show();
        if rows.is_empty() {
            return;
        }
        self.is_reserving = true;
        self.busy += rows.len();
        let (executor, term) = (Arc::clone(&self.executor), self.tenure.term.clone());
        let asked = BootInstant::now();
        self.tasks.spawn(async move {
            let answer = executor.store.reserve(&term, &rows, executor.pace.one_shot).await;
            Report::Reserved { rows, asked, answer }
        });
    }

    fn take_in(&mut self, report: Report) -> Result<(), Lost> {
        match report {
            Report::Refreshed(read) => self.refreshed(read),
            Report::ReadAgain(read) => self.was_read_again(read),
            Report::Reserved { rows, asked, answer } => self.reserved(&rows, asked, answer),
            Report::Attempted(attempted) => {
                self.attempted(attempted);
                Ok(())
            }
            Report::Recorded { finished, answer } => self.recorded(&finished, answer),
            Report::Webhook(told) => self.told(told),
        }
    }

    fn refresh(&mut self) {
        if self.is_refreshing {
            self.must_refresh = true;
            return;
        }
        self.is_refreshing = true;
        self.refreshes += 1;
        self.schedule.begin_look();
        let (executor, position) = (Arc::clone(&self.executor), self.position.clone());
        let read = async move { Report::Refreshed(executor.store.refresh(&position).await) };
        self.read(read);
    }

    /// Nobody waits for it when the term ends.
    fn read(&mut self, read: impl Future<Output = Report> + Send + 'static) {
        self.reads.retain(|read| !read.is_finished());
        let handle = self.tasks.spawn(read);
        self.reads.push(handle);
    }

    fn refreshed(&mut self, read: Result<Refreshed, StoreError>) -> Result<(), Lost> {
        self.is_refreshing = false;
        let Refreshed { changes, position, now } =
            read.map_err(|error| self.lost("refresh", &error))?;
        if position.server != self.position.server {
            tracing::error!(target: "tenure", "the database's history is another: the term ends");
            return Err(Lost);
        }
        for change in changes {
            self.schedule.apply(change);
        }
        self.schedule.end_look();
        self.position = position;
        self.clock = DatabaseClock::read(now);
        self.reconcile();
        self.show();
        if std::mem::take(&mut self.must_refresh) {
            self.refresh();
        }
        Ok(())
    }

    /// Reads all that is pending, to compare it with what refreshes have brought.
    fn read_again(&mut self) {
        if self.is_reconciling {
            return;
        }
        self.is_reconciling = true;
        self.schedule.begin_look();
        let executor = Arc::clone(&self.executor);
        self.read(async move { Report::ReadAgain(executor.store.rebuild().await) });
    }

    fn was_read_again(&mut self, read: Result<Read, StoreError>) -> Result<(), Lost> {
        let pending = read.map_err(|error| self.lost("reconcile", &error))?.changes;
        // One that is under way may have begun before what was read now.
        self.to_reconcile = Some(ToReconcile { pending, known_after: self.refreshes + 1 });
        self.refresh();
        Ok(())
    }

    /// Compares, once a refresh that began after the reading is done: what is news then was missed.
    fn reconcile(&mut self) {
        let done = self.to_reconcile.take_if(|read| read.known_after <= self.refreshes);
        let Some(ToReconcile { pending, .. }) = done else { return };
        let missed = pending.into_iter().filter(|change| self.schedule.apply(*change)).count();
        self.schedule.end_look();
        self.is_reconciling = false;
        if missed > 0 {
            self.executor.metrics.reconciled.inc_by(missed as u64);
            tracing::error!(target: "tenure", missed, "submission_refresh_missed");
        }
    }

    fn reserved(
        &mut self,
        rows: &[Row],
        asked: BootInstant,
        answer: Result<Vec<Reserve>, StoreError>,
    ) -> Result<(), Lost> {
        self.is_reserving = false;
        self.busy -= rows.len();
        let mut gone: HashSet<_> = rows.iter().copied().collect();
        for reserve in answer.map_err(|error| self.lost("reserve", &error))? {
            gone.remove(&reserve.row());
            match reserve {
                Reserve::Ready(reservation) => self.begin(*reservation, asked),
                Reserve::GivenUp(GivenUp { ended, reason, took }) => {
                    let metrics = &self.executor.metrics;
                    metrics.exhausted(reason);
                    metrics.ended(Status::Exhausted, took.try_into().unwrap_or_default());
                    self.ended(ended);
                }
                Reserve::NotNow(change) => self.not_now(change),
            }
        }
        gone.into_iter().for_each(|row| self.schedule.moved_on(row));
        Ok(())
    }

    /// By the database's clock it is not due: then that clock is behind what was thought here.
    fn not_now(&mut self, change: Change) {
        if let Some(due) = change.due.filter(|due| *due <= self.clock.now()) {
            self.clock = DatabaseClock::read(due - 1);
            self.refresh();
        }
        self.schedule.done(change);
    }

    fn begin(&mut self, reservation: Reservation, asked: BootInstant) {
        self.busy += 1;
        self.submitted.insert(reservation.row, reservation.created_at);
        if reservation.is_repeat {
            self.executor.metrics.repeats.inc();
        }
        let waited = reservation.started_at.duration_since(reservation.due_at);
        self.executor.metrics.begun(waited.try_into().unwrap_or_default());
        self.clock = DatabaseClock::read(reservation.started_at.as_microsecond());
        self.executor.metrics.inflight.inc();
        let (executor, gate) = (Arc::clone(&self.executor), self.gate.clone());
        self.tasks.spawn(async move {
            Report::Attempted(attempt(&executor, &gate, reservation, asked).await)
        });
    }

    fn attempted(&mut self, attempted: Attempted) {
        self.busy -= 1;
        self.executor.metrics.inflight.dec();
        match attempted {
            Attempted::Finished(finished) => {
                self.finished.push(*finished);
                self.record();
            }
            Attempted::Aborted { row, version } => {
                // If the term goes on, it is due again after a renewal; if not, it is given back.
                self.submitted.remove(&row);
                self.uncalled.push(row);
                let due = self.clock.now() + i64::try_from(PAUSE.as_micros()).unwrap_or(0);
                self.schedule.done(Change { row, version, due: Some(due) });
            }
        }
    }

    /// Records what has come in, one batch at a time: while one is written, the next grows.
    fn record(&mut self) {
        if self.is_recording || self.finished.is_empty() {
            return;
        }
        self.is_recording = true;
        let most = self.finished.len().min(LARGEST_RECORD);
        let finished: Vec<_> = self.finished.drain(..most).collect();
        let (executor, term) = (Arc::clone(&self.executor), self.tenure.term.clone());
        self.tasks.spawn(async move {
            let answer = executor.store.record(&term, &finished).await;
            Report::Recorded { finished, answer }
        });
    }

    fn recorded(
        &mut self,
        finished: &[Finished],
        answer: Result<Vec<Ended>, StoreError>,
    ) -> Result<(), Lost> {
        self.is_recording = false;
        let ended = answer.map_err(|error| self.lost("record", &error))?;
        let missing = finished.len().saturating_sub(ended.len());
        self.executor.metrics.moved_on.inc_by(missing as u64);
        let mut by_row: HashMap<_, _> = finished.iter().map(|done| (done.row, done)).collect();
        for ended in ended {
            if let Some(done) = by_row.remove(&ended.change.row) {
                self.count(done);
            }
            self.ended(ended);
        }
        by_row.into_keys().for_each(|row| self.schedule.moved_on(row));
        for done in finished {
            self.submitted.remove(&done.row);
        }
        self.tenure.made_progress();
        self.record();
        Ok(())
    }

    fn count(&self, done: &Finished) {
        let metrics = &self.executor.metrics;
        match &done.next {
            Next::Retry { .. } => {
                metrics.retries.inc();
                return;
            }
            Next::Exhausted(reason) => metrics.exhausted(*reason),
            Next::Accepted | Next::Rejected { .. } => {}
        }
        if let Some(submitted) = self.submitted.get(&done.row) {
            let took = done.finished_at.duration_since(*submitted);
            metrics.ended(status_after(&done.next), took.try_into().unwrap_or_default());
        }
    }

    fn ended(&mut self, ended: Ended) {
        self.schedule.done(ended.change);
        if ended.has_webhook {
            self.webhooks.add(ended.change.row);
        }
        self.show();
    }

    fn show(&self) {
        let depth = i64::try_from(self.schedule.len()).unwrap_or(i64::MAX);
        self.executor.metrics.queue_depth.set(depth);
    }

    /// A refusal deposes, and so does every other error of the store: what it holds is not known.
    pub(super) fn lost(&self, what: &str, error: &StoreError) -> Lost {
        let sql_error = tenure_database::error::chain(error);
        let is_refusal = matches!(error, StoreError::Fence(FenceError::Refused { .. }));
        let epoch = self.tenure.term.epoch().get();
        tracing::error!(target: "tenure", epoch, what, sql_error, is_refusal, "submission_term_lost");
        Lost
    }
}

/// Beginning one period from now.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
