//! The lease file: where it is, and how it is opened.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension};
use tenure_database::{
    DatabaseError,
    migrate::{self, MigrateError, Migration},
    sqlite,
};

use super::machine::Machine;
use crate::{
    lock::LockError,
    term::{Epoch, Scope},
};

const MIGRATIONS: [Migration; 2] = [
    Migration {
        version: 1,
        name: "leases",
        sql: include_str!("../../../sql/sqlite/lease/schema.sql"),
        breaking: true,
    },
    Migration {
        version: 2,
        name: "which file granted a term, and by which clock",
        sql: include_str!("../../../sql/sqlite/lease/schema_files.sql"),
        breaking: false,
    },
];

/// The file of the leases that belong to a data file: `tenure.db-lease` beside `tenure.db`.
#[derive(Clone, Debug)]
pub struct LeaseFile {
    path: PathBuf,
}

impl LeaseFile {
    /// The lease file of a data file: beside the file itself, and not beside a link to it.
    #[must_use]
    pub fn beside(data: &Path) -> Self {
        let mut path = followed(data).into_os_string();
        path.push("-lease");
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it, and creates it when it is not there.
    pub fn open(&self, busy: Duration) -> Result<Connection, LockError> {
        let mut connection = sqlite::open(&self.path, busy)?;
        match migrate::sqlite::migrate(&mut connection, "lease file", &MIGRATIONS) {
            Ok(_) => Ok(connection),
            Err(MigrateError::Database(error)) => Err(error.into()),
            Err(refused) => Err(LockError::Refused(refused.to_string())),
        }
    }

    /// Opens it, and says which file it was: one that is put in its place later is another.
    pub(super) fn open_known(&self, busy: Duration) -> Result<(Connection, FileId), LockError> {
        loop {
            let before = FileId::at(&self.path);
            let connection = self.open(busy)?;
            // It may have been replaced while it was being opened. A look through a file of our own would cost
            // this process its locks on it.
            if let Some(id) = FileId::at(&self.path)
                && before.is_none_or(|before| before == id)
            {
                return Ok((connection, id));
            }
        }
    }

    /// The lease of a scope as it is now, when there is one.
    pub fn lease_of(&self, scope: &Scope, busy: Duration) -> Result<Option<Lease>, LockError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let boot_id = Machine::this()?.boot_id;
        let lease = sqlite::open(&self.path, busy)?
            .query_row(super::OBSERVE, (scope.as_str(), boot_id, ""), |row| {
                Ok(Lease {
                    holder: row.get("holder_id")?,
                    epoch: Epoch::new(row.get("lease_epoch")?),
                    left: Duration::from_millis(row.get::<_, i64>("left_ms")?.unsigned_abs()),
                })
            })
            .optional()
            .map_err(DatabaseError::from)?;
        Ok(lease)
    }
}

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Where a path leads; the file need not be there yet.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Refuses a data file that goes by several names: each would have a lease file of its own.
pub(super) fn refuse_other_names(data: &Path) -> Result<(), LockError> {
    let data = followed(data);
    let shown = data.display();
    let unseen = |error| LockError::Refused(format!("cannot look at {shown}: {error}"));
    let names = match fs::metadata(&data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        known => known.map_err(unseen)?.nlink(),
    };
    if names > 1 {
        return Err(LockError::Refused(format!(
            "{shown} has {names} names (hard links), and each would have a lease file of its own: leave it one"
        )));
    }
    if is_mounted(&data).map_err(unseen)? {
        return Err(LockError::Refused(format!(
            "{shown} is mounted by itself, and has another lease file where it comes from: mount its folder instead"
        )));
    }
    Ok(())
}

/// Before Linux 5.8 nobody can tell.
#[cfg(target_os = "linux")]
fn is_mounted(path: &Path) -> io::Result<bool> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    let known = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
    Ok(known.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mounted(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Which file stands at a path. While somebody has it open, no other gets its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// `None` when there is none, or when it cannot be told.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let known = fs::metadata(path).ok()?;
        Some(Self { device: known.dev(), inode: known.ino() })
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

/// A lease as anybody may read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it, or held it last.
    pub holder: String,
    /// The number of the term.
    pub epoch: Epoch,
    /// How long it still runs, by this machine's boot clock.
    pub left: Duration,
}
