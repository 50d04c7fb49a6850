//! The statements, and those of the leader prepared.

use std::sync::LazyLock;

use tenure_database::postgres::Pooled;
use tokio_postgres::Statement;

macro_rules! read {
    ($name:literal) => {
        include_str!(concat!("../../../sql/postgres/read/", $name, ".sql"))
    };
}

macro_rules! write {
    ($name:literal) => {
        include_str!(concat!("../../../sql/postgres/write/", $name, ".sql"))
    };
}

const TELL: &str = include_str!("../../../sql/postgres/fragment/tell.sql");
const COLUMNS: &str = include_str!("../../../sql/postgres/fragment/job.sql");

pub(super) const CONTENTS: &str = read!("contents");
pub(super) const QUEUED: &str = read!("queued");
pub(super) const INHERITED: &str = read!("inherited");
pub(super) const OPEN: &str = read!("open");
pub(super) const RUN_OUT: &str = read!("run_out");
pub(super) const AGENTS: &str = read!("agents");
pub(super) const LEADER: &str = read!("leader");
pub(super) const STAND: &str = read!("stand");
pub(super) const EVENTS: &str = read!("events");
pub(super) static JOB: LazyLock<String> = LazyLock::new(|| read!("job").replace("{job}", COLUMNS));
pub(super) static JOBS: LazyLock<String> =
    LazyLock::new(|| read!("jobs").replace("{job}", COLUMNS));

static ANNOUNCE: LazyLock<String> = LazyLock::new(|| telling(write!("announce")));
static SUBMIT: LazyLock<String> = LazyLock::new(|| telling(write!("submit")));
static GRANT: LazyLock<String> = LazyLock::new(|| telling(write!("grant")));
static RECORD: LazyLock<String> = LazyLock::new(|| telling(write!("record")));
static AGE: LazyLock<String> = LazyLock::new(|| telling(write!("age")));
static BURY: LazyLock<String> = LazyLock::new(|| telling(write!("bury")));
static WAKE: LazyLock<String> = LazyLock::new(|| telling(write!("wake")));
static RECALL_OVERDUE: LazyLock<String> = LazyLock::new(|| recall(write!("take_back/overdue")));
static RECALL_EXPIRED: LazyLock<String> = LazyLock::new(|| recall(write!("take_back/expired")));
static RECALL_JOBS: LazyLock<String> = LazyLock::new(|| recall(write!("take_back/jobs")));
static RECALL_LEASES: LazyLock<String> = LazyLock::new(|| recall(write!("take_back/leases")));
static RECALL_AGENTS: LazyLock<String> = LazyLock::new(|| recall(write!("take_back/agents")));

fn telling(statement: &str) -> String {
    statement.replace("{tell}", TELL)
}

fn recall(which: &str) -> String {
    telling(write!("take_back")).replace("{which}", which)
}

/// What a leader writes, on one session.
pub(super) struct Prepared {
    pub begin: Statement,
    pub take_over: Statement,
    pub announce: Statement,
    pub hear: Statement,
    pub record: Statement,
    pub recall_jobs: Statement,
    pub recall_leases: Statement,
    pub recall_agents: Statement,
    pub recall_expired: Statement,
    pub recall_overdue: Statement,
    pub stand_of: Statement,
    pub wake: Statement,
    pub bury: Statement,
    pub age: Statement,
    pub prune: Statement,
    pub submit: Statement,
    pub grant: Statement,
}

impl Prepared {
    /// Once per session; after that it asks nobody.
    pub(super) async fn on(session: &mut Pooled) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            begin: session.prepared(write!("begin")).await?,
            take_over: session.prepared(write!("take_over")).await?,
            announce: session.prepared(&ANNOUNCE).await?,
            hear: session.prepared(write!("hear")).await?,
            record: session.prepared(&RECORD).await?,
            recall_jobs: session.prepared(&RECALL_JOBS).await?,
            recall_leases: session.prepared(&RECALL_LEASES).await?,
            recall_agents: session.prepared(&RECALL_AGENTS).await?,
            recall_expired: session.prepared(&RECALL_EXPIRED).await?,
            recall_overdue: session.prepared(&RECALL_OVERDUE).await?,
            stand_of: session.prepared(write!("stand_of")).await?,
            wake: session.prepared(&WAKE).await?,
            bury: session.prepared(&BURY).await?,
            age: session.prepared(&AGE).await?,
            prune: session.prepared(write!("prune")).await?,
            submit: session.prepared(&SUBMIT).await?,
            grant: session.prepared(&GRANT).await?,
        })
    }
}
