//! A program of which one copy acts: start it twice in one folder, kill the one that leads, and watch.
//!
//!     cargo run -p tenure --example singleton
//!
//! It embeds the gate (ask before every act) and the fence (the database refuses whoever is too late).

use std::{error::Error, path::Path, time::Duration};

use tenure::{
    Candidate, Election, HolderId, Scope, Timing,
    fence::{self, SqliteFence},
    lock::sqlite_lease::SqliteLease,
    schema,
};
use tenure_database::{migrate, sqlite};

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS beats (epoch INTEGER NOT NULL, holder TEXT NOT NULL)";
const BEAT: &str = "INSERT INTO beats (epoch, holder) VALUES (?1, ?2)";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "singleton.db".to_owned());
    let path = Path::new(&path);
    let mut data = sqlite::open(path, Duration::from_secs(1))?;
    migrate::sqlite::migrate(&mut data, schema::COMPONENT, &schema::SQLITE)?;
    data.execute_batch(TABLE)?;

    let timing = Timing::lease(Duration::from_secs(3)).build()?;
    let candidate = Candidate::new(Scope::new("singleton")?, HolderId::fresh());
    println!("{} contends", candidate.holder);
    let lock = SqliteLease::new(path, candidate.clone(), timing)?;
    let mut election = Election::builder(candidate, timing, lock)
        .fence(SqliteFence::new(path, timing)?)
        .start()?;
    let gate = election.gate();

    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            ended = election.ended() => return Ok(ended?),
            _ = tokio::signal::ctrl_c() => break,
        }
        let Ok(token) = gate.require_leader() else { continue };
        let term = token.term();
        // Whatever takes time comes here; then, right before the act, the gate is asked again.
        if gate.ensure_epoch(token.epoch).is_err() {
            continue;
        }
        match fence::sqlite::begin(&mut data, path, &term) {
            Ok(write) => {
                write.execute(BEAT, (term.epoch().get(), term.holder().as_str()))?;
                write.commit()?;
                println!("{} acts in term {}", term.holder(), term.epoch());
            }
            Err(refused) if refused.is_refusal() => election.report(&refused),
            Err(unknown) => eprintln!("not known whether it was written: {unknown}"),
        }
    }
    println!("handing over");
    Ok(election.stop().await?)
}
