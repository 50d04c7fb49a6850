//! What a check of the gate costs.

use std::{hint::black_box, thread, time::Duration};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use tenure::{
    BootInstant, Candidate, Election, HolderId, LeaderGate, Role, Scope, Timing,
    lock::sqlite_lease::SqliteLease,
};

use crate::figures::{beside, heading, median};

const CHECKS: u32 = 2_000_000;
const ROUNDS: usize = 15;

/// Nanoseconds per call, with as many threads as asked for doing the same.
fn per_call(threads: usize, call: impl Fn() + Sync) -> f64 {
    let spent: f64 = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let began = BootInstant::now();
                    for _ in 0..CHECKS {
                        call();
                    }
                    BootInstant::now().since(began).as_secs_f64()
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a thread of the benchmark")).sum()
    });
    spent * 1e9 / f64::from(CHECKS) / threads as f64
}

pub async fn run() -> Result<()> {
    heading("gate: one check beside one bare clock_gettime(CLOCK_BOOTTIME), median of 15 rounds");
    let folder = tempfile::tempdir()?;
    let timing = Timing::lease(Duration::from_secs(3600)).build()?;
    let candidate = Candidate::new(Scope::new("bench")?, HolderId::fresh());
    let data = folder.path().join("bench.db");
    let mut file = tenure_database::sqlite::open(&data, Duration::from_secs(1))?;
    let (component, schema) = (tenure::schema::COMPONENT, tenure::schema::SQLITE);
    tenure_database::migrate::sqlite::migrate(&mut file, component, &schema)?;
    let lock = SqliteLease::new(&data, candidate.clone(), timing)?;
    let election = Election::builder(candidate, timing, lock).start()?;
    election.leadership().wait_for(|leadership| leadership.role == Role::Leader).await?;
    let gate = election.gate();
    for threads in [1, 2] {
        measure(&gate, threads)?;
    }
    Ok(())
}

fn measure(gate: &LeaderGate, threads: usize) -> Result<()> {
    let epoch = gate.require_leader()?.epoch;
    let (mut bare, mut require, mut ensure) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(per_call(threads, || {
            black_box(clock_gettime(ClockId::Boottime));
        }));
        require.push(per_call(threads, || {
            black_box(gate.require_leader().is_ok());
        }));
        ensure.push(per_call(threads, || {
            black_box(gate.ensure_epoch(black_box(epoch)).is_ok());
        }));
    }
    let bare = median(&mut bare);
    let name = |call: &str| format!("{call}, {threads} thread(s)");
    beside(&name("require_leader"), median(&mut require), "bare clock", bare, "ns");
    beside(&name("ensure_epoch"), median(&mut ensure), "bare clock", bare, "ns");
    Ok(())
}
