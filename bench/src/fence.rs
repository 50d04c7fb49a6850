//! What the fence costs a one-row write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use futures_util::future::try_join_all;
use tenure::{
    Candidate, Epoch, HolderId, Scope, Term, Timing,
    fence::{self, Fence, FencedStatement, PostgresFence},
    lock::{
        Acquire, Lock,
        postgres_lease::{LeaseTable, PostgresLease},
    },
    schema,
};
use tenure_database::migrate;
use tenure_testkit::postgres::Postgres;
use tokio::sync::Mutex;
use tokio_postgres::{Client, types::Type};

use crate::figures::{beside, heading, median};

const PAIRS: usize = 10;
const SLICE: Duration = Duration::from_millis(1_500);
const UPDATE: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = $1";
const FENCED: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = $4";
const JOINED: &str = "WITH fence AS MATERIALIZED (SELECT tenure_fence($2, $3, $4))
                      UPDATE accounts SET balance = balance + 1 FROM fence WHERE id = $1";

#[derive(Clone, Copy)]
enum Write {
    /// `UPDATE` in autocommit.
    Plain,
    /// The same as a `FencedStatement`.
    Statement,
    /// The same, joined to the function `tenure_fence`.
    Joined,
    /// `BEGIN`, `UPDATE`, `COMMIT`.
    Transaction,
    /// The same through `fence::postgres::begin`.
    Fenced,
}

pub async fn run() -> Result<()> {
    let postgres = Postgres::with(&[("fsync", "on")]).await?;
    let mut client = postgres.connect().await?;
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await?;
    client
        .batch_execute(
            "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50);
             INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 10000) AS n",
        )
        .await?;
    let term = Arc::new(won(&postgres).await?);
    heading(
        "fence: one-row writes a second, with and without it, median of 10 interleaved pairs (fsync on)",
    );
    for connections in [8, 32] {
        for (name, plain, fenced) in [
            ("FencedStatement beside autocommit", Write::Plain, Write::Statement),
            ("tenure_fence() joined beside autocommit", Write::Plain, Write::Joined),
            ("fenced beside plain transaction", Write::Transaction, Write::Fenced),
        ] {
            let clients = try_join_all((0..connections).map(|_| postgres.connect())).await?;
            let clients: Vec<_> =
                clients.into_iter().map(|client| Arc::new(Mutex::new(client))).collect();
            pairs(name, &clients, &client, &term, plain, fenced).await?;
        }
    }
    Ok(())
}

async fn won(postgres: &Postgres) -> Result<Term> {
    let timing = Timing::lease(Duration::from_secs(3600)).build()?;
    let candidate = Candidate::new(Scope::new("bench")?, HolderId::fresh());
    let (url, table) = (postgres.url().parse()?, LeaseTable::default());
    let mut lock = PostgresLease::new(url, table, candidate.clone(), timing)?;
    let Acquire::Granted(grant) = lock.acquire(Epoch::ZERO).await? else { anyhow::bail!("held") };
    let term = Term::granted(candidate.scope, candidate.holder, grant.epoch);
    let fence = PostgresFence::new(postgres.url().parse()?, timing);
    anyhow::ensure!(fence.raise(&term, &lock.place()).await? == fence::Raised::Raised);
    Ok(term)
}

async fn pairs(
    name: &str,
    clients: &[Arc<Mutex<Client>>],
    probe: &Client,
    term: &Arc<Term>,
    plain: Write,
    fenced: Write,
) -> Result<()> {
    let (mut without, mut with, mut ratios, mut members) = (vec![], vec![], vec![], vec![]);
    for _ in 0..PAIRS {
        let bare = rate(clients, term, plain).await?;
        let before = multixacts(probe).await?;
        let ours = rate(clients, term, fenced).await?;
        members.push((multixacts(probe).await? - before) as f64 / (ours * SLICE.as_secs_f64()));
        without.push(bare);
        with.push(ours);
        ratios.push(ours / bare);
    }
    let what = format!("{name}, {} connections", clients.len());
    beside(&what, median(&mut with), "unfenced", median(&mut without), "/s");
    println!(
        "  {:<44} {:>10.2}      multixacts per fenced write {:.2}",
        "  median ratio of the pairs",
        median(&mut ratios),
        median(&mut members)
    );
    Ok(())
}

async fn multixacts(probe: &Client) -> Result<i64> {
    let next = "SELECT next_multixact_id::text::bigint FROM pg_control_checkpoint()";
    probe.batch_execute("CHECKPOINT").await?;
    Ok(probe.query_one(next, &[]).await?.get(0))
}

/// Writes a second with every client busy.
async fn rate(clients: &[Arc<Mutex<Client>>], term: &Arc<Term>, write: Write) -> Result<f64> {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let began = tenure::BootInstant::now();
    let running = clients.iter().enumerate().map(|(at, client)| {
        let (client, term) = (Arc::clone(client), Arc::clone(term));
        let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
        tokio::spawn(async move {
            busy(&mut *client.lock().await, &term, write, at, &stop, &done).await
        })
    });
    let running: Vec<_> = running.collect();
    tokio::time::sleep(SLICE).await;
    stop.store(true, Ordering::Relaxed);
    for task in running {
        task.await??;
    }
    let spent = tenure::BootInstant::now().since(began);
    Ok(done.load(Ordering::Relaxed) as f64 / spent.as_secs_f64())
}

async fn busy(
    client: &mut Client,
    term: &Term,
    write: Write,
    at: usize,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<()> {
    let update = client.prepare_typed(UPDATE, &[Type::INT8]).await?;
    let types = [Type::INT8, Type::TEXT, Type::TEXT, Type::INT8];
    let joined = client.prepare_typed(JOINED, &types).await?;
    let fenced = FencedStatement::prepare(client, term.scope(), FENCED).await?;
    let (scope, holder, epoch) =
        (term.scope().as_str(), term.holder().as_str(), term.epoch().get());
    let mut id = at as i64 * 300;
    while !stop.load(Ordering::Relaxed) {
        id = at as i64 * 300 + (id + 1) % 300 + 1;
        match write {
            Write::Plain => {
                client.execute(&update, &[&id]).await?;
            }
            Write::Statement => {
                fenced.execute(client, term, &[&id]).await?;
            }
            Write::Joined => {
                client.execute(&joined, &[&id, &scope, &holder, &epoch]).await?;
            }
            Write::Transaction => {
                client.batch_execute("BEGIN").await?;
                client.execute(&update, &[&id]).await?;
                client.batch_execute("COMMIT").await?;
            }
            Write::Fenced => {
                let transaction = fence::postgres::begin(client, term).await?;
                transaction.execute(&update, &[&id]).await?;
                transaction.commit().await?;
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
