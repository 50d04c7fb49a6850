//! The processes that act in a term, written down so that a successor on the same host can see whether they
//! are gone.
//!
//! A process number is used again, so it is told together with when the process started; and both mean
//! something only to a reader in the same boot, the same process namespace and the same time namespace.
//! Whoever cannot tell says that they are not gone.

use std::{
    collections::BTreeMap,
    fmt, fs, io, process,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use tenure_database::BootInstant;

use crate::process::Stat;

/// How long a successor waits for processes that are about to end: whoever has closed the lock's connection
/// last needs a moment to leave.
const LEAVING: Duration = Duration::from_millis(50);
const AGAIN: Duration = Duration::from_millis(1);

/// This process and those that act with it, as a list that is kept up to date and shared.
#[derive(Clone, Debug)]
pub struct Processes {
    place: Place,
    started: Arc<Mutex<BTreeMap<i32, u64>>>,
}

/// Where process numbers and their start times mean the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place(String);

impl Processes {
    /// This process alone.
    pub fn this() -> io::Result<Self> {
        let processes = Self { place: Place::here()?, started: Arc::default() };
        processes.add(i32::try_from(process::id()).map_err(io::Error::other)?)?;
        Ok(processes)
    }

    /// One more acts from now on.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        let stat = Stat::of(pid)?.ok_or_else(|| io::Error::other("no such process"))?;
        self.all().insert(pid, stat.started);
        Ok(())
    }

    /// It is gone.
    pub fn remove(&self, pid: i32) {
        self.all().remove(&pid);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, u64>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of these are gone, and certainly so; those that are about to go are waited for.
    pub(crate) async fn are_gone(&self, written: &str) -> bool {
        let Some(written) = Written::read(written) else { return false };
        if written.place != self.place {
            return false;
        }
        let patience = BootInstant::now() + LEAVING;
        while !written.started.iter().all(|(pid, started)| is_gone(*pid, *started)) {
            if BootInstant::now() >= patience {
                return false;
            }
            tokio::time::sleep(AGAIN).await;
        }
        true
    }
}

/// What a term's row says: the place, then each process as `number@start`.
impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place.0)?;
        self.all().iter().try_for_each(|(pid, started)| write!(f, " {pid}@{started}"))
    }
}

struct Written {
    place: Place,
    started: Vec<(i32, u64)>,
}

impl Written {
    /// `None` for what does not name a single process.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let place = Place(words.next()?.to_owned());
        let started = words.map(|word| {
            let (pid, started) = word.split_once('@')?;
            Some((pid.parse().ok()?, started.parse().ok()?))
        });
        let started: Vec<_> = started.collect::<Option<_>>()?;
        (!started.is_empty()).then_some(Self { place, started })
    }
}

impl Place {
    fn here() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let pids = fs::read_link("/proc/self/ns/pid")?;
        // Older kernels have one time for all.
        let time = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(Self(format!("{}/{}/{}", boot.trim(), pids.display(), time.display())))
    }
}

/// A process that cannot be read, but can be told of, may be somebody else's: it is there.
fn is_gone(pid: i32, started: u64) -> bool {
    match Stat::of(pid) {
        Ok(Some(stat)) => stat.started != started || stat.has_ended,
        Ok(None) => {
            Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Sleeps until it is killed, at the latest with this value.
    struct Sleeper(process::Child);

    impl Sleeper {
        fn start() -> Self {
            Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[tokio::test]
    async fn processes_are_gone_when_the_last_has_ended() {
        let (here, mut child) = (Processes::this().unwrap(), Sleeper::start());
        let pid = i32::try_from(child.0.id()).unwrap();
        let acting = Processes { started: Arc::default(), ..here.clone() };
        acting.add(pid).unwrap();
        let written = acting.to_string();
        assert!(!here.are_gone(&written).await, "it lives");
        child.0.kill().unwrap();
        assert!(here.are_gone(&written).await, "a zombie acts no more");
        child.0.wait().unwrap();
        assert!(here.are_gone(&written).await);
        acting.remove(pid);
        assert!(!here.are_gone(&acting.to_string()).await, "who names nobody proves nothing");
    }

    #[tokio::test]
    async fn another_process_with_the_same_number_is_another_process() {
        let here = Processes::this().unwrap();
        let (pid, started) = here.all().pop_first().unwrap();
        let place = &here.place.0;
        assert!(here.are_gone(&format!("{place} {pid}@{}", started + 1)).await);
        assert!(!here.are_gone(&format!("{place} {pid}@{started}")).await);
    }

    #[tokio::test]
    async fn what_happens_elsewhere_is_not_known() {
        let here = Processes::this().unwrap();
        let (pid, started) = here.all().pop_first().unwrap();
        let place = &here.place.0;
        for written in [
            format!("x{place} {pid}@{}", started + 1),
            format!("{place}x {pid}@{}", started + 1),
            format!("{place} {pid}"),
            place.clone(),
            String::new(),
        ] {
            assert!(!here.are_gone(&written).await, "{written}");
        }
    }
}
