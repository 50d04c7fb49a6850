//! A frozen supervisor: its child must be dead before the next one writes its first line.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, test_kill_process};
use tenure_testkit::secs;

use super::copy::Copy;
use crate::figures::{heading, ms, spread};

const TRIALS: usize = 20;

pub async fn run() -> Result<()> {
    heading(
        "tenure run, lease of 3 s, supervisor frozen: is the child dead before the next one's first line?",
    );
    let (mut dead, mut waits) = (0, Vec::new());
    for _ in 0..TRIALS {
        let folder = tempfile::tempdir()?;
        let db = format!("sqlite:{}", folder.path().join("bench.db").display());
        let options = ["--db", &db, "run", "--scope", "bench", "--lease", "3s"];
        let script = "trap '' TERM; echo $$; exec sleep 1000";
        let frozen = Copy::start(&options, script)?;
        let (child, _) = frozen.lines.next(secs(20))?;
        let child = Pid::from_raw(child.parse()?).context("a pid")?;
        // It asks on its own whether the other lives, before its first line.
        let asks = format!(
            "if kill -0 {} 2>/dev/null; then echo lives; else echo dead; fi; sleep 1000",
            child.as_raw_pid()
        );
        let next = Copy::start(&options, &asks)?;
        frozen.signal(Signal::STOP)?;
        let since = tenure::BootInstant::now();
        let (verdict, first_line) = next.lines.next(secs(30))?;
        waits.push(ms(first_line.since(since)));
        dead += usize::from(verdict == "dead" && test_kill_process(child).is_err());
    }
    println!(
        "  dead in {dead} of {TRIALS}; from the freeze to the next line {}",
        spread(&mut waits)
    );
    ensure!(dead == TRIALS, "a child lived on");
    Ok(())
}
