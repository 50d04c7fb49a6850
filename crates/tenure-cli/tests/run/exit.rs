//! What a copy does when its program ends, and what it ends with.

use std::{
    fs,
    process::{Command, Output},
};

use rustix::process::Signal;
use tenure_testkit::{eventually_true, secs};

use crate::copies::{BEATS, Scene};

fn run(scene: &Scene, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["run", "--scope", "jobs"])
        .args(if arguments.contains(&"--lease") { &[][..] } else { &["--lease", "2s"] })
        .args(arguments)
        .current_dir(&scene.folder)
        .env_remove("TENURE_DB")
        .output()
        .unwrap()
}

#[test]
fn the_exit_code_and_the_output_are_the_programs_own() {
    let scene = Scene::on_sqlite();
    let script = "echo \"$TENURE_SCOPE $TENURE_ROLE $TENURE_EPOCH\"; echo oops >&2; exit 7";
    let ran = run(&scene, &["--", "sh", "-c", script]);
    assert_eq!(ran.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "jobs leader 1\n");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "oops\n");
    let ran = run(&scene, &["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.status.code(), Some(128 + 9));
}

#[test]
fn a_program_that_is_not_there_has_a_code_of_its_own_and_is_named() {
    let scene = Scene::on_sqlite();
    let ran = run(&scene, &["--", "no-such-program"]);
    assert_eq!(ran.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("no-such-program"), "{ran:?}");
    fs::write(scene.path("data"), "no program").unwrap();
    let ran = run(&scene, &["--", "./data"]);
    assert_eq!(ran.status.code(), Some(126));
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let scene = Scene::on_sqlite();
    for (arguments, told) in [
        (&["--term-grace", "5s", "--", "true"][..], "--term-grace 5s"),
        (&["--lock", "advisory", "--", "true"], "--lock advisory needs Postgres"),
        (&["--standby", "'open", "--", "true"], "--standby"),
        (&["--lease", "soon", "--", "true"], "10s, 500ms"),
        (&["--"], "CMD"),
    ] {
        let ran = run(&scene, arguments);
        let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && stderr.contains(told), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_command_line_for_a_shell_is_given_to_one() {
    let scene = Scene::on_sqlite();
    let ran = run(&scene, &["--shell", "--", "echo one | tr o O"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "One\n");
    let ran = run(&scene, &["--", "echo", "one | tr o O"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "one | tr o O\n");
}

/// The token file says the term, and until when it may act.
#[test]
fn the_token_file_names_the_term_and_its_deadline() {
    let scene = Scene::on_sqlite();
    let ran = run(&scene, &["--node-id", "me", "--", "sh", "-c", "cat $TENURE_TOKEN_FILE"]);
    let token: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&token["scope"], &token["node_id"], &token["epoch"]),
        (&"jobs".into(), &"me".into(), &1.into())
    );
    assert!(token["deadline_boottime_ms"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_program_is_run_again_only_in_a_new_term() {
    let scene = Scene::on_sqlite();
    let script = "echo $TENURE_EPOCH >> epochs; exit 1";
    let copy = scene.copy("one", "--lease 2s --restart on-failure", script);
    let epochs = || fs::read_to_string(scene.path("epochs")).unwrap_or_default();
    eventually_true("it ran three times", secs(30), async || epochs().lines().count() >= 3).await;
    drop(copy);
    let epochs: Vec<i64> = epochs().lines().map(|line| line.parse().unwrap()).collect();
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
}

#[tokio::test]
async fn a_program_that_ended_well_is_not_run_again_on_failure_alone() {
    let scene = Scene::on_sqlite();
    let mut copy = scene.copy("one", "--lease 2s --restart on-failure", "exit 0");
    assert_eq!(copy.code().await, Some(0));
}

#[tokio::test]
async fn being_told_to_stop_ends_the_program_in_its_own_way_and_hands_over_at_once() {
    let scene = Scene::on_sqlite();
    let script = format!("trap 'echo bye > bye; exit 3' TERM; {BEATS}");
    let mut one = scene.copy("one", "--lease 60s", &script);
    let first = one.acts_after(0).await;
    let mut two = scene.copy("two", "--lease 60s", &script);
    eventually_true("the other has a keeper", secs(10), async || two.has_children()).await;
    one.signal(Signal::TERM);
    assert_eq!(one.code().await, Some(3));
    assert_eq!(fs::read_to_string(scene.path("bye")).unwrap(), "bye\n");
    let next = two.acts_after(first.epoch).await;
    assert!(next.at - one.beats().last().unwrap().at < 10.0, "long before the lease has ended");
    crate::copies::assert_never_together(&one, &two);
    two.signal(Signal::INT);
    assert!(two.code().await.is_some());
}

#[tokio::test]
async fn a_copy_that_does_not_lead_ends_at_once_when_told_to() {
    let scene = Scene::on_sqlite();
    let one = scene.copy("one", "--lease 60s", BEATS);
    one.acts_after(0).await;
    let mut two = scene.copy("two", "--lease 60s", BEATS);
    eventually_true("it has a keeper", secs(10), async || two.has_children()).await;
    two.signal(Signal::TERM);
    assert_eq!(two.code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_word_kills_a_program_that_takes_its_time() {
    let scene = Scene::on_sqlite();
    let script = format!("trap '' TERM; echo $$ > child; {BEATS}");
    let mut one = scene.copy("one", "--lease 20s --term-grace 9s", &script);
    one.acts_after(0).await;
    one.signal(Signal::TERM);
    let asked = tenure_database::BootInstant::now();
    eventually_true("it hands over", secs(5), async || {
        let log = fs::read_to_string(scene.path("log-one")).unwrap();
        one.signal(Signal::TERM);
        log.contains("child_ended")
    })
    .await;
    one.code().await;
    assert!(tenure_database::BootInstant::now().since(asked) < secs(8), "it waited for the grace");
}
