//! The adversary itself, on a real server.

use tokio_postgres::{Client, NoTls, error::SqlState};

use super::*;
use crate::postgres::Postgres;

const INSERT: &str = "INSERT INTO kept SELECT 1";

struct Scene {
    wire: Wire,
    owner: Client,
    _postgres: Postgres,
}

impl Scene {
    async fn begin() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let owner = postgres.connect().await.unwrap();
        owner.batch_execute("CREATE TABLE kept (n integer)").await.unwrap();
        Self { wire: Wire::to(postgres.addr()).await.unwrap(), owner, _postgres: postgres }
    }

    async fn connect(&self) -> Client {
        let url = self.wire.url_as("postgres", "postgres");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn kept(&self) -> i64 {
        self.owner.query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn all_passes_and_is_counted_and_named() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    scene.wire.watch();
    client.batch_execute(INSERT).await.unwrap();
    client.query_typed("SELECT 1", &[]).await.unwrap();
    drop(client);
    scene.wire.settled().await;
    let seen = scene.wire.disarm();
    assert_eq!(
        seen.requests,
        [&format!("Query {INSERT}"), "Parse SELECT 1", "Bind", "Describe", "Execute", "Sync"]
    );
    // Two for the first; then five, among them a row and its description, and ready.
    assert_eq!((seen.answers, seen.bite), (2 + 7, None));
    assert_eq!(scene.kept().await, 1);
}

#[tokio::test]
async fn a_message_fails_alone_and_what_follows_goes_on() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    scene.wire.arm(Failure::Fails, 0);
    let (begun, inserted) =
        tokio::join!(client.batch_execute("BEGIN"), client.batch_execute(INSERT));
    assert_eq!(begun.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    inserted.unwrap();
    let bite = scene.wire.disarm().bite.unwrap();
    assert_eq!((bite.message.as_str(), bite.has_effect), ("Query BEGIN", true));
    assert_eq!(scene.kept().await, 1, "in autocommit: this is the hole that the adversary is for");
}

#[tokio::test]
async fn every_kind_of_message_but_sync_can_be_made_to_fail() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    for at in 0..5 {
        scene.wire.arm(Failure::Fails, at);
        let answer = client.query_typed(INSERT, &[]).await;
        let bite = scene.wire.disarm().bite.unwrap();
        assert_eq!((answer.is_err(), bite.has_effect), (at < 4, at < 4), "{bite:?}");
        assert_eq!(scene.kept().await, i64::from(at == 4), "{bite:?}");
    }
}

#[tokio::test]
async fn a_message_before_which_it_is_cut_does_not_arrive_and_those_before_it_do() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    scene.wire.arm(Failure::CutBefore, 1);
    let (first, second) = tokio::join!(client.batch_execute(INSERT), client.batch_execute(INSERT));
    assert!(second.is_err(), "{first:?}");
    scene.wire.settled().await;
    assert_eq!(scene.kept().await, 1);
}

#[tokio::test]
async fn a_message_after_which_it_is_cut_takes_effect_and_nobody_hears_of_it() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    scene.wire.arm(Failure::CutAfter, 0);
    assert!(client.batch_execute(INSERT).await.is_err());
    scene.wire.settled().await;
    assert_eq!(scene.kept().await, 1);
}

#[tokio::test]
async fn an_answer_before_which_it_is_cut_is_not_heard() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    scene.wire.arm(Failure::Unheard, 0);
    assert!(client.batch_execute(INSERT).await.is_err());
    scene.wire.settled().await;
    assert_eq!(scene.wire.disarm().bite.unwrap().message, "answer C");
    assert_eq!(scene.kept().await, 1);
}

#[tokio::test]
async fn a_held_message_waits_with_all_behind_it_and_its_session_is_known() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    scene.wire.arm(Failure::Held, 0);
    let both =
        async { tokio::try_join!(client.batch_execute(INSERT), client.batch_execute(INSERT)) };
    let held = async {
        assert_eq!(scene.wire.bitten().await.backend, pid);
        assert_eq!(scene.kept().await, 0);
        scene.wire.let_go();
    };
    tokio::join!(async { both.await.unwrap() }, held);
    assert_eq!(scene.kept().await, 2);
}

#[tokio::test]
async fn the_first_message_can_fail_and_another_be_held() {
    let scene = Scene::begin().await;
    let client = scene.connect().await;
    scene.wire.arm(Failure::FailsThenHeld, 1);
    let begun = async { assert!(client.batch_execute("BEGIN").await.is_err()) };
    let inserted = async { client.batch_execute(INSERT).await.unwrap() };
    let held = async {
        assert_eq!(scene.wire.bitten().await.message, format!("Query {INSERT}"));
        assert_eq!(scene.kept().await, 0);
        scene.wire.let_go();
    };
    tokio::join!(begun, inserted, held);
    assert_eq!(scene.kept().await, 1);
}

#[tokio::test]
async fn a_client_that_asks_for_tls_goes_on_without_it() {
    let scene = Scene::begin().await;
    let url: tenure_database::postgres::PostgresUrl =
        scene.wire.url_as("postgres", "postgres").parse().unwrap();
    let session = url.connect(tenure_database::Deadline::after(secs(10))).await.unwrap();
    session.batch_execute(INSERT).await.unwrap();
}
