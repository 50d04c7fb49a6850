//! Every message of every fenced call fails in every way, on both versions of Postgres.

use async_trait::async_trait;
use tenure::{
    Scope, Term, Timing,
    fence::{
        Fence, FenceError, FencedStatement, PostgresFence,
        postgres::{self, Call as Statement},
    },
    schema,
};
use tenure_database::{migrate, postgres::PostgresUrl};
use tenure_testkit::{
    postgres::Postgres,
    secs,
    wire::trial::{Call, Tally, Trial},
};
use tokio_postgres::{Client, NoTls};

use crate::server::SCOPE;

const TABLES: &str = "CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL);
     CREATE TABLE payments (id integer PRIMARY KEY, payer text NOT NULL)";
const WIPE: &str =
    "DELETE FROM orders; DELETE FROM payments; INSERT INTO orders VALUES (1, 'new'), (2, 'new')";
/// Each can be repeated, so that a call whose answer was lost can be made again.
const PAY: &str = "UPDATE orders SET state = 'paid' WHERE id = 1";
const BOOK: &str = "INSERT INTO payments VALUES (1, 'ann') ON CONFLICT DO NOTHING";
const PAY_FENCED: &str = "UPDATE orders SET state = 'paid' WHERE id = $4";

/// A way through the fence.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Two statements that are prepared when the transaction is open.
    Begin,
    /// Two statements.
    Together,
    /// One statement of two writes.
    Query,
    /// A fenced statement.
    Statement,
}

struct Written<'o> {
    owner: &'o Client,
    way: Way,
}

/// A client, and what was prepared on it.
struct Session {
    client: Client,
    statements: Vec<tokio_postgres::Statement>,
    fenced: Option<FencedStatement>,
}

impl Session {
    async fn prepared(&mut self, sql: &[&str]) -> Result<(), FenceError> {
        if self.statements.is_empty() {
            for sql in sql {
                self.statements.push(self.client.prepare(sql).await?);
            }
        }
        Ok(())
    }
}

impl Written<'_> {
    async fn write(&self, session: &mut Session, term: &Term) -> Result<(), FenceError> {
        match self.way {
            Way::Begin => {
                let transaction = postgres::begin(&mut session.client, term).await?;
                transaction.execute(PAY, &[]).await?;
                transaction.execute(BOOK, &[]).await?;
                transaction.commit().await
            }
            Way::Together => {
                session.prepared(&[PAY, BOOK]).await?;
                let calls = session.statements.iter();
                let calls: Vec<_> =
                    calls.map(|statement| Statement { statement, parameters: &[] }).collect();
                postgres::together(&mut session.client, term, &calls).await.map(drop)
            }
            Way::Query => {
                let both = format!("WITH paid AS ({PAY}) {BOOK}");
                session.prepared(&[&both]).await?;
                let statement = &session.statements[0];
                postgres::query(&mut session.client, term, statement, &[]).await.map(drop)
            }
            Way::Statement => {
                let Session { client, fenced, .. } = session;
                if fenced.is_none() {
                    let scope = Scope::new(SCOPE).unwrap();
                    *fenced = Some(FencedStatement::prepare(client, &scope, PAY_FENCED).await?);
                }
                fenced.as_ref().unwrap().execute(client, term, &[&1]).await.map(drop)
            }
        }
    }
}

#[async_trait]
impl Call for Written<'_> {
    type Session = Session;
    type Given = ();

    fn name(&self) -> String {
        format!("{:?}", self.way)
    }

    fn tables(&self) -> Vec<&'static str> {
        vec!["orders", "payments"]
    }

    async fn prepare(&self, _: &Term) {
        self.owner.batch_execute(WIPE).await.unwrap();
    }

    async fn connect(&self, url: &PostgresUrl) -> Session {
        let config = url.to_string();
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        Session { client, statements: Vec::new(), fenced: None }
    }

    async fn call(&self, session: &mut Session, term: &Term, (): &()) -> Result<(), String> {
        self.write(session, term).await.map_err(|error| error.to_string())
    }
}

/// A rehearsal, which never says what came of it.
struct Rehearsal;

#[async_trait]
impl Call for Rehearsal {
    type Session = PostgresFence;
    type Given = ();

    fn name(&self) -> String {
        "Rehearsal".to_owned()
    }

    fn tables(&self) -> Vec<&'static str> {
        vec![
            "(SELECT scope, epoch FROM tenure_fences WHERE scope = '')",
            "(SELECT scope, slot, epoch FROM tenure_fence_slots WHERE scope = '')",
            "(SELECT scope, epoch FROM tenure_terms WHERE scope = '')",
        ]
    }

    fn is_fenced(&self) -> bool {
        false
    }

    async fn prepare(&self, _: &Term) {}

    async fn connect(&self, url: &PostgresUrl) -> PostgresFence {
        PostgresFence::new(url.clone(), Timing::lease(secs(60)).build().unwrap())
    }

    async fn call(&self, fence: &mut PostgresFence, _: &Term, (): &()) -> Result<(), String> {
        fence.rehearse().await;
        Ok(())
    }
}

async fn no_message_that_fails_lets_a_write_by(version: u32) {
    let server = Postgres::of_version(version).await.unwrap();
    let mut owner = server.connect().await.unwrap();
    migrate::postgres::migrate(&mut owner, schema::COMPONENT, &schema::POSTGRES).await.unwrap();
    owner.batch_execute(TABLES).await.unwrap();
    let trial = Trial::on(&server, "postgres", "tenure_leases", SCOPE).await;
    let mut tallies = Vec::new();
    for way in [Way::Begin, Way::Together, Way::Query, Way::Statement] {
        tallies.push(trial.of(&Written { owner: &owner, way }).await);
    }
    tallies.push(trial.of(&Rehearsal).await);
    Tally::judge(&format!("the fence on Postgres {version}"), &tallies);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_that_fails_lets_a_write_by_on_15() {
    no_message_that_fails_lets_a_write_by(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_that_fails_lets_a_write_by_on_18() {
    no_message_that_fails_lets_a_write_by(18).await;
}
