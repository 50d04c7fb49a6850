//! What happens to a cluster, how often, and how its logs tell of it.

use std::{fmt, fs, path::Path};

use tenure_database::BootInstant;
use tenure_testkit::patroni::{Cluster, Replication};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The primary's machine loses its power.
    Crash,
    /// The same, while the replica lacks the last commits: they are lost.
    CrashWithLag,
    /// The two change places in order.
    Switchover,
}

/// Crashes and switchovers in turn; the whole count with `TENURE_TEST_FULL=1`.
pub fn blows(replication: Replication) -> Vec<Blow> {
    let (crashes, switchovers) = match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => (10, 5),
        None => (1, 1),
    };
    println!(
        "{replication:?}: {crashes} crashes and {switchovers} switchovers (10 and 5 with TENURE_TEST_FULL=1)"
    );
    let lags = |at: usize| replication == Replication::Asynchronous && at.is_multiple_of(2);
    let crash = |at: usize| if lags(at) { Blow::CrashWithLag } else { Blow::Crash };
    let then = |at: usize| (at < switchovers).then_some(Blow::Switchover);
    (0..crashes).flat_map(|at| [Some(crash(at)), then(at)]).flatten().collect()
}

impl Blow {
    /// Strikes, and returns when. `lags` is run while the replica gets nothing, and before the crash.
    pub async fn strike(self, cluster: &Cluster, lags: impl Future<Output = ()>) -> BootInstant {
        cluster.until_healthy().await.unwrap();
        if self == Self::CrashWithLag {
            cluster.hold_replication().await.unwrap();
            lags.await;
        }
        let struck = BootInstant::now();
        if self == Self::Switchover {
            cluster.switchover().await.unwrap();
        } else {
            let crashed = cluster.crash_primary().await.unwrap();
            // Not before the other has taken over: it would go on as the primary that it was.
            cluster.until_primary().await.unwrap();
            cluster.bring_back(crashed).await.unwrap();
        }
        struck
    }
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How many lines of the logs in a folder say this.
pub fn logged(folder: &Path, words: &str) -> usize {
    let logs = fs::read_dir(folder).unwrap().flatten();
    let logs = logs.filter(|entry| entry.file_name().to_string_lossy().starts_with("log-"));
    let text: Vec<_> = logs.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect();
    text.iter().flat_map(|text| text.lines()).filter(|line| line.contains(words)).count()
}
