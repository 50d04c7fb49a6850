//! From the loss of a term to the death of the last descendant of its child.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Timespec,
    process::{Pid, PidfdFlags, Signal, pidfd_open},
};
use tenure::BootInstant;
use tenure_testkit::secs;

use super::copy::Copy;
use crate::figures::{heading, ms, spread};

const GRACE: &str = "200ms";
/// A fifth of the lease, or the grace and what is set aside for killing, whichever is more.
const MARGIN: Duration = Duration::from_millis(700);
const TRIALS: usize = 25;
const EDGES: [f64; 8] = [5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 700.0];

/// Two processes, the second in a session of its own; they say who they are and where the token is.
const OBEYS: &str = "setsid sleep 1000 & echo $$ $! $TENURE_TOKEN_FILE; exec sleep 1000";
/// The same, and neither ends when it is asked.
const REFUSES: &str =
    "trap '' TERM; setsid sleep 1000 & echo $$ $! $TENURE_TOKEN_FILE; exec sleep 1000";

#[derive(Clone, Copy)]
enum Loss {
    /// The supervisor is told to stop, or killed: lost from that moment.
    Signal(Signal),
    /// The supervisor is frozen: lost at the deadline that it last renewed.
    Deadline,
}

pub async fn run() -> Result<()> {
    heading(&format!(
        "tenure run, SQLite, lease of 3 s, --term-grace {GRACE}: loss to the last descendant's death"
    ));
    let mut all = Vec::new();
    for (child, script) in [("obeys SIGTERM", OBEYS), ("ignores it", REFUSES)] {
        for (loss, name) in [
            (Loss::Signal(Signal::TERM), "told to stop"),
            (Loss::Signal(Signal::KILL), "killed"),
            (Loss::Deadline, "frozen"),
        ] {
            let mut lags = (0..TRIALS).map(|_| trial(script, loss)).collect::<Result<Vec<_>>>()?;
            println!("  child {child:<14} supervisor {name:<13} {}", spread(&mut lags));
            all.append(&mut lags);
        }
    }
    histogram(&all);
    let worst = all.iter().copied().fold(0.0, f64::max);
    println!("  worst {worst:.1} ms, margin {:.0} ms, ratio {:.2}", ms(MARGIN), worst / ms(MARGIN));
    Ok(())
}

fn trial(script: &str, loss: Loss) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let db = format!("sqlite:{}", folder.path().join("bench.db").display());
    let options = ["--db", &db, "run", "--scope", "bench", "--lease", "3s", "--term-grace", GRACE];
    let copy = Copy::start(&options, script)?;
    let (line, _) = copy.lines.next(secs(20))?;
    let words: Vec<_> = line.split_whitespace().collect();
    let [child, other, token] = words[..] else { anyhow::bail!("{line}") };
    let open = |pid: &str| -> Result<_> {
        let pid = Pid::from_raw(pid.parse()?).context("a pid")?;
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    };
    let processes = [open(child)?, open(other)?];
    let lost = match loss {
        Loss::Signal(signal) => {
            let lost = BootInstant::now();
            copy.signal(signal)?;
            lost
        }
        Loss::Deadline => {
            copy.signal(Signal::STOP)?;
            deadline(token)?
        }
    };
    for process in &processes {
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit))?;
        anyhow::ensure!(ended == 1, "a process of the child lives on");
    }
    Ok(ms(BootInstant::now().since(lost)))
}

/// Read when the supervisor stands still, so it is the last one.
fn deadline(token: &str) -> Result<BootInstant> {
    let text = fs::read_to_string(token)?;
    let told = text.split("\"deadline_boottime_ms\":").nth(1).context("a deadline")?;
    let millis: u64 = told.trim_end().trim_end_matches('}').parse()?;
    Ok(BootInstant::from_nanos(millis * 1_000_000))
}

fn histogram(lags: &[f64]) {
    let mut from = 0.0;
    for to in EDGES {
        let count = lags.iter().filter(|lag| (from..to).contains(*lag)).count();
        println!("  {from:>5} to {to:>4} ms {count:>4} {}", "#".repeat(count.div_ceil(2)));
        from = to;
    }
    let beyond = lags.iter().filter(|lag| **lag >= from).count();
    println!("  beyond         {beyond:>4}");
}
