//! The `postgresql.conf` of a test's server.

use crate::server::Folder;

/// The kit's settings, and after them, where they win, those a test asked for.
pub(super) fn configuration(port: u16, folder: &Folder, settings: &[(String, String)]) -> String {
    let kit = [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port.to_string()),
        ("unix_socket_directories", &folder.path().display().to_string()),
        ("max_connections", "300"),
        ("shared_buffers", "16MB"),
        ("fsync", "off"),
        ("full_page_writes", "off"),
        // In the data folder, where a crash leaves nothing that the folder's removal misses.
        ("dynamic_shared_memory_type", "mmap"),
        ("log_line_prefix", "%m [%p] %q%u@%d "),
    ]
    .map(|(name, value)| setting(name, value));
    let given = settings.iter().map(|(name, value)| setting(name, value));
    kit.into_iter().chain(given).collect()
}

fn setting(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\'', "''"))
}
