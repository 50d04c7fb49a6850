//! A child that fights for its life: it forks, exits, leaves its session, and turns on its keeper.
//!
//! It is written in C because it has to be quicker than whoever hunts it.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};
use tenure_database::BootInstant;

/// How long it fights at the most, so that a lost fight ends too.
const SECONDS: &str = "20";
/// How long it does not rest at the most: it leaves some ten thousand processes to be buried in a second.
const HASTE: Duration = Duration::from_secs(1);
/// Where the record says until when.
const HASTE_AT: u64 = 16;

/// The program, and the file in which its processes write down that they act.
#[derive(Debug)]
pub struct Fighter {
    program: PathBuf,
    record: PathBuf,
}

/// What its processes have written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acts {
    /// How often one of them acted.
    pub count: u64,
    /// When the last did.
    pub last: BootInstant,
}

/// Tells it to fight.
#[derive(Debug)]
pub struct Whip(File);

impl Whip {
    /// From now on it does not rest.
    pub fn hurry(&self) -> Result<()> {
        let until = (BootInstant::now() + HASTE).as_nanos();
        Ok(self.0.write_all_at(&until.to_ne_bytes(), HASTE_AT)?)
    }
}

impl Fighter {
    /// Builds it in a folder, with the linker that built this test.
    pub fn build(folder: &Path) -> Result<Self> {
        let (source, program) = (folder.join("fighter.c"), folder.join("fighter"));
        fs::write(&source, include_str!("fighter.c"))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-o"]).arg(&program).arg(&source);
        ensure!(compiler.status()?.success(), "the fighter does not compile");
        Ok(Self { program, record: folder.join("acts") })
    }

    /// How it is started: its name and these feats, which are described with the program.
    #[must_use]
    pub fn arguments(&self, feats: &str) -> Vec<String> {
        let fixed = [self.program.display().to_string(), self.record.display().to_string()];
        let fixed = fixed.into_iter().chain([SECONDS.to_owned()]);
        fixed.chain(feats.split_whitespace().map(str::to_owned)).collect()
    }

    /// From now on it fights, and does not rest.
    pub fn hurry(&self) -> Result<()> {
        self.about_to_hurry()?.hurry()
    }

    /// For whoever will have no descriptor left by then.
    pub fn about_to_hurry(&self) -> Result<Whip> {
        Ok(Whip(File::options().write(true).open(&self.record)?))
    }

    /// What it has done so far; `None` before its first act.
    #[must_use]
    pub fn acts(&self) -> Option<Acts> {
        let record = fs::read(&self.record).ok()?;
        let (count, last) = record.split_first_chunk::<8>()?;
        let count = u64::from_ne_bytes(*count);
        let last = BootInstant::from_nanos(u64::from_ne_bytes(*last.first_chunk()?));
        (count > 0).then_some(Acts { count, last })
    }
}
