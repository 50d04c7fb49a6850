//! Jobs on their way in.

use sha2::{Digest, Sha256};
use tenure_jobs::{
    job::{NewJob, State},
    queue::Queued,
    round::{Round, Submitted},
};

use crate::scene::{Backend, Scene, job, job_in, json};

fn jobs(jobs: Vec<NewJob>) -> Round {
    Round { jobs, ..Round::default() }
}

fn other(job_id: &str) -> NewJob {
    NewJob { payload: json("2"), content_hash: Sha256::digest("2").into(), ..job(job_id) }
}

pub async fn a_job_is_stored_and_queued(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let asked = NewJob { priority: 3, pinned_agent: Some("ann".to_owned()), ..job("a") };
    let written = scene.write(jobs(vec![asked.clone()])).await;
    assert_eq!(written.submitted, [Submitted::Stored]);
    let stored = scene.job("a").await;
    assert_eq!((stored.state, stored.job_epoch), (State::Queued, 1));
    let waiting = scene.store().queued(3, 0, 10).await.unwrap();
    assert_eq!(written.queued, [Queued::of(&asked, waiting[0].row)]);
    assert_eq!(written.queued, waiting);
}

pub async fn the_same_job_again_is_the_same_job(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.submit([job("a")]).await;
    let before = scene.everything().await;
    let written = scene.write(jobs(vec![job("a")])).await;
    assert_eq!(written.submitted, [Submitted::Stored]);
    assert_eq!(written.queued, []);
    assert_eq!(scene.everything().await, before);
    assert_eq!(backend.rows("tenure_jobs").await.len(), 1);
}

pub async fn other_content_under_an_id_is_a_conflict(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.submit([job("a")]).await;
    let before = scene.everything().await;
    let written = scene.write(jobs(vec![other("a")])).await;
    assert_eq!((written.submitted, written.queued), (vec![Submitted::Conflict], vec![]));
    assert_eq!(scene.everything().await, before);
}

pub async fn an_id_in_two_namespaces_is_two_jobs(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let elsewhere = NewJob { namespace: "b".to_owned(), ..other("a") };
    let written = scene.write(jobs(vec![job("a"), elsewhere])).await;
    assert_eq!(written.submitted, [Submitted::Stored, Submitted::Stored]);
    assert_eq!(scene.job("a").await.payload.get(), "{}");
    assert_eq!(scene.job_in("b", "a").await.payload.get(), "2");
    assert!(scene.store().job("c", "a").await.unwrap().is_none());
}

pub async fn ids_are_told_apart_by_case(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let all = [job("a"), job("A"), job_in("DEFAULT", "a")];
    assert_eq!(scene.submit(all).await.len(), 3);
}

pub async fn only_what_is_new_is_queued(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    scene.submit([job("a"), job("c")]).await;
    let asked = vec![job("d"), job("a"), other("c"), job_in("b", "a")];
    let written = scene.write(jobs(asked)).await;
    let (stored, conflict) = (Submitted::Stored, Submitted::Conflict);
    assert_eq!(written.submitted, [stored, stored, conflict, stored]);
    let mut new: Vec<_> = written.queued.iter().map(|queued| queued.row).collect();
    new.sort_unstable();
    let waiting = scene.store().queued(1, 0, 10).await.unwrap();
    let all: Vec<_> = waiting.iter().map(|queued| queued.row).collect();
    assert_eq!((all.len(), &all[2..]), (4, &new[..]), "the later ones, in the order asked");
    assert_eq!((&*waiting[2].namespace, &*waiting[3].namespace), ("default", "b"));
}
