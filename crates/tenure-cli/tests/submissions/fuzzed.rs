//! Requests that nobody thought of, made from the API's own description by schemathesis.

use std::process::Command;

use tenure_testkit::find_program;

use crate::scene::Scene;

/// How many requests of each kind: always the same few, or many at random.
fn how() -> &'static [&'static str] {
    match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => &["--max-examples", "1000"],
        None => &["--max-examples", "100", "--seed", "1"],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_does_as_it_is_described_whatever_it_is_sent() {
    let scene = Scene::on_sqlite().await;
    let leader = scene.leader().await;
    let program = find_program("schemathesis").expect("./test installs it");
    println!("{} (1000 at random with TENURE_TEST_FULL=1)", how().join(" "));
    let output = Command::new(program)
        .args(["run", "--no-color", "--checks", "all", "--phases", "coverage,fuzzing,stateful"])
        .args(how())
        .arg(format!("{}/openapi.json", scene.instances[leader].url))
        .current_dir(scene.folder())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("generated"), "it says how many it made");
}
