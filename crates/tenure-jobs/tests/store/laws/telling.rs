//! Events: what is told, in which order, and for how long.

use tenure_jobs::{
    event::{Event, Span},
    round::{Round, Verdict},
    store::{Patience, Store},
};
use tenure_testkit::{eventually_true, secs};

use crate::scene::{
    Backend, EVERYTHING, PATIENCE, Scene, all_that_ran_out, grant, heartbeat_in, job, job_in,
    named, recall, success,
};

async fn span(store: &dyn Store) -> (i64, i64) {
    let Span { first, last, .. } = store.span(0).await.unwrap();
    (first, last)
}

fn numbers(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.number).collect()
}

pub async fn a_jobs_life_is_told_in_order(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let (row, _) = scene.lease(job("a"), "ann").await;
    scene.recall(recall("a")).await;
    scene.grant(grant("second", "bob", &[(row, 2)])).await;
    assert_eq!(scene.report(success("a")).await, Verdict::StaleJob { job_epoch: 2 });
    let mut last = success("a");
    (last.lease_id, last.job_epoch) = ("second".to_owned(), 2);
    assert_eq!(scene.report(last.clone()).await, Verdict::Accepted);
    assert_eq!(scene.report(last).await, Verdict::Duplicate);
    assert_eq!(
        scene.told_after(1).await,
        [
            "job.updated a@1: queued",
            "job.leased a@1 by ann",
            "job.expired a@2 by ann: asked",
            "job.leased a@2 by bob",
            "job.result.rejected a@2 by bob: stale_job",
            "job.result.accepted a@2 by bob: succeeded",
            "job.completed a@2 by bob: succeeded",
            "job.result.duplicate a@2 by bob: succeeded",
        ]
    );
    let events = scene.store().events("default", 1, 100).await.unwrap();
    let told = &events[1];
    assert_eq!((&*told.kind, &*told.namespace), ("job.leased", "default"));
    assert_eq!((told.job_id.as_deref(), told.job_epoch), (Some("a"), Some(1)));
    assert_eq!((told.agent.as_deref(), told.detail.as_deref()), (Some("ann"), None));
    assert_eq!(told.leader_epoch, scene.term.epoch().get());
    assert!(events.is_sorted_by_key(|event| event.at));
    assert!(events.last().unwrap().at <= backend.now().await);
}

pub async fn events_are_numbered_without_gaps(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    let at = scene.submit((0..20).map(|at| job(&format!("{at:02}")))).await;
    scene.submit([job_in("b", "there")]).await;
    scene.grant(grant("l", "ann", &at[..9])).await;
    let recalls = (0..5).map(|at| recall(&format!("{at:02}"))).collect();
    scene.write(Round { recalls, ..Round::default() }).await;
    // What changes nothing takes no number.
    scene.reap().await;
    scene.write(Round { jobs: vec![job("00")], ..Round::default() }).await;
    let wrong = tenure_jobs::job::NewJob { priority: 9, ..job("wrong") };
    let wrong = Round { jobs: vec![job("right"), wrong], ..Round::default() };
    assert!(scene.store().write(&scene.term, &wrong).await.is_err());
    scene.next_term().await;
    scene.take_over(None).await;
    scene.bury(named("ann")).await;
    let rows = backend.rows("tenure_job_events").await;
    let given: Vec<_> = rows.iter().filter_map(|row| row["event_number"].as_i64()).collect();
    assert_eq!(given, (1..=1 + 20 + 1 + 9 + 5 + 1 + 4).collect::<Vec<_>>());
    assert_eq!(span(scene.store()).await, (1, 41));
    let order: Vec<_> = rows[1..21].iter().map(|row| row["job_id"].as_str().unwrap()).collect();
    assert!(order.is_sorted(), "in the order asked: {order:?}");
}

pub async fn a_namespace_hears_of_itself_and_of_what_concerns_all(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    scene.submit([job("a"), job_in("b", "there"), job("c"), job_in("DEFAULT", "a")]).await;
    scene.hear([heartbeat_in("b", "ann")]).await;
    backend.set_silence("ann", PATIENCE.stale_after.as_millis() as i64).await;
    scene.reap().await;
    scene.next_term().await;
    scene.take_over(None).await;
    let heard = async |namespace| {
        let events = scene.store().events(namespace, 0, 100).await.unwrap();
        numbers(&events)
    };
    assert_eq!(heard("default").await, [1, 2, 4, 7]);
    assert_eq!(heard("b").await, [1, 3, 6, 7]);
    assert_eq!(heard("nobody").await, [1, 7]);
    let for_all = scene.store().events("b", 6, 7).await.unwrap().remove(0);
    assert_eq!((&*for_all.kind, &*for_all.namespace), ("role.changed", ""));
    assert_eq!(for_all.agent.as_deref(), Some(scene.term.holder().as_str()));
}

pub async fn events_are_read_between_two_numbers(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.submit(["a", "b", "c", "d"].map(job)).await;
    for (above, up_to, expected) in
        [(0, 2, vec![1, 2]), (2, 4, vec![3, 4]), (4, 99, vec![5]), (5, 99, vec![]), (3, 3, vec![])]
    {
        let events = scene.store().events("default", above, up_to).await.unwrap();
        assert_eq!(numbers(&events), expected, "{above} to {up_to}");
    }
}

pub async fn the_newest_events_are_kept(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let store = backend.another(Patience { events_kept: 3, ..PATIENCE });
    let reaps = Round { reaping: all_that_ran_out(), ..Round::default() };
    scene.submit([job("a"), job("b")]).await;
    assert!(!store.has_run_out(&scene.term, EVERYTHING).await.unwrap(), "there is room for three");
    store.write(&scene.term, &reaps).await.unwrap();
    assert_eq!(span(&*store).await, (1, 3));

    scene.submit((0..7).map(|at| job(&format!("{at}")))).await;
    assert!(store.has_run_out(&scene.term, EVERYTHING).await.unwrap());
    store.write(&scene.term, &reaps).await.unwrap();
    assert!(!store.has_run_out(&scene.term, EVERYTHING).await.unwrap());
    assert_eq!(span(&*store).await, (8, 10));
    assert_eq!(numbers(&store.events("default", 0, 99).await.unwrap()), [8, 9, 10]);
    scene.submit([job("c")]).await;
    assert_eq!(span(&*store).await, (8, 11));
}

/// Whatever the round itself tells counts too.
pub async fn a_reaping_round_leaves_no_more_events_than_are_kept(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let store = backend.another(Patience { events_kept: 3, ..PATIENCE });
    scene.lease(job("a"), "ann").await;
    backend.set_left("a", 0).await;
    let reaps = Round { reaping: all_that_ran_out(), ..Round::default() };
    store.write(&scene.term, &reaps).await.unwrap();
    assert_eq!(span(&*store).await, (2, 4));
    assert!(!store.has_run_out(&scene.term, EVERYTHING).await.unwrap());
}

pub async fn no_events_are_a_span_that_is_empty(backend: &dyn Backend) {
    assert_eq!(span(backend.store()).await, (1, 0));
    let scene = Scene::begin(backend).await;
    assert_eq!(span(scene.store()).await, (1, 1));
    let store = backend.another(Patience { events_kept: 0, ..PATIENCE });
    store
        .write(&scene.term, &Round { reaping: all_that_ran_out(), ..Round::default() })
        .await
        .unwrap();
    assert_eq!(span(&*store).await, (2, 1));
}

pub async fn whoever_listens_hears_of_a_write(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let news = backend.another(PATIENCE).news();
    eventually_true("it listens", secs(10), async || *news.borrow() > 0).await;
    let heard = *news.borrow();
    scene.submit([job("a")]).await;
    eventually_true("it hears", secs(10), async || *news.borrow() > heard).await;
}

/// A number alone is given anew after a restore; with the name of its term it is not.
pub async fn the_events_of_every_term_go_by_a_name_of_their_own(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    scene.submit([job("a")]).await;
    let first = scene.store().span(1).await.unwrap();
    assert_eq!((&first.history, first.last), (&first.history_there, 2));
    scene.next_term().await;
    scene.take_over(None).await;
    scene.submit([job("b")]).await;
    let second = scene.store().span(2).await.unwrap();
    assert_eq!((&second.history_there, second.last), (&first.history, 4));
    assert_ne!(second.history, first.history);
    let (old, new) = (first.history, second.history);
    let there: Vec<_> = [old.clone(), old.clone(), new.clone(), new.clone()].to_vec();
    for (number, history) in (1..).zip(&there) {
        assert_eq!(scene.store().span(number).await.unwrap().history_there, *history);
    }
    let told = scene.store().events("default", 0, 9).await.unwrap();
    assert_eq!(told.iter().map(|event| event.history.clone()).collect::<Vec<_>>(), there);
    assert_eq!(told[3].position().to_string(), format!("{new}-4"));
}
