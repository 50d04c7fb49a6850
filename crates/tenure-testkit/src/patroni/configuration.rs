//! What a node is told: JSON, which is YAML too.

use serde_json::{Value, json};

use super::Replication;
use crate::server::Folder;

/// The leader's key in etcd, in seconds; a crashed primary is missed after this long.
const TTL: u32 = 5;
/// How often each Patroni looks, in seconds.
const LOOP_WAIT: u32 = 1;
/// How long etcd may be silent, in seconds. A look and two of these must fit into the key's life.
const RETRY_TIMEOUT: u32 = 2;
/// How much a replica may lack and still take over, in bytes: whatever a test holds back.
const MOST_LAG: u32 = 256 << 20;

pub(super) struct Ports {
    pub rest: u16,
    pub postgres: u16,
}

pub(super) fn configuration(
    name: &str,
    ports: &Ports,
    folder: &Folder,
    programs: &str,
    etcd: &str,
    replication: Replication,
) -> Value {
    let rest = format!("127.0.0.1:{}", ports.rest);
    let postgres = format!("127.0.0.1:{}", ports.postgres);
    json!({
        "scope": "tenure",
        "name": name,
        "restapi": {"listen": rest, "connect_address": rest},
        "etcd3": {"host": etcd},
        "bootstrap": {
            "dcs": shared(replication),
            // Small log segments: most of an empty cluster would be zeroes to copy.
            "initdb": ["no-sync", {"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, {"wal-segsize": "1"}],
        },
        "postgresql": {
            "listen": postgres,
            "connect_address": postgres,
            "data_dir": folder.entry("data"),
            "bin_dir": programs,
            "pgpass": folder.entry("pgpass"),
            "authentication": {
                "superuser": {"username": "postgres"},
                "replication": {"username": "replicator"},
            },
            "parameters": {"unix_socket_directories": folder.path()},
            "pg_hba": [
                "local all all trust",
                "host all all 127.0.0.1/32 trust",
                "host replication all 127.0.0.1/32 trust",
            ],
            // A node that was ahead of the new primary follows it all the same.
            "remove_data_directory_on_rewind_failure": true,
            "remove_data_directory_on_diverged_timelines": true,
        },
    })
}

/// What the nodes agree on, in etcd.
fn shared(replication: Replication) -> Value {
    json!({
        "ttl": TTL,
        "loop_wait": LOOP_WAIT,
        "retry_timeout": RETRY_TIMEOUT,
        "maximum_lag_on_failover": MOST_LAG,
        "synchronous_mode": replication == Replication::Synchronous,
        "postgresql": {
            "use_pg_rewind": true,
            "use_slots": true,
            "parameters": {
                "max_connections": 200,
                "shared_buffers": "16MB",
                // It protects from a crash of the machine only, and the machine stays.
                "fsync": "off",
                "wal_log_hints": "on",
                // In the data folder, where a crash leaves nothing that the folder's removal misses.
                "dynamic_shared_memory_type": "mmap",
                "log_line_prefix": "%m [%p] %q%u@%d ",
            },
        },
    })
}
