//! Every message of every fenced call of the store fails in every way, on both versions of Postgres.

use async_trait::async_trait;
use tenure::Term;
use tenure_database::postgres::PostgresUrl;
use tenure_jobs::{
    job::{JobEpoch, Row},
    round::{Grant, Reaping, Round, Verdict},
    store::{
        Store, StoreError,
        postgres::{Limits, PostgresStore},
    },
};
use tenure_testkit::{
    postgres::Postgres,
    secs,
    wire::trial::{Call, Tally, Trial},
};
use tokio_postgres::Client;

use crate::{
    postgres::migrate,
    scene::{
        EVERYTHING, PATIENCE, SCOPE, TABLES, emptied, grant, heartbeat, job, lease_of, named,
        recall, success,
    },
};

const WIPE: &str =
    "DELETE FROM tenure_jobs; DELETE FROM tenure_job_leases; DELETE FROM tenure_job_results;
     DELETE FROM tenure_job_agents; DELETE FROM tenure_job_events; DELETE FROM tenure_job_leaders;
     UPDATE tenure_job_changes SET scope = '', event_number = 0";
/// What an agent got runs out, and another agent was not heard for long.
const RUN_OUT: &str =
    "UPDATE tenure_jobs SET lease_expires_at = clock_timestamp() WHERE job_id = 'expired';
     UPDATE tenure_job_agents SET last_seen_at = clock_timestamp() - interval '200 s'
     WHERE name = 'silent'";
/// So many that a few have to go in every round that prunes.
const EVENTS_KEPT: i64 = 12;

/// What the leader asks for.
#[derive(Clone, Copy, Debug)]
enum Fenced {
    TakeOver,
    /// With every kind of statement.
    Write,
}

struct Led<'o> {
    owner: &'o Client,
    /// Past the wire, for what comes before the call.
    store: &'o PostgresStore,
    what: Fenced,
}

/// Jobs that can be leased.
type Given = Vec<(Row, JobEpoch)>;

impl Led<'_> {
    async fn written(&self, term: &Term, round: Round) -> Vec<(Row, JobEpoch)> {
        let written = self.store.write(term, &round).await.unwrap();
        written.queued.into_iter().map(|queued| (queued.row, queued.job_epoch)).collect()
    }

    /// Four agents, jobs that three of them have, and one that nobody has.
    async fn filled(&self, term: &Term) -> Given {
        let (agents, jobs) =
            (["ann", "bob", "dead", "silent"], ["done", "asked", "stray", "of dead"]);
        let heartbeats = agents.map(heartbeat).to_vec();
        let ids = jobs.into_iter().chain(["expired", "queued"]);
        let jobs = ids.map(job).collect();
        let queued = self.written(term, Round { heartbeats, jobs, ..Round::default() }).await;
        let to = |job_id: &str, agent: &str, at: usize| {
            grant(&lease_of(job_id), agent, &queued[at..=at])
        };
        let grants: Vec<Grant> = vec![
            to("done", "ann", 0),
            to("asked", "ann", 1),
            to("stray", "bob", 2),
            to("of dead", "dead", 3),
            to("expired", "bob", 4),
        ];
        self.written(term, Round { grants, ..Round::default() }).await;
        queued[5..].to_vec()
    }

    async fn asked(
        &self,
        store: &PostgresStore,
        term: &Term,
        given: &Given,
    ) -> Result<(), StoreError> {
        match self.what {
            Fenced::TakeOver => store.take_over(term, Some("http://here")).await,
            Fenced::Write => {
                let written = store.write(term, &everything(given)).await?;
                let known = [Verdict::Accepted, Verdict::Duplicate];
                assert!(known.contains(&written.verdicts[0]), "{written:?}");
                Ok(())
            }
        }
    }
}

/// A round with every kind of statement, each of which has something to do.
fn everything(given: &Given) -> Round {
    Round {
        heartbeats: vec![heartbeat("ann"), heartbeat("new")],
        results: vec![success("done")],
        recalls: vec![recall("asked")],
        burials: vec![named("dead")],
        reaping: Some(Reaping {
            strays: vec![lease_of("stray")],
            ..emptied(&named("dead"))
                .map(|one| Reaping { run_out: Some(EVERYTHING), ..one })
                .unwrap()
        }),
        jobs: vec![job("later")],
        grants: vec![grant(&lease_of("queued"), "ann", given)],
        ..Round::default()
    }
}

#[async_trait]
impl Call for Led<'_> {
    type Session = PostgresStore;
    type Given = Given;

    fn name(&self) -> String {
        format!("{:?}", self.what)
    }

    fn tables(&self) -> Vec<&'static str> {
        TABLES.to_vec()
    }

    async fn prepare(&self, term: &Term) -> Given {
        self.owner.batch_execute(WIPE).await.unwrap();
        let given = match self.what {
            // The first change of a term is its takeover; what comes before it is not by this one.
            Fenced::TakeOver => self.filled(term).await,
            Fenced::Write => {
                self.store.take_over(term, None).await.unwrap();
                self.filled(term).await
            }
        };
        self.owner.batch_execute(RUN_OUT).await.unwrap();
        given
    }

    async fn connect(&self, url: &PostgresUrl) -> PostgresStore {
        store(url)
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

fn store(url: &PostgresUrl) -> PostgresStore {
    let limits = Limits { read: secs(20), write: secs(20) };
    let patience = tenure_jobs::store::Patience { events_kept: EVENTS_KEPT, ..PATIENCE };
    PostgresStore::new(url, limits, patience)
}

async fn no_message_that_fails_lets_a_write_by(version: u32) {
    let server = Postgres::of_version(version).await.unwrap();
    let mut owner = server.connect().await.unwrap();
    migrate(&mut owner).await;
    let store = store(&server.url().parse().unwrap());
    let trial = Trial::on(&server, "postgres", "tenure_leases", SCOPE).await;
    let mut tallies = Vec::new();
    for what in [Fenced::TakeOver, Fenced::Write] {
        tallies.push(trial.of(&Led { owner: &owner, store: &store, what }).await);
    }
    Tally::judge(&format!("jobs on Postgres {version}"), &tallies);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_that_fails_lets_a_write_by_on_15() {
    no_message_that_fails_lets_a_write_by(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_that_fails_lets_a_write_by_on_18() {
    no_message_that_fails_lets_a_write_by(18).await;
}
