//! Requests that nobody thought of.

use tenure_testkit::fuzz::fuzz;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_does_as_it_is_described_whatever_it_is_sent() {
    let scene = Scene::on_sqlite().await;
    let leader = scene.leader().await;
    fuzz(&scene.instances[leader].url, scene.folder(), "", &[]);
}
