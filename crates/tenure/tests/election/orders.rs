//! An operator who asks for a hand-over through the database.

use tenure::{
    Candidate, Election, HolderId, Role, Scope, Timing,
    fence::{PostgresFence, sqlite::by_hand},
    lock::postgres_lease::{LeaseTable, PostgresLease},
    schema,
};
use tenure_database::{migrate, postgres::PostgresUrl, sqlite};
use tenure_testkit::{eventually_true, millis, postgres::Postgres, secs};

use crate::scene::{Scene, becomes};

/// Asks, or takes it back; what was asked.
fn ask(scene: &Scene, undo: bool) -> Option<i64> {
    let mut data = sqlite::open(&scene.data(), secs(1)).unwrap();
    let transaction = data.transaction().unwrap();
    let scope = tenure::Scope::new("jobs").unwrap();
    let asked = match undo {
        false => by_hand::drain(&transaction, &scope).unwrap().map(|(epoch, _)| epoch.get()),
        true => by_hand::end_drain(&transaction, &scope).unwrap().then_some(0),
    };
    transaction.commit().unwrap();
    asked
}

fn patient() -> Timing {
    let timing = Timing::lease(millis(1_500)).drain_grace(secs(2)).drain_cooldown(secs(60));
    timing.build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_hands_over_when_the_database_says_so_and_comes_back_when_it_no_longer_does() {
    let scene = Scene::with(patient());
    assert_eq!(ask(&scene, false), None, "nobody leads");
    let one = scene.candidate("one").start().unwrap();
    let first = becomes(&one, Role::Leader).await.unwrap();
    let two = scene.candidate("two").start().unwrap();
    assert_eq!(ask(&scene, false), Some(first.get()));
    let second = becomes(&two, Role::Leader).await.unwrap();
    assert_eq!(second, first.next());
    assert_eq!(scene.history()[0], (first.get(), Some("drained".to_owned())));
    two.stop().await.unwrap();
    eventually_true("the drained one has seen that nobody leads", secs(10), async || {
        let seen = one.leadership().borrow().clone();
        seen.leader.is_none() && seen.last_epoch == second
    })
    .await;
    assert_eq!(scene.history().len(), 2, "drained, it stays out");
    assert_eq!(ask(&scene, true), Some(0));
    assert_eq!(becomes(&one, Role::Leader).await, Some(second.next()));
    assert_eq!(ask(&scene, true), None, "there was nothing to take back");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_to_an_earlier_term_does_not_end_a_later_one() {
    let timing = Timing::lease(millis(1_500)).drain_cooldown(millis(200)).build().unwrap();
    let scene = Scene::with(timing);
    let one = scene.candidate("one").start().unwrap();
    let first = becomes(&one, Role::Leader).await.unwrap();
    ask(&scene, false);
    becomes(&one, Role::Follower).await;
    let second = becomes(&one, Role::Leader).await.unwrap();
    assert_eq!(second, first.next(), "nobody else took over");
    let mut leadership = one.leadership();
    leadership.mark_unchanged();
    let ended = leadership.wait_for(|leadership| leadership.role != Role::Leader);
    tokio::select! {
        _ = ended => panic!("the old order ended the new term"),
        // Several looks at the orders.
        () = tokio::time::sleep(secs(2)) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_on_postgres_hands_over_when_the_database_says_so() {
    let postgres = Postgres::start().await.unwrap();
    let mut client = postgres.connect().await.unwrap();
    migrate::postgres::migrate(&mut client, schema::COMPONENT, &schema::POSTGRES).await.unwrap();
    let url: PostgresUrl = postgres.url().parse().unwrap();
    let start = |holder: &str| {
        let candidate = Candidate::new(Scope::new("jobs").unwrap(), HolderId::new(holder).unwrap());
        let table = LeaseTable::default();
        let lock = PostgresLease::new(url.clone(), table, candidate.clone(), patient()).unwrap();
        let fence = PostgresFence::new(url.clone(), patient());
        Election::builder(candidate, patient(), lock).fence(fence).start().unwrap()
    };
    let one = start("one");
    becomes(&one, Role::Leader).await;
    let two = start("two");
    let asked = client.query("SELECT epoch, holder FROM tenure_drain('jobs')", &[]).await.unwrap();
    assert_eq!((asked[0].get("epoch"), asked[0].get("holder")), (1_i64, "one"));
    becomes(&two, Role::Leader).await;
    two.stop().await.unwrap();
    let undone = client.query_one("SELECT tenure_end_drain('jobs')", &[]).await.unwrap();
    assert!(undone.get::<_, bool>(0));
    becomes(&one, Role::Leader).await;
    one.stop().await.unwrap();
    eventually_true("nobody leads, so nobody is asked", secs(5), async || {
        client.query("SELECT FROM tenure_drain('jobs')", &[]).await.unwrap().is_empty()
    })
    .await;
}
