//! A takeover comes through sixteen busy writers of the term before it (lesson 8).
//!
//! New sharers of the fence row pass an update that waits for it. What ends the wait is that the fence
//! refuses an expired or foreign lease before it locks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use futures_util::future::join_all;
use tenure::{
    Term, Timing,
    fence::{Fence, PostgresFence, Raised},
};
use tenure_testkit::{eventually, eventually_true, secs};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::server::{Server, attempt, fence_call, lease_rows, over, term, waiting};

const WRITERS: i32 = 16;

/// Sessions that write in a term without a pause, refused or not, until they are told to stop.
struct Writers {
    stop: Arc<AtomicBool>,
    written: Vec<Arc<AtomicU64>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Writers {
    async fn start(server: &Server, term: &Term) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rows = "INSERT INTO orders SELECT n, 'new' FROM generate_series(2, 100) AS n";
        server.session().await.batch_execute(rows).await.expect("an order for each");
        let written: Vec<_> = (0..WRITERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let mut tasks = Vec::new();
        for (order, written) in (2..).zip(&written) {
            let (session, term) = (server.session().await, term.clone());
            let (stop, written) = (Arc::clone(&stop), Arc::clone(written));
            tasks.push(tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    if write(&session, &term, order).await {
                        written.fetch_add(1, Relaxed);
                    }
                }
            }));
        }
        let writers = Self { stop, written, tasks };
        eventually_true("every writer has written", secs(20), async || {
            writers.written.iter().all(|written| written.load(Relaxed) > 2)
        })
        .await;
        writers
    }

    async fn stop(self) {
        self.stop.store(true, Relaxed);
        for ended in join_all(self.tasks).await {
            ended.expect("writers are written to or refused, and nothing else");
        }
    }
}

/// Holds the fence for a few milliseconds, as a transaction with some work in it does.
async fn write(session: &Client, term: &Term, order: i32) -> bool {
    let fence = fence_call(term);
    let update = format!("UPDATE orders SET state = 'paid' WHERE id = {order}");
    let transaction = format!("BEGIN; {fence}; {update}; SELECT pg_sleep(0.05); COMMIT");
    let written = attempt(session, &transaction).await;
    assert!(written.is_ok() || written == over(), "{written:?}");
    written.is_ok()
}

/// The fence of a node whose calls the server ends after 2.4 s.
fn impatient(server: &Server) -> PostgresFence {
    let timing = Timing::lease(secs(60)).call_timeout(secs(3)).build().expect("a lease");
    PostgresFence::new(server.url(), timing)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_an_expired_holder_do_not_starve_a_takeover() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let writers = Writers::start(&server, &old).await;

    server.expire().await;
    let raised = impatient(&server).raise(&term("b", 2), &lease_rows()).await;
    assert_eq!(raised.expect("within one call"), Raised::Raised);
    writers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_a_valid_lease_do_not_starve_a_takeover_once_the_lock_names_the_next_term() {
    let server = Server::start().await;
    let old = server.lead("a").await;
    let writers = Writers::start(&server, &old).await;

    let (new, fence) = (term("b", 2), impatient(&server));
    let raise = tokio::spawn(async move {
        eventually("the raise, tried again and again", secs(30), async || {
            fence.raise(&new, &lease_rows()).await.ok()
        })
        .await
    });
    let session = server.session().await;
    eventually_true("the raise waits", secs(10), async || {
        raise.is_finished() || waiting(&session).await > 0
    })
    .await;
    let take = "UPDATE tenure_leases SET holder_id = 'b', lease_epoch = 2";
    session.batch_execute(take).await.unwrap();

    assert_eq!(raise.await.unwrap(), Raised::Raised);
    writers.stop().await;
}
