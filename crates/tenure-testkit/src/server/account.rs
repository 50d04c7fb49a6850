//! The account servers run as. Postgres and pgbouncer refuse to run as root, where containers and
//! CI machines like to run tests.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use rustix::process::geteuid;

/// Ourselves, or an unprivileged account when we are root.
pub(crate) struct Account(Option<Ids>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ids {
    user: u32,
    group: u32,
}

impl Account {
    pub fn unprivileged() -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self(None));
        }
        let accounts = fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
        let ids = ["postgres", "nobody"].iter().find_map(|name| ids_of(name, &accounts));
        Ok(Self(Some(ids.context("/etc/passwd names neither postgres nor nobody")?)))
    }

    pub fn user(&self) -> u32 {
        self.0.map_or_else(|| geteuid().as_raw(), |ids| ids.user)
    }

    /// Makes `command` run as this account.
    pub fn run(&self, command: &mut Command) {
        if let Some(ids) = self.0 {
            command.uid(ids.user).gid(ids.group);
        }
    }

    /// Gives a file or a folder to this account.
    pub fn own(&self, path: &Path) -> Result<()> {
        match self.0 {
            Some(ids) => chown(path, Some(ids.user), Some(ids.group))
                .with_context(|| format!("cannot give {} away", path.display())),
            None => Ok(()),
        }
    }
}

fn ids_of(name: &str, accounts: &str) -> Option<Ids> {
    let account = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut ids = account.split(':').skip(2).map(|id| id.parse().ok());
    Some(Ids { user: ids.next()??, group: ids.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/bash\n\
                            postgres-exporter:x:7:7::/:/bin/false\n\
                            postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        assert_eq!(ids_of("postgres", ACCOUNTS), Some(Ids { user: 101, group: 104 }));
        assert_eq!(ids_of("nobody", ACCOUNTS), None);
    }
}
