//! The SQL side: one file per thing, in the order in which they need each other. Every file may be run again.

use tenure_database::migrate::postgres::LOCK;
use tokio_postgres::{Client, Error};

/// A stuck transaction of somebody else must not make everybody else wait behind an installation.
const PATIENCE: &str = "SET LOCAL lock_timeout = '10s'";
/// What is there already is not worth a word.
const QUIET: &str = "SET LOCAL client_min_messages = 'warning'";

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../sql/postgres/install/", $name, ".sql")))),*]
    };
}

/// The files, by name.
pub const FILES: [(&str, &str); 32] = files![
    "roles",
    "anew",
    "attempt_state",
    "uuidv7",
    "uuid_v7_or_random",
    "uuid_strategy",
    "sequences",
    "pending",
    "attempts",
    "append_only",
    "ordered",
    "retry_ceiling",
    "announce",
    "find",
    "differs",
    "first_in_order",
    "first_of_ordered",
    "append_lost",
    "look_for_claimable",
    "lock_leases",
    "bump",
    "enqueue",
    "enqueue_batch",
    "claim",
    "repair",
    "complete_batch",
    "complete",
    "extend",
    "release",
    "status",
    "owners",
    "grants",
];

/// The names of the functions that the files make.
pub fn functions() -> impl Iterator<Item = &'static str> {
    let made =
        FILES.iter().flat_map(|(_, sql)| sql.split("CREATE OR REPLACE FUNCTION public.").skip(1));
    made.filter_map(|rest| rest.split('(').next())
}

/// All of it as one script, to be read or to be run by hand.
#[must_use]
pub fn script() -> String {
    let names: Vec<_> = functions().map(|name| format!("'{name}'")).collect();
    let names = format!("ARRAY[{}]", names.join(", "));
    let files = FILES.map(|(_, sql)| sql).join("\n").replace("{functions}", &names);
    format!("BEGIN;\n{PATIENCE};\n{QUIET};\n{};\n{files}\nCOMMIT;\n", LOCK.trim_end())
}

/// Installs what is missing and replaces what has changed, in one transaction; one process at a time.
pub async fn install(client: &Client) -> Result<(), Error> {
    client.batch_execute(&script()).await
}
