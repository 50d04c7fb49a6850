//! The first change of a term.

use tenure_http::KnownLeader;
use tenure_jobs::{
    agent::Heartbeat,
    job::State,
    round::{Emptied, OpenLease, Reaping, Round, RunOut, Verdict},
    store::StoreError,
};

use crate::scene::{
    Backend, PATIENCE, SCOPE, Scene, grant, heartbeat, heartbeat_in, job, job_in, lease_of, recall,
    success,
};

pub async fn nobody_has_led_an_empty_database(backend: &dyn Backend) {
    assert_eq!(backend.store().leader().await.unwrap(), None);
    backend.term_of(SCOPE).await;
    assert_eq!(backend.store().leader().await.unwrap(), None, "it has not taken over yet");
}

pub async fn the_last_leader_and_where_it_is_are_known(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    for url in [Some("http://b:1"), None, Some("http://c")] {
        let epoch = scene.next_term().await;
        let number = scene.last_event().await;
        scene.take_over(url).await;
        let id = scene.term.holder().as_str().to_owned();
        let told = match url {
            Some(url) => format!("[all] role.changed by {id}: {url}"),
            None => format!("[all] role.changed by {id}"),
        };
        assert_eq!(scene.told_after(number).await, [told]);
        let known = KnownLeader { epoch: scene.term.epoch(), id, url: url.map(str::to_owned) };
        assert_eq!(scene.store().leader().await.unwrap(), Some(known));
        assert_eq!(backend.rows("tenure_job_leaders").await.last().unwrap()["leader_epoch"], epoch);
    }
    assert_eq!(backend.rows("tenure_job_leaders").await.len(), 4);
    assert_eq!(backend.rows("tenure_job_changes").await[0]["scope"], SCOPE);
}

pub async fn what_ran_out_counts_where_it_is_spared_and_nowhere_else(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    for id in ["heard", "done", "left"] {
        scene.lease(job(id), "ann").await;
        backend.set_left(id, -1_000).await;
    }
    let before = backend.rows("tenure_jobs").await;
    let heard = Heartbeat { leases: Some(vec![lease_of("heard")]), ..heartbeat("ann") };
    let told = scene.hear([heard.clone()]).await;
    assert_eq!((told.gone, told.extended), (vec![vec![lease_of("heard")]], 0));
    assert_eq!(scene.report(success("done")).await, Verdict::StaleLease { job_epoch: 1 });
    assert_eq!(backend.rows("tenure_jobs").await, before);
    scene.next_term().await;
    scene.take_over(None).await;
    scene.lease(job("own"), "ann").await;
    backend.set_left("own", -1_000).await;
    let (heartbeats, results) = (vec![heard], vec![success("done"), success("own")]);
    let round = Round { heartbeats, results, spares: true, ..Round::default() };
    let written = scene.write(round).await;
    let own = Verdict::StaleLease { job_epoch: 1 };
    assert_eq!((written.verdicts, written.extended), (vec![Verdict::Accepted, own], 1));
    assert_eq!(written.gone, [Vec::<String>::new()]);
    assert!(scene.left("heard").await > PATIENCE.job_lease / 2);
    let spared = RunOut { spares: true, agents: false };
    assert!(scene.store().has_run_out(&scene.term, spared).await.unwrap());
    let reaping = Some(Reaping { run_out: Some(spared), ..Reaping::default() });
    let back = scene.write(Round { reaping, ..Round::default() }).await.queued;
    assert_eq!(back.len(), 1, "its own it does not spare");
    assert!(!scene.store().has_run_out(&scene.term, spared).await.unwrap());
    assert_eq!(scene.reap().await.queued.len(), 1, "nobody spoke for it in time");
}

pub async fn what_an_agent_had_that_works_no_more_is_queued_in_every_namespace(
    backend: &dyn Backend,
) {
    let scene = Scene::begin(backend).await;
    scene.hear([heartbeat("ann"), heartbeat_in("b", "ann")]).await;
    scene.lease(job("a"), "ann").await;
    scene.lease(job_in("b", "there"), "ann").await;
    scene.lease(job("bobs"), "bob").await;
    scene.lease(job("ended"), "ann").await;
    scene.end("ended").await;
    let number = scene.last_event().await;
    let emptied = Emptied { namespace: None, name: "ann".to_owned(), reason: "it is dead" };
    let reaping = Some(Reaping { emptied: Some(emptied), ..Reaping::default() });
    let written = scene.write(Round { reaping, ..Round::default() }).await;
    assert_eq!((written.reaped.emptied, written.queued.len()), (2, 2));
    let told = ["job.expired a@2 by ann: it is dead", "[b] job.expired there@2 by ann: it is dead"];
    assert_eq!(scene.told_after(number).await, told);
    for (namespace, id) in [("default", "a"), ("b", "there")] {
        let back = scene.job_in(namespace, id).await;
        assert_eq!((back.state, back.job_epoch, back.lease_id), (State::Queued, 2, None));
        assert_eq!(back.lost_leases, 0, "it was not the job's fault");
    }
    let bobs = scene.job("bobs").await;
    assert_eq!((bobs.state, bobs.lease_id), (State::Leased, Some(lease_of("bobs"))));
    assert_eq!(scene.job("ended").await.state, State::Succeeded);
    assert_eq!(scene.agent("ann").await.state, "alive", "it is not buried by that");
}

pub async fn open_leases_of_earlier_terms_are_inherited(backend: &dyn Backend) {
    let mut scene = Scene::begin(backend).await;
    assert!(scene.store().inherited(&scene.term).await.unwrap().is_empty());
    let both = scene.submit([job("one"), job("two")]).await;
    scene.grant(grant("of both", "ann", &both)).await;
    for id in ["ended", "back"] {
        scene.lease(job(id), "ann").await;
    }
    scene.lease(job_in("b", "there"), "bob").await;
    scene.end("ended").await;
    scene.recall(recall("back")).await;
    assert!(scene.store().inherited(&scene.term).await.unwrap().is_empty(), "they are this term's");
    for _ in 0..2 {
        scene.next_term().await;
        scene.take_over(None).await;
        scene.hear([heartbeat("ann")]).await;
        scene.lease(job(&format!("of term {}", scene.term.epoch().get())), "ann").await;
    }
    let mut inherited = scene.store().inherited(&scene.term).await.unwrap();
    inherited.sort_by(|one, other| one.lease_id.cmp(&other.lease_id));
    let open = |lease_id: &str, namespace: &str, agent: &str| {
        let [lease_id, namespace, agent] = [lease_id, namespace, agent].map(str::to_owned);
        OpenLease { lease_id, namespace, agent }
    };
    assert_eq!(
        inherited,
        [
            open("lease of of term 2", "default", "ann"),
            open("lease of there", "b", "bob"),
            open("of both", "default", "ann"),
        ]
    );
}

pub async fn a_leader_of_another_scope_is_refused_and_changes_nothing(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.lease(job("a"), "ann").await;
    scene.hear([heartbeat("ann")]).await;
    let before = scene.everything().await;
    let other = backend.term_of("others").await;
    let refused = scene.store().take_over(&other, Some("http://b")).await;
    let Err(StoreError::OtherScope { theirs, ours }) = refused else { panic!("{refused:?}") };
    assert_eq!((&*theirs, &*ours), (SCOPE, "others"));
    assert_eq!(scene.everything().await, before);
    scene.submit([job("b")]).await;
}
