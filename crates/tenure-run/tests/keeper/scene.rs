//! Keepers and their children, and how to see whether somebody is left.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;
use tenure_run::{End, Kept, Nursery, Program};
use tenure_testkit::{eventually, secs};

pub const GRACE: Duration = Duration::from_millis(300);

pub struct Scene {
    pub folder: TempDir,
    pub nursery: Nursery,
}

impl Scene {
    pub fn new() -> Self {
        let keeper = vec![env!("CARGO_BIN_EXE_tenure-keeper").into()];
        Self { folder: TempDir::new().unwrap(), nursery: Nursery::new(keeper).unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn program(&self, script: &str) -> Program {
        Program {
            arguments: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment: BTreeMap::from([("TENURE_EPOCH".to_owned(), Some("7".to_owned()))]),
            shown_as: None,
            has_own_group: true,
            folder: Some(self.folder.path().to_owned()),
            token_file: None,
            has_grace_alone: true,
            until: None,
            grace: GRACE,
        }
    }

    pub async fn runs(&self, program: &Program) -> Kept {
        let input = File::open("/dev/null").unwrap();
        self.nursery.keeper().unwrap().run(program, input.as_fd(), None).await.unwrap()
    }

    /// Runs a script; its processes write their numbers into files with these names.
    pub async fn runs_with(&self, script: &str, names: &[&str]) -> (Kept, Vec<Pid>) {
        let kept = self.runs(&self.program(script)).await;
        let mut pids = Vec::new();
        for name in names {
            pids.push(pid_in(&self.path(name)).await);
        }
        (kept, pids)
    }
}

pub async fn pid_in(path: &Path) -> Pid {
    eventually("a process writes its number", secs(10), async || {
        Pid::from_raw(fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()?)
    })
    .await
}

pub async fn exit_of(kept: &mut Kept) -> End {
    tokio::select! {
        exit = kept.exited() => exit,
        () = tokio::time::sleep(secs(20)) => panic!("the child does not end"),
    }
}

/// Not even a zombie is left, wherever it was moved to.
pub fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
}

pub fn assert_gone(pids: &[Pid]) {
    for pid in pids {
        assert!(
            is_gone(*pid),
            "{pid:?} is there: {:?}",
            tenure::process::Stat::of(pid.as_raw_pid())
        );
    }
}
