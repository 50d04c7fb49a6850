//! Copies of `tenure run`, and what their children recorded.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_testkit::{eventually, secs};

/// A child that records its epoch and the time since boot, again and again.
pub const BEATS: &str = "while :; do echo \"$TENURE_EPOCH $(cut -d' ' -f1 /proc/uptime)\" >> beats-$NAME; sleep 0.02; done";

pub struct Scene {
    pub folder: TempDir,
    pub db: String,
}

/// One record of a child: which term, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    pub epoch: i64,
    pub at: f64,
}

/// A running copy; killed with this value, and its children with it.
pub struct Copy {
    pub process: Child,
    pub name: String,
    folder: PathBuf,
}

impl Scene {
    pub fn on_sqlite() -> Self {
        Self { folder: TempDir::new().unwrap(), db: "sqlite:tenure.db".to_owned() }
    }

    pub fn on(db: &str) -> Self {
        Self { folder: TempDir::new().unwrap(), db: db.to_owned() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a copy whose children run this script; the options are separated by spaces.
    pub fn copy(&self, name: &str, options: &str, script: &str) -> Copy {
        let log = fs::File::create(self.path(&format!("log-{name}"))).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["run", "--db", &self.db])
            .args(options.split_whitespace())
            .args(if options.contains("--scope") { &[][..] } else { &["--scope", "jobs"] })
            .args(["--", "sh", "-c", script])
            .current_dir(&self.folder)
            .env("NAME", name)
            .env("TENURE_LOG", "tenure=info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Copy { process, name: name.to_owned(), folder: self.folder.path().to_owned() }
    }
}

impl Copy {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Whether it has begun: its keeper is the first that it starts.
    pub fn has_children(&self) -> bool {
        let pid = self.pid().as_raw_pid();
        let children = format!("/proc/{pid}/task/{pid}/children");
        fs::read_to_string(children).is_ok_and(|children| !children.trim().is_empty())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn beats(&self) -> Vec<Beat> {
        beats(&self.folder.join(format!("beats-{}", self.name)))
    }

    /// Waits until its child has recorded something in a term after this one.
    pub async fn acts_after(&self, epoch: i64) -> Beat {
        eventually(&format!("{} acts after term {epoch}", self.name), secs(30), async || {
            self.beats().into_iter().find(|beat| beat.epoch > epoch)
        })
        .await
    }

    /// Waits until the process has ended, and returns its exit code.
    pub async fn code(&mut self) -> Option<i32> {
        let process = std::sync::Mutex::new(&mut self.process);
        eventually("the copy ends", secs(30), async || process.lock().unwrap().try_wait().unwrap())
            .await
            .code()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn beats(path: &Path) -> Vec<Beat> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let read = |line: &str| {
        let (epoch, at) = line.split_once(' ').unwrap();
        Beat { epoch: epoch.parse().unwrap(), at: at.parse().unwrap() }
    };
    whole.lines().map(read).collect()
}

/// The last record of one child comes before the first of the other.
pub fn assert_never_together(earlier: &Copy, later: &Copy) {
    let last = earlier.beats().into_iter().map(|beat| beat.at).fold(0.0, f64::max);
    let first = later.beats().into_iter().map(|beat| beat.at).fold(f64::INFINITY, f64::min);
    assert!(last <= first, "{} acted at {last}, {} from {first} on", earlier.name, later.name);
}
