//! Settings that cannot work, and rights that are missing.

use std::{fs, process::Output};

use tempfile::TempDir;

use crate::scene::{command, registry};

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    registry(folder.path(), "http://gateway");
    let refused = |arguments: &[&str]| -> String {
        let db = "postgres://nobody@127.0.0.1:1/none";
        let Output { status, stderr, .. } = command(folder.path(), db, arguments).output().unwrap();
        assert!(!status.success(), "{arguments:?}");
        String::from_utf8(stderr).unwrap()
    };
    for (arguments, told) in [
        (
            &["--http", "0", "--renew-interval", "60s"][..],
            "renew interval 60s must be below the lease of 60s (--renew-interval, --lease-duration)",
        ),
        (&["--http", "0", "--lease-name", " "], "--lease-name (SM_LEASE_NAME)"),
        (&["--http", "0", "--lease-name", &"x".repeat(65)], "may have 64 at most"),
        (&["--http", "0", "--holder-id", &"x".repeat(129)], "--holder-id (SM_HOLDER_ID)"),
        (&["--http", "0", "--gateway-timeout", "50s"], "--gateway-timeout, --lease-duration"),
        (&["--http", "0.0.0.0:0"], "--token-file, or say --allow-unauthenticated"),
        (&["--http", "nowhere"], "is no address"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(told), "{arguments:?}: {message}");
    }
    fs::write(folder.path().join("targets.json"), "{\"targets\": [{}]}").unwrap();
    assert!(refused(&["--http", "0"]).contains("targets[0]"));
}
