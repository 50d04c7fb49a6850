//! A wall clock that a test moves, by a library preloaded into the server's processes.
//!
//! Only the wall clock: the monotonic one stays true, as it does when an operator or NTP steps
//! a machine's time. libfaketime will not do: while a backend waits it shows signal handlers the
//! true time, and a server that is a minute ahead then runs its timeouts a minute late.

use std::{fs::File, os::unix::fs::FileExt, path::Path, sync::Mutex, sync::PoisonError};

use anyhow::Result;

use crate::server::{Folder, run};

const OFFSET: &str = "clock-offset";
const LIBRARY: &str = "clock.so";

/// The file of seconds that the library adds to the true time.
pub(super) struct SettableClock {
    offset_secs: Mutex<i64>,
    file: File,
}

impl SettableClock {
    /// Builds the library in the server's folder, with the linker that built this test.
    pub async fn build(folder: &Folder) -> Result<Self> {
        folder.write("clock.c", include_str!("clock.c"))?;
        let mut compiler = folder.command(Path::new("cc"));
        compiler.args(["-O1", "-Wall", "-shared", "-fPIC", "-o", LIBRARY, "clock.c"]);
        run(compiler).await?;
        folder.write(OFFSET, "")?;
        let file = File::options().write(true).open(folder.path().join(OFFSET))?;
        let clock = Self { offset_secs: Mutex::new(0), file };
        clock.step(0)?;
        Ok(clock)
    }

    /// What makes a server in `folder` read this clock.
    pub fn environment(folder: &Folder) -> Vec<(&'static str, String)> {
        vec![("LD_PRELOAD", folder.entry(LIBRARY)), ("TENURE_CLOCK_OFFSET", folder.entry(OFFSET))]
    }

    /// Moves the clock from where it is. The file is written in place, where processes map it.
    pub fn step(&self, by_secs: i64) -> Result<()> {
        let mut offset_secs = self.offset_secs.lock().unwrap_or_else(PoisonError::into_inner);
        *offset_secs += by_secs;
        Ok(self.file.write_all_at(&offset_secs.to_ne_bytes(), 0)?)
    }
}
