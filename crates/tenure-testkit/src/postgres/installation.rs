//! The Postgres that is installed, and a cluster made by it once and copied ever after.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::server::{Folder, find_program, run};

const VERSIONS: &str = "/usr/lib/postgresql";
/// Where `./test` puts a version that the system does not have.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools");

/// The folder of Postgres's programs.
#[derive(Clone)]
pub(crate) struct Installation {
    programs: PathBuf,
}

impl Installation {
    /// The newest version of a Debian system, or else what the `PATH` leads to.
    pub fn find() -> Result<Self> {
        if let Some(programs) = newest(Path::new(VERSIONS)) {
            return Ok(Self { programs });
        }
        let postgres = find_program("postgres")?;
        let programs = postgres.parent().context("postgres lies in no folder")?.to_owned();
        Ok(Self { programs })
    }

    /// This version, of the system or out of the tools.
    pub fn of_version(version: u32) -> Result<Self> {
        let programs = Path::new(VERSIONS).join(version.to_string()).join("bin");
        if programs.join("postgres").is_file() {
            return Ok(Self { programs });
        }
        let tool = Path::new(TOOLS).join(format!("postgres-{version}"));
        ensure!(
            tool.join("bin/postgres").is_file(),
            "Postgres {version} is not installed (./test installs it)"
        );
        Ok(Self { programs: readable_by_all(&tool)?.join("bin") })
    }

    /// The folder.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Puts a fresh cluster into `folder`, under `name`.
    pub async fn copy_cluster(&self, folder: &Folder, name: &str) -> Result<()> {
        let template = self.template(folder).await?;
        let mut copy = folder.command(Path::new("cp"));
        copy.args(["-a", "--reflink=auto"]).arg(template).arg(folder.entry(name));
        run(copy).await.map(drop)
    }

    /// The cached cluster of this version, made on first use.
    ///
    /// Test processes may race to make it: each makes its own, and the first to rename it wins.
    async fn template(&self, reader: &Folder) -> Result<PathBuf> {
        let template = std::env::temp_dir().join(self.template_name(reader).await?);
        if template.exists() {
            return Ok(template);
        }
        let folder = Folder::new("initdb")?;
        let mut initdb = folder.command(&self.program("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        // Small log segments: most of an empty cluster would be zeroes to copy.
        initdb.args(["--wal-segsize=1", "--no-sync", "--pgdata", &folder.entry("data")]);
        run(initdb).await?;
        let renamed = fs::rename(folder.path().join("data"), &template);
        renamed.or_else(|error| if template.exists() { Ok(()) } else { Err(error) })?;
        Ok(template)
    }

    /// Names the version, and the owner, whose files no other account can read.
    async fn template_name(&self, folder: &Folder) -> Result<String> {
        let mut postgres = folder.command(&self.program("postgres"));
        postgres.arg("--version");
        let version = run(postgres).await?;
        let version =
            version.split_whitespace().nth(2).context("postgres --version names no version")?;
        Ok(format!("tenure-cluster-{version}-{}", folder.owner()))
    }
}

/// A copy in the system's temporary folder, made on first use: the account that servers run as may have no way
/// to the tools.
fn readable_by_all(tool: &Path) -> Result<PathBuf> {
    let name = tool.file_name().context("a tool has a name")?.to_string_lossy().into_owned();
    let copy = std::env::temp_dir().join(format!("tenure-{name}"));
    if !copy.exists() {
        let fresh = tempfile::Builder::new().prefix("tenure-tool-").tempdir()?;
        let into = fresh.path().join(&name);
        let copied = Command::new("cp").arg("-a").arg(tool).arg(&into).status()?;
        ensure!(copied.success(), "cannot copy {}", tool.display());
        let renamed = fs::rename(&into, &copy);
        renamed.or_else(|error| if copy.exists() { Ok(()) } else { Err(error) })?;
    }
    Ok(copy)
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(versions).ok()?.flatten();
    let numbered = folders.filter_map(|folder| {
        let version: u32 = folder.file_name().to_str()?.parse().ok()?;
        let programs = folder.path().join("bin");
        programs.join("postgres").is_file().then_some((version, programs))
    });
    numbered.max().map(|(_, programs)| programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_with_a_server_is_taken() {
        let versions = tempfile::tempdir().unwrap();
        for version in ["9", "15", "17", "common"] {
            fs::create_dir_all(versions.path().join(version).join("bin")).unwrap();
        }
        for version in ["9", "15"] {
            fs::write(versions.path().join(version).join("bin/postgres"), "").unwrap();
        }
        assert_eq!(newest(versions.path()), Some(versions.path().join("15/bin")));
    }
}
