//! The file that tells a child its term and until when it may act.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
};

use serde::Serialize;
use tempfile::TempDir;
use tenure::Term;
use tenure_database::BootInstant;

const NAME: &str = "token.json";
const NEXT: &str = "token.json.next";

/// A folder that nobody else can read, with one file in it; gone with this value.
#[derive(Debug)]
pub(crate) struct TokenFile {
    folder: TempDir,
}

#[derive(Serialize)]
struct Token<'t> {
    scope: &'t str,
    node_id: &'t str,
    epoch: i64,
    deadline_boottime_ms: u64,
}

impl TokenFile {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { folder: tempfile::Builder::new().prefix("tenure-run-").tempdir()? })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    /// Replaces what the file says at once: a reader finds the old or the new, and never a part.
    pub(crate) fn write(&self, term: &Term, until: BootInstant) -> io::Result<()> {
        let token = Token {
            scope: term.scope().as_str(),
            node_id: term.holder().as_str(),
            epoch: term.epoch().get(),
            deadline_boottime_ms: until.as_millis(),
        };
        let next = self.folder.path().join(NEXT);
        let mut file = match File::create(&next) {
            // Somebody has cleaned up what nobody had used for days.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().mode(0o700).create(self.folder.path())?;
                File::create(&next)?
            }
            created => created?,
        };
        serde_json::to_writer(&file, &token)?;
        file.write_all(b"\n")?;
        fs::rename(&next, self.path())
    }

    /// There is no term.
    pub(crate) fn remove(&self) {
        // It may never have been written.
        let _ = fs::remove_file(self.path());
    }
}
