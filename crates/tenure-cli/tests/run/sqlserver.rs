//! Copies on SQL Server, where `TENURE_TEST_SQLSERVER` names one.

use rustix::process::Signal;
use tenure_testkit::sqlserver::Database;

use crate::copies::{BEATS, Scene, assert_never_together};

/// A session's first statements may take their time.
const OPTIONS: &str = "--lease 6s";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs TENURE_TEST_SQLSERVER"]
async fn copies_never_act_together_whether_killed_frozen_or_asked_to_end() {
    let database = Database::create().await.unwrap();
    let scene = Scene::on(database.secret_url());
    let one = scene.copy("one", OPTIONS, BEATS);
    let first = one.acts_after(0).await;
    let two = scene.copy("two", OPTIONS, BEATS);
    one.signal(Signal::KILL);
    let second = two.acts_after(first.epoch).await;
    assert_never_together(&one, &two);

    let mut three = scene.copy("three", OPTIONS, BEATS);
    two.signal(Signal::STOP);
    let third = three.acts_after(second.epoch).await;
    assert_never_together(&two, &three);

    let four = scene.copy("four", OPTIONS, BEATS);
    three.signal(Signal::TERM);
    assert_eq!(three.code().await, Some(143), "as its child was told");
    four.acts_after(third.epoch).await;
    assert_never_together(&three, &four);
}
