//! Where a server keeps its files.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use rustix::fs::statvfs;
use tempfile::TempDir;

use super::account::Account;

const ROOM: u64 = 2 << 30;

/// A temporary folder that belongs to the account the servers run as.
pub(crate) struct Folder {
    folder: TempDir,
    account: Account,
}

impl Folder {
    /// Makes `tenure-<what>-…` in the system's temporary folder.
    pub fn new(what: &str) -> Result<Self> {
        Self::under(&env::temp_dir(), what)
    }

    /// Makes `tenure-<what>-…` in memory if there is room, and else as [`Folder::new`] does.
    ///
    /// For the thousand files of a cluster, which take some disks most of a second to create.
    /// Nothing can be synced there, and some systems let no library be loaded from there.
    pub fn in_memory(what: &str) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        if has_room(memory) { Self::under(memory, what) } else { Self::new(what) }
    }

    fn under(parent: &Path, what: &str) -> Result<Self> {
        let account = Account::unprivileged()?;
        let name = format!("tenure-{what}-");
        let folder = tempfile::Builder::new().prefix(&name).tempdir_in(parent)?;
        account.own(folder.path())?;
        Ok(Self { folder, account })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The id of the user it belongs to.
    pub fn owner(&self) -> u32 {
        self.account.user()
    }

    /// The path of an entry, as text for an argument or a configuration file.
    pub fn entry(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    /// Replaces a file in one step, so that a server never reads half of it.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.path().join(name);
        let fresh = path.with_extension("fresh");
        fs::write(&fresh, content).with_context(|| fresh.display().to_string())?;
        self.account.own(&fresh)?;
        fs::rename(&fresh, &path).with_context(|| path.display().to_string())
    }

    /// A command that runs in this folder, as its owner, and inherits nothing but the `PATH`.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env_clear();
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        self.account.run(&mut command);
        command
    }
}

fn has_room(parent: &Path) -> bool {
    statvfs(parent).is_ok_and(|system| system.f_bavail * system.f_frsize >= ROOM)
}
