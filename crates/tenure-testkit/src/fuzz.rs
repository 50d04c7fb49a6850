//! Requests that nobody thought of, made from an API's own description by schemathesis.

use std::{fs, path::Path, process::Command};

use crate::find_program;

/// How many requests of each kind: always the same few, or many at random.
fn how() -> &'static [&'static str] {
    match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => &["--max-examples", "1000"],
        None => &["--max-examples", "100", "--seed", "1"],
    }
}

/// The API at this address does as it is described, whatever it is sent.
///
/// `settings` are schemathesis's own, for what a description cannot say; `more` are arguments.
///
/// # Panics
/// When it does not, with a request that shows it.
pub fn fuzz(url: &str, folder: &Path, settings: &str, more: &[&str]) {
    let program = find_program("schemathesis").expect("./test installs it");
    let config = folder.join("schemathesis.toml");
    fs::write(&config, settings).expect("a file");
    println!("{} (1000 at random with TENURE_TEST_FULL=1)", how().join(" "));
    let output = Command::new(program)
        .arg("--config-file")
        .arg(config)
        .args(["run", "--no-color", "--checks", "all", "--phases", "coverage,fuzzing,stateful"])
        .args(how())
        .args(more)
        .arg(format!("{url}/openapi.json"))
        .current_dir(folder)
        .output()
        .expect("schemathesis runs");
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("generated"), "it says how many it made");
}
