//! A node that is served, asked over a real socket.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use prometheus_client::registry::Registry;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure::{
    Candidate, Election, HolderId, Metrics, Scope, Timing, fence::SqliteFence,
    lock::sqlite_lease::SqliteLease, schema,
};
use tenure_database::{migrate, sqlite};
use tenure_http::{Address, Health, Node, Server, Token, routes};
use tenure_testkit::{eventually_true, millis, secs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

const SECRET: &str = "correct-horse-battery";

/// One node under this name; alone in its folder it leads.
struct Served {
    folder: TempDir,
    _election: Election,
    url: String,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    client: Client,
}

impl Served {
    async fn start(address: &str, token: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("tenure.db");
        let mut file = sqlite::open(&data, secs(1)).unwrap();
        migrate::sqlite::migrate(&mut file, schema::COMPONENT, &schema::SQLITE).unwrap();
        let timing = Timing::lease(secs(2)).drain_cooldown(secs(60)).build().unwrap();
        let candidate =
            Candidate::new(Scope::new("<jobs>").unwrap(), HolderId::new("one").unwrap());
        let lock = SqliteLease::new(&data, candidate.clone(), timing).unwrap();
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let builder = Election::builder(candidate, timing, lock).metrics(&metrics);
        let election = builder.fence(SqliteFence::new(&data, timing).unwrap()).start().unwrap();
        let token = token.then(|| {
            let file = folder.path().join("token");
            std::fs::write(&file, SECRET).unwrap();
            Token::read(&file).unwrap()
        });
        let server = Server::bind(&address.parse::<Address>().unwrap(), token).await.unwrap();
        let url = format!("http://127.0.0.1:{}", server.address().port());
        let node = Node {
            election: election.handle(),
            title: "a test".to_owned(),
            facts: vec![("Program".to_owned(), "a & b".to_owned())],
            url: Some(url.clone()),
            told: None,
            health: Health::Word,
            metrics: Arc::new(registry),
        };
        let stop = CancellationToken::new();
        let routes = routes(node, server.guard());
        let serving = tokio::spawn(server.serve(routes, stop.clone()));
        let client = Client::builder().timeout(secs(10)).build().unwrap();
        Self { folder, _election: election, url, stop, serving, client }
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn role(&self) -> Value {
        serde_json::from_str(&self.get("/role").await.1).unwrap()
    }

    async fn leads(&self) {
        eventually_true("it leads", secs(10), async || {
            self.get("/leader").await.0 == StatusCode::OK
        })
        .await;
    }

    async fn drains(&self, method: Method, headers: &[(&str, &str)]) -> StatusCode {
        let mut request = self.client.request(method, format!("{}/drain", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_shows_itself_and_is_drained() {
    let served = Served::start("0", false).await;
    served.leads().await;
    assert_eq!(served.get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let ready = served.get("/readyz").await.1;
    assert!(ready.starts_with("mode=leader holder_id=one lease_expires_at=2"), "{ready}");
    assert!(ready.ends_with('Z'), "{ready}");
    let url = served.url.clone();
    let leader = json!({
        "node_id": "one", "role": "LEADER", "leader_epoch": 1, "leader_id": "one", "leader_url": url,
    });
    assert_eq!(served.role().await, leader);
    assert_eq!(served.drains(Method::POST, &[]).await, StatusCode::ACCEPTED);
    eventually_true("it has handed over", secs(10), async || {
        served.get("/leader").await.0 == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    let standby = json!({
        "node_id": "one", "role": "STANDBY", "leader_epoch": 1, "leader_id": null, "leader_url": null,
    });
    assert_eq!(served.role().await, standby);
    assert_eq!(served.get("/readyz").await.1, "mode=follower holder_id=one");
    assert_eq!(served.drains(Method::DELETE, &[]).await, StatusCode::ACCEPTED);
    served.leads().await;
    assert_eq!(served.role().await["leader_epoch"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_page_shows_the_node_and_runs_nothing_that_it_was_told() {
    let served = Served::start("0", false).await;
    served.leads().await;
    let answer = served.client.get(&served.url).send().await.unwrap();
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = answer.text().await.unwrap();
    for shown in ["LEADER", "&#60;jobs&#62;", "one", "a &#38; b", "Gate shuts in"] {
        assert!(page.contains(shown), "{shown} is not in {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_there_from_the_start_with_their_type() {
    let served = Served::start("0", false).await;
    served.leads().await;
    let answer = served.client.get(format!("{}/metrics", served.url)).send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = answer.text().await.unwrap();
    assert!(text.contains("is_leader{scope=\"<jobs>\"} 1"), "{text}");
    assert!(text.contains("leadership_lost_total{scope=\"<jobs>\"} 0"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn from_other_machines_only_a_token_drains() {
    let open = Served::start("0.0.0.0:0", false).await;
    open.leads().await;
    assert_eq!(open.drains(Method::POST, &[]).await, StatusCode::FORBIDDEN);
    let guarded = Served::start("0.0.0.0:0", true).await;
    guarded.leads().await;
    assert_eq!(guarded.drains(Method::POST, &[]).await, StatusCode::UNAUTHORIZED);
    let wrong = [("authorization", "Bearer correct-horse-batterx")];
    assert_eq!(guarded.drains(Method::POST, &wrong).await, StatusCode::UNAUTHORIZED);
    assert_eq!(guarded.role().await["role"], "LEADER", "nothing has happened");
    let bearer = format!("Bearer {SECRET}");
    let right = [("authorization", bearer.as_str())];
    assert_eq!(guarded.drains(Method::POST, &right).await, StatusCode::ACCEPTED);
    assert!(guarded.folder.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_does_not_drain() {
    let served = Served::start("0", false).await;
    served.leads().await;
    let from = [("origin", "https://evil.example")];
    assert_eq!(served.drains(Method::POST, &from).await, StatusCode::FORBIDDEN);
    assert_eq!(
        served.drains(Method::POST, &[("host", "evil.example")]).await,
        StatusCode::FORBIDDEN
    );
    assert_eq!(served.drains(Method::GET, &[]).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(served.role().await["role"], "LEADER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_finishes_what_it_has_begun_and_takes_nothing_more() {
    let served = Served::start("0", false).await;
    served.leads().await;
    let address = served.url.strip_prefix("http://").unwrap().to_owned();
    let mut idle = tokio::net::TcpStream::connect(&address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut begun = [0; 12];
    idle.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    served.stop.cancel();
    served.serving.await.unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"ok"), "the answer was cut off");
    eventually_true("nobody listens", millis(2_000), async || {
        tokio::net::TcpStream::connect(&address).await.is_err()
    })
    .await;
}
