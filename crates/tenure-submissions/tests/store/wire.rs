//! Every message of every fenced call of the store fails in every way, on both versions of Postgres.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use tenure::Term;
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_submissions::{
    contract::{Contract, Policy, Webhook},
    schedule::Row,
    schema,
    store::{
        Finished, OneShot, Reservation, Reserve, Store, StoreError, Submitted,
        postgres::PostgresStore,
    },
};
use tenure_testkit::{
    postgres::Postgres,
    secs,
    wire::trial::{Call, Tally, Trial},
};
use tokio_postgres::Client;

use crate::scene::{accepted, contract, failed, with_contract};

const WIPE: &str = "DELETE FROM submission_intents; DELETE FROM submission_attempts";
const SCOPE: &str = "submission-manager-executor";

/// What the executor asks for.
#[derive(Clone, Copy, Debug)]
enum Fenced {
    Reserve,
    /// A reservation of what has passed its deadline. Its second transaction is the one that writes; what is ready
    /// would be written by its first.
    GiveUp,
    Unreserve,
    Record,
    BeginWebhooks,
    UnbeginWebhooks,
    FinishWebhooks,
}

const ALL: [Fenced; 7] = [
    Fenced::Reserve,
    Fenced::GiveUp,
    Fenced::Unreserve,
    Fenced::Record,
    Fenced::BeginWebhooks,
    Fenced::UnbeginWebhooks,
    Fenced::FinishWebhooks,
];

struct Executed<'o> {
    owner: &'o Client,
    /// Past the wire, for what comes before the call.
    store: &'o PostgresStore,
    what: Fenced,
}

/// Three intents, and the attempts that are under way.
struct Given {
    rows: Vec<Row>,
    reservations: Vec<Reservation>,
}

impl Given {
    /// The first is to be tried again, the others have ended.
    fn finished(&self) -> Vec<Finished> {
        let done = self.reservations.iter().enumerate();
        done.map(|(at, reservation)| match at {
            0 => failed(reservation, Timestamp::UNIX_EPOCH),
            _ => accepted(reservation),
        })
        .collect()
    }

    fn ended(&self) -> Vec<Finished> {
        self.reservations.iter().map(accepted).collect()
    }
}

/// Somebody is told of its end.
fn told(policy: Policy) -> Arc<Contract> {
    let webhook = Webhook {
        url: "http://webhook".to_owned(),
        headers: BTreeMap::new(),
        headers_env: BTreeMap::new(),
        secret_env: None,
    };
    Arc::new(Contract { webhook: Some(webhook), ..(*contract(policy)).clone() })
}

impl Executed<'_> {
    async fn submitted(&self) -> Vec<Row> {
        let lasting = told(Policy::MaxAttempts { max_attempts: 3 });
        let late = told(Policy::Deadline { max_acceptance_seconds: 60 });
        let contract = match self.what {
            Fenced::GiveUp => &late,
            _ => &lasting,
        };
        let batch = [
            with_contract("a", "1", contract),
            with_contract("b", "2", contract),
            with_contract("c", "3", contract),
        ];
        let answers = self.store.submit(&batch).await.unwrap();
        let row = |answer: &Submitted| match answer {
            Submitted::New(stored) => stored.row,
            other => panic!("{other:?}"),
        };
        answers.iter().map(row).collect()
    }

    async fn reserved(&self, term: &Term, rows: &[Row]) -> Vec<Reservation> {
        let answers = self.store.reserve(term, rows, OneShot::Repeat).await.unwrap();
        let ready = |answer: Reserve| match answer {
            Reserve::Ready(reservation) => *reservation,
            other => panic!("{other:?}"),
        };
        let mut reservations: Vec<_> = answers.into_iter().map(ready).collect();
        reservations.sort_by_key(|reservation| reservation.row);
        reservations
    }

    async fn asked(
        &self,
        store: &PostgresStore,
        term: &Term,
        given: &Given,
    ) -> Result<(), StoreError> {
        let rows = &given.rows[..];
        match self.what {
            Fenced::Reserve | Fenced::GiveUp => {
                let answers = store.reserve(term, rows, OneShot::Repeat).await?;
                assert_eq!(answers.len(), rows.len(), "{answers:?}");
                Ok(())
            }
            Fenced::Unreserve => store.unreserve(term, rows).await,
            Fenced::Record => store.record(term, &given.finished()).await.map(drop),
            Fenced::BeginWebhooks => store.begin_webhooks(term, rows).await.map(drop),
            Fenced::UnbeginWebhooks => store.unbegin_webhooks(term, rows).await,
            Fenced::FinishWebhooks => {
                let error = |row: &Row| (*row, (*row == rows[0]).then(|| "refused".to_owned()));
                let results: Vec<_> = rows.iter().map(error).collect();
                store.finish_webhooks(term, &results).await
            }
        }
    }
}

#[async_trait]
impl Call for Executed<'_> {
    type Session = PostgresStore;
    type Given = Given;

    fn name(&self) -> String {
        format!("{:?}", self.what)
    }

    fn tables(&self) -> Vec<&'static str> {
        vec!["submission_intents", "submission_attempts"]
    }

    async fn prepare(&self, term: &Term) -> Given {
        self.owner.batch_execute(WIPE).await.unwrap();
        let rows = self.submitted().await;
        let mut given = Given { rows, reservations: Vec::new() };
        if matches!(self.what, Fenced::Reserve) {
            return given;
        }
        // Of those that are given up, one was begun and one was not.
        let begun = match self.what {
            Fenced::GiveUp => &given.rows[..2],
            _ => &given.rows[..],
        };
        given.reservations = self.reserved(term, begun).await;
        match self.what {
            Fenced::GiveUp => {
                let age = "UPDATE submission_intents SET created_at = created_at - interval '61 s'
                           WHERE max_acceptance_seconds IS NOT NULL";
                assert_eq!(self.owner.execute(age, &[]).await.unwrap(), 3);
            }
            Fenced::BeginWebhooks | Fenced::UnbeginWebhooks | Fenced::FinishWebhooks => {
                let ended = self.store.record(term, &given.ended()).await.unwrap();
                assert_eq!(ended.len(), 3);
            }
            _ => {}
        }
        if matches!(self.what, Fenced::UnbeginWebhooks | Fenced::FinishWebhooks) {
            assert_eq!(self.store.begin_webhooks(term, &given.rows).await.unwrap().len(), 3);
        }
        given
    }

    async fn connect(&self, url: &PostgresUrl) -> PostgresStore {
        PostgresStore::new(url, secs(10))
    }

    async fn call(
        &self,
        store: &mut PostgresStore,
        term: &Term,
        given: &Given,
    ) -> Result<(), String> {
        self.asked(store, term, given).await.map_err(|error| error.to_string())
    }
}

async fn no_message_that_fails_lets_a_write_by(version: u32) {
    let server = Postgres::of_version(version).await.unwrap();
    let mut owner = server.connect().await.unwrap();
    let engine = (tenure::schema::COMPONENT, &tenure::schema::POSTGRES[..]);
    for (component, steps) in [engine, (schema::COMPONENT, &schema::POSTGRES[..])] {
        migrate::postgres::migrate(&mut owner, component, steps).await.unwrap();
    }
    let store = PostgresStore::new(&server.url().parse().unwrap(), secs(10));
    let trial = Trial::on(&server, "postgres", "submission_manager_leases", SCOPE).await;
    let mut tallies = Vec::new();
    for what in ALL {
        tallies.push(trial.of(&Executed { owner: &owner, store: &store, what }).await);
    }
    Tally::judge(&format!("submissions on Postgres {version}"), &tallies);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_that_fails_lets_a_write_by_on_15() {
    no_message_that_fails_lets_a_write_by(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_that_fails_lets_a_write_by_on_18() {
    no_message_that_fails_lets_a_write_by(18).await;
}
