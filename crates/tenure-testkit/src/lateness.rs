//! How late this machine runs what is due: what a bound on time has to allow for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tenure::BootInstant;

const TICK: Duration = Duration::from_millis(5);
/// Timers are never exact; what is later than this was kept waiting.
const SLACK: Duration = Duration::from_millis(2);

/// A thread that wants to run every few milliseconds, and notes by how much it could not.
#[derive(Debug)]
pub struct Lateness {
    is_over: Arc<AtomicBool>,
    ticking: JoinHandle<Duration>,
}

impl Lateness {
    /// Begins to measure.
    #[must_use]
    pub fn measure() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ticking = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut total = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    total += one_tick();
                }
                total
            }
        });
        Self { is_over, ticking }
    }

    /// By how much it was late, all in all.
    ///
    /// # Panics
    /// When its thread has.
    #[must_use]
    pub fn total(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.ticking.join().expect("it only sleeps")
    }
}

fn one_tick() -> Duration {
    let began = BootInstant::now();
    thread::sleep(TICK);
    let late = BootInstant::now().since(began).saturating_sub(TICK);
    if late > SLACK { late } else { Duration::ZERO }
}
