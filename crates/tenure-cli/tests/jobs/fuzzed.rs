//! Requests that nobody thought of.

use tenure_testkit::fuzz::fuzz;

use crate::scene::Cluster;

/// Nobody may wait here, so whoever would is told 503. That a job is there twice among the results, and that many
/// results win over one beside them, cannot be described.
const SETTINGS: &str = r#"
[[operations]]
include-path = "/v1/leases"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

[[operations]]
include-path = "/v1/results"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "4xx", "5xx"]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_does_as_it_is_described_whatever_it_is_sent() {
    let mut cluster = Cluster::on_sqlite();
    cluster.argue("--most-waiting 0");
    let leader = cluster.controllers(1).await;
    // A stream of events has no end.
    let more = ["--exclude-path", "/v1/events"];
    fuzz(&cluster.places[leader].url, cluster.folder.path(), SETTINGS, &more);
    assert_eq!(cluster.role_of(leader).await, "LEADER", "nothing has shaken it");
}
