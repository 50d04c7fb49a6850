//! The API over a real socket: shapes, messages and the order of checks.

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tenure_http::{Address, Guard, Server, Token};
use tenure_submissions::{http, instance::Instance};
use tenure_testkit::{eventually, secs};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::scene::{Scene, leads};

on_every_database! {
    an_intent_is_submitted_read_and_waited_for,
    what_is_wrong_is_said_in_the_order_of_the_checks,
    a_token_is_asked_for_before_everything_else,
    a_web_page_of_another_site_submits_nothing,
    the_history_is_shown_to_people_and_escaped,
    the_api_is_described_for_programs_and_people,
    an_intent_stored_by_a_follower_is_executed_when_the_leader_is_told,
}

struct Served {
    instance: Instance,
    url: String,
    client: Client,
    _serves: AbortOnDropHandle<()>,
}

impl Served {
    async fn start(scene: &Scene, token: Option<Token>) -> Self {
        let instance = scene.instance();
        let server = Server::bind(&"0".parse::<Address>().unwrap(), None).await.unwrap();
        let url = format!("http://{}", server.address());
        let here = std::net::Ipv4Addr::LOCALHOST.into();
        let routes = http::routes(&instance, Guard::new(token, here));
        let serves = AbortOnDropHandle::new(tokio::spawn(async move {
            server.serve(routes, CancellationToken::new()).await;
        }));
        Self { instance, url, client: Client::new(), _serves: serves }
    }

    async fn post(&self, path: &str, body: &str) -> (StatusCode, Value) {
        let request = self.client.post(format!("{}{path}", self.url)).body(body.to_owned());
        let answer = request.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    async fn submit(&self, id: &str, target: &str, payload: &str) -> (StatusCode, Value) {
        let body = format!(
            "{{\"intentId\":\"{id}\",\"submissionTarget\":\"{target}\",\"payload\":{payload}}}"
        );
        self.post("/v1/intents", &body).await
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }
}

fn error(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

async fn an_intent_is_submitted_read_and_waited_for(scene: Scene) {
    let served = Served::start(&scene, None).await;
    leads(&[&served.instance]).await;
    scene.gateway.wait().await;
    let (status, intent) = served.submit("a b/ä", "three", "{\"x\": 1}").await;
    assert_eq!((status, &intent["status"]), (StatusCode::OK, &json!("pending")));
    let fields: Vec<_> = intent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["createdAt", "intentId", "status", "submissionTarget"]);
    scene.gateway.go_on();
    let again = "{\"intentId\":\"a b/ä\",\"submissionTarget\":\"three\",\"payload\":{\"x\": 1}}";
    let (status, ended) = served.post("/v1/intents?waitSeconds=20", again).await;
    assert_eq!((status, &ended["status"]), (StatusCode::OK, &json!("accepted")));
    assert!(ended["completedAt"].as_str().unwrap().ends_with('Z'), "{ended}");
    let (status, read) = served.get("/v1/intents/a%20b%2F%C3%A4").await;
    assert_eq!((status, &read), (StatusCode::OK, &ended));
    let (status, history) = served.get("/v1/intents/a%20b%2F%C3%A4/history").await;
    assert_eq!((status, &history["intent"]), (StatusCode::OK, &ended));
    let attempt = history["attempts"][0].as_object().unwrap();
    let fields: Vec<_> = attempt.keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        ["attemptNumber", "finishedAt", "idempotencyKey", "outcomeStatus", "startedAt"]
    );
    let call = scene.gateway.calls().remove(0);
    assert_eq!((call.key.as_str(), call.body.as_slice()), ("a b/%C3%A4:1", &b"{\"x\": 1}"[..]));
}

async fn what_is_wrong_is_said_in_the_order_of_the_checks(scene: Scene) {
    let served = Served::start(&scene, None).await;
    let (status, told) = served.post("/v1/intents?waitSeconds=x", "nonsense").await;
    let wait = error("invalid_request", "waitSeconds must be a non-negative integer");
    assert_eq!((status, told), (StatusCode::BAD_REQUEST, wait));
    let (status, told) = served.post("/v1/intents", "nonsense").await;
    let body = error("invalid_request", "invalid request body");
    assert_eq!((status, told), (StatusCode::BAD_REQUEST, body));
    let (status, told) = served.post("/v1/intents", "{\"submissionTarget\":\"nope\"}").await;
    let required = error("invalid_request", "intentId and submissionTarget are required");
    assert_eq!((status, told), (StatusCode::BAD_REQUEST, required));
    let (status, told) = served.submit("a", "nope", "1").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(told["error"]["message"], "unknown submissionTarget");
    assert_eq!(told["error"]["details"], json!({"submissionTarget": "nope"}));

    assert_eq!(served.submit("a", "three", "1").await.0, StatusCode::OK);
    let (status, told) = served.submit("a", "once", "1").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(told["error"]["code"], "idempotency_conflict");
    let details = json!({"intentId": "a", "existingTarget": "three", "incomingTarget": "once"});
    assert_eq!(told["error"]["details"], details);
    assert_eq!(served.submit("a", "three", "1 ").await.0, StatusCode::OK, "blanks around it");
    assert_eq!(served.submit("a", "three", "1.0").await.0, StatusCode::CONFLICT);

    let (status, told) = served.get("/v1/intents/none").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(told["error"]["details"], json!({"intentId": "none"}));
    assert_eq!(served.get("/v1/intents/%00").await.0, StatusCode::NOT_FOUND);
    let long = format!("/v1/intents/{}/history", "a".repeat(300));
    assert_eq!(served.get(&long).await.0, StatusCode::NOT_FOUND);
    for (path, code) in [("/v1/intents/%ff", "not_found"), ("/v1/other", "not_found")] {
        let (status, told) = served.get(path).await;
        assert_eq!(
            (status, &told["error"]["code"]),
            (StatusCode::NOT_FOUND, &json!(code)),
            "{path}"
        );
    }
    let (status, told) = served.post("/v1/intents", r#"["a", "three", 1]"#).await;
    let list = error("invalid_request", "invalid request body");
    assert_eq!((status, told), (StatusCode::BAD_REQUEST, list), "a list is no object");
    let put = served.client.request(Method::PUT, format!("{}/v1/intents", served.url));
    let answer = put.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    let told: Value = answer.json().await.unwrap();
    assert_eq!(told["error"]["code"], "method_not_allowed");
    let large = format!("\"{}\"", "x".repeat(http::LARGEST_REQUEST));
    let (status, told) = served.submit("large", "three", &large).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &json!("invalid_request"))
    );
}

/// A browser on this machine may show any page; what that page asks for is not its user's wish.
async fn a_web_page_of_another_site_submits_nothing(scene: Scene) {
    let served = Served::start(&scene, None).await;
    let body = r#"{"intentId":"a","submissionTarget":"once","payload":1}"#;
    for (header, value) in [("origin", "https://evil.example"), ("host", "rebound.example:80")] {
        let request = served.client.post(format!("{}/v1/intents", served.url)).body(body);
        let answer = request.header(header, value).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{header}");
        let told: Value = answer.json().await.unwrap();
        assert_eq!(told, error("forbidden", "the request comes from another site"));
    }
    assert_eq!(served.get("/v1/intents/a").await.0, StatusCode::NOT_FOUND);
    assert_eq!(served.post("/v1/intents", body).await.0, StatusCode::OK, "this machine may");
}

async fn a_token_is_asked_for_before_everything_else(scene: Scene) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "correct-horse-battery").unwrap();
    let served = Served::start(&scene, Some(Token::read(&file).unwrap())).await;
    for path in ["/v1/intents?waitSeconds=x", "/ui/history"] {
        let (status, told) = served.post(path, "nonsense").await;
        assert_eq!(
            (status, &told["error"]["code"]),
            (StatusCode::UNAUTHORIZED, &json!("unauthorized"))
        );
    }
    let request = served.client.get(format!("{}/v1/intents/none", served.url));
    let answer = request.bearer_auth("correct-horse-battery").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let described = served.client.get(format!("{}/openapi.json", served.url)).send().await.unwrap();
    assert_eq!(described.status(), StatusCode::OK);
}

async fn the_history_is_shown_to_people_and_escaped(scene: Scene) {
    let served = Served::start(&scene, None).await;
    leads(&[&served.instance]).await;
    served.submit("<b>", "three", "1").await;
    scene.ends("<b>").await;
    let ask = async |body: &'static str| {
        let request = served.client.post(format!("{}/ui/history", served.url)).body(body);
        let form = "application/x-www-form-urlencoded";
        let answer = request.header("content-type", form).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    let (status, page) = ask("intentId=%3Cb%3E").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("Intent summary") && page.contains("&#60;b&#62;"), "{page}");
    assert!(page.contains("accepted") && !page.contains("<b>"), "{page}");
    assert_eq!(ask("").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(
        ask("intentId=none").await,
        (StatusCode::NOT_FOUND, "intent not found\n".to_owned())
    );
    let get = served.client.get(format!("{}/ui/history", served.url)).send().await.unwrap();
    assert_eq!(get.status(), StatusCode::METHOD_NOT_ALLOWED);
}

async fn the_api_is_described_for_programs_and_people(scene: Scene) {
    let served = Served::start(&scene, None).await;
    let (_, described) = served.get("/openapi.json").await;
    let paths: Vec<_> = described["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/v1/intents", "/v1/intents/{intentId}", "/v1/intents/{intentId}/history"]);
    let page = served.client.get(format!("{}/docs", served.url)).send().await.unwrap();
    let page = page.text().await.unwrap();
    for shown in ["POST /v1/intents", "waitSeconds", "Submit an intent", "409"] {
        assert!(page.contains(shown), "{shown}");
    }
}

async fn an_intent_stored_by_a_follower_is_executed_when_the_leader_is_told(scene: Scene) {
    let slow = tenure_submissions::instance::Behaviour {
        refresh_interval: secs(3_600),
        gateway_timeout: std::time::Duration::from_millis(500),
        record_within: std::time::Duration::from_millis(500),
        ..Default::default()
    };
    let leader = scene.instance_that(slow);
    leads(&[&leader]).await;
    let follower = scene.instance();
    for id in ["1", "2", "3"] {
        let _ = crate::scene::submit(&follower, id, "three").await;
        eventually("it is executed, though no refresh is due", secs(20), async || {
            let calls = scene.gateway.calls();
            calls.iter().any(|call| call.key == format!("{id}:1")).then_some(())
        })
        .await;
    }
}
