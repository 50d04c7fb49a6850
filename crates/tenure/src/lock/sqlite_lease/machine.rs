//! Which machine this is, and which boot of it.

use std::fs;

use crate::lock::LockError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// Another boot means that every process of the last one is dead.
    pub(super) boot_id: String,
    /// Another host has another boot clock, and no say over this one's processes.
    pub(super) host: String,
    /// Another time namespace has another boot clock too; empty where there are none.
    pub(super) clock: String,
}

impl Machine {
    pub(super) fn this() -> Result<Self, LockError> {
        let host = read("/etc/machine-id").unwrap_or_else(hostname);
        let boot_id = read("/proc/sys/kernel/random/boot_id").or_else(boot_id_elsewhere);
        let boot_id = boot_id.ok_or_else(|| {
            LockError::Refused("this machine has no boot id, which a SQLite lease needs".to_owned())
        })?;
        // Older kernels have one time for all.
        let clock = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(Self { boot_id, host, clock: clock.display().to_string() })
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Where there is no boot id, the moment of boot stands for it: the kernel sets it once.
#[cfg(target_os = "macos")]
fn boot_id_elsewhere() -> Option<String> {
    let told = std::process::Command::new("sysctl").args(["-n", "kern.bootsessionuuid"]).output();
    told.ok().map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned())
}

#[cfg(not(target_os = "macos"))]
fn boot_id_elsewhere() -> Option<String> {
    None
}
