//! Copies of `tenure run`, and what their children recorded.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_run::family;
use tenure_testkit::{eventually, secs};

/// A child that records its epoch and the time since boot, again and again.
pub const BEATS: &str = "while :; do echo \"$TENURE_EPOCH $(cut -d' ' -f1 /proc/uptime)\" >> beats-$NAME; sleep 0.02; done";

const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

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
        self.copy_in(name, options, script, &[])
    }

    /// Starts a copy with something more in its environment.
    pub fn copy_in(
        &self,
        name: &str,
        options: &str,
        script: &str,
        environment: &[(&str, &str)],
    ) -> Copy {
        let log = self.log(name);
        let mut command = self.command(name, options, script);
        command.envs(environment.iter().copied()).stdout(Stdio::null()).stderr(log);
        self.spawn(name, command)
    }

    /// Starts a copy that logs a lot, and whose output nobody reads.
    pub fn copy_with_full_pipes(&self, name: &str, options: &str, script: &str) -> Copy {
        let mut command = self.command(name, options, script);
        command.env("TENURE_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn(name, command)
    }

    /// Starts a copy from a shell that does this first.
    pub fn copy_after(&self, first: &str, name: &str, options: &str, script: &str) -> Copy {
        let exec = format!("{first}; exec \"$@\"");
        // Not every shell ignores the ends of its children when it is told to.
        let mut shell = Command::new("bash");
        shell.args(["-c", &exec, "bash", TENURE]).stdout(Stdio::null()).stderr(self.log(name));
        self.spawn(name, self.told(shell, name, options, script))
    }

    fn log(&self, name: &str) -> fs::File {
        fs::File::create(self.path(&format!("log-{name}"))).unwrap()
    }

    fn command(&self, name: &str, options: &str, script: &str) -> Command {
        self.told(Command::new(TENURE), name, options, script)
    }

    fn told(&self, mut command: Command, name: &str, options: &str, script: &str) -> Command {
        command
            .args(["run", "--db", &self.db])
            .args(options.split_whitespace())
            .args(if options.contains("--scope") { &[][..] } else { &["--scope", "jobs"] })
            .args(["--", "sh", "-c", script])
            .current_dir(&self.folder)
            .env("NAME", name)
            // A supervisor that is killed leaves its token's folder behind.
            .env("TMPDIR", self.folder.path())
            .env("TENURE_LOG", "tenure=info")
            .stdin(Stdio::null());
        command
    }

    fn spawn(&self, name: &str, mut command: Command) -> Copy {
        let process = command.spawn().unwrap();
        Copy { process, name: name.to_owned(), folder: self.folder.path().to_owned() }
    }
}

impl Copy {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Whether it has begun: its keeper is the first that it starts.
    pub fn has_children(&self) -> bool {
        !family_of(self.pid()).is_empty()
    }

    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn beats(&self) -> Vec<Beat> {
        beats(&self.folder.join(format!("beats-{}", self.name)))
    }

    /// Waits until its child has recorded a few beats in a term after this one, and returns the first: whoever
    /// acts beside it has had the time to record that too.
    pub async fn acts_after(&self, epoch: i64) -> Beat {
        eventually(&format!("{} acts after term {epoch}", self.name), secs(30), async || {
            let mut beats = self.beats().into_iter().filter(|beat| beat.epoch > epoch);
            let first = beats.next()?;
            (beats.count() >= 5).then_some(first)
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
    /// From below, whoever is frozen. A stopped supervisor starts nobody anew, and inherits whom a killed
    /// keeper has just started: it goes last.
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal(Signal::STOP);
            let below = || family::descendants(self.pid(), &HashSet::new()).unwrap();
            while family::signal(&below(), &[Signal::KILL]).count > 0 {
                std::thread::yield_now();
            }
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// The children of a process, one generation.
pub fn family_of(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Somebody who may have ended already.
pub fn kill(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
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
