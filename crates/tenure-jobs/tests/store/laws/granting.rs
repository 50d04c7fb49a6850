//! Jobs on their way out.

use tenure_jobs::{
    job::{NewJob, State},
    round::{Round, Task},
};

use crate::scene::{Backend, PATIENCE, Scene, grant, job, json, recall};

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.job_id.as_str()).collect()
}

pub async fn a_queued_job_is_handed_over_with_all_that_its_agent_needs(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let payload = json("{ \"n\": 1.0,  \"e\": \"\\u00e9\" }");
    let pinned_agent = Some("ann".to_owned());
    let at = scene.submit([NewJob { payload, pinned_agent, ..job("a") }]).await.remove(0);
    let task = scene.grant(grant("l", "ann", &[at])).await.remove(0);
    assert_eq!((task.row, task.job_epoch), at);
    assert_eq!((&*task.job_id, &*task.op), ("a", "copy"));
    assert_eq!(task.payload.get(), "{ \"n\": 1.0,  \"e\": \"\\u00e9\" }");
    assert_eq!(task.pinned_agent.as_deref(), Some("ann"));

    let leased = scene.job("a").await;
    assert_eq!((leased.state, leased.job_epoch), (State::Leased, 1));
    assert_eq!((leased.lease_id.as_deref(), leased.leased_by.as_deref()), (Some("l"), Some("ann")));
    let left = scene.left("a").await;
    assert!(left <= PATIENCE.job_lease && left > PATIENCE.job_lease * 9 / 10, "{left:?}");
}

pub async fn a_job_is_handed_over_only_under_the_epoch_that_it_has(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let (row, _) = scene.lease(job("a"), "ann").await;
    scene.recall(recall("a")).await;
    let before = scene.everything().await;
    for epoch in [1, 3] {
        assert_eq!(ids(&scene.grant(grant("l", "bob", &[(row, epoch)])).await), [""; 0]);
    }
    assert_eq!(scene.everything().await, before);
    let tasks = scene.grant(grant("l", "bob", &[(row, 2)])).await;
    assert_eq!((ids(&tasks), tasks[0].job_epoch), (vec!["a"], 2));
}

pub async fn a_job_that_is_granted_twice_is_handed_over_once(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.submit([job("a")]).await;
    assert_eq!(scene.grant(grant("l", "ann", &at)).await.len(), 1);
    let before = scene.everything().await;
    assert_eq!(ids(&scene.grant(grant("m", "bob", &at)).await), [""; 0]);
    assert_eq!(ids(&scene.grant(grant("n", "ann", &at)).await), [""; 0]);
    assert_eq!(scene.everything().await, before);
}

/// The queue may be wrong: whoever is told that it has the job must be who the database says has it.
pub async fn a_job_that_two_leases_of_a_round_want_is_the_one_leases_that_got_it(
    backend: &dyn Backend,
) {
    let scene = Scene::begin(backend).await;
    for (round, count) in [("a", 1), ("b", 40)] {
        let jobs = (0..count).map(|at| job(&format!("{round}{at:02}")));
        let at = scene.submit(jobs).await;
        let back: Vec<_> = at.iter().rev().copied().collect();
        let (ann, bob) = (format!("{round} ann"), format!("{round} bob"));
        let grants = vec![grant(&ann, "ann", &at), grant(&bob, "bob", &back)];
        let tasks = scene.write(Round { grants, ..Round::default() }).await.tasks;
        assert_eq!(tasks.iter().map(Vec::len).sum::<usize>(), count, "each once");
        for (lease, tasks) in [ann, bob].iter().zip(&tasks) {
            for task in tasks {
                let has = scene.job(&task.job_id).await.lease_id;
                assert_eq!(has.as_ref(), Some(lease), "{} was handed to another", task.job_id);
            }
        }
    }
}

pub async fn what_has_ended_is_not_handed_over(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.lease(job("a"), "ann").await;
    scene.end("a").await;
    let before = scene.everything().await;
    assert_eq!(ids(&scene.grant(grant("l", "bob", &[at])).await), [""; 0]);
    assert_eq!(ids(&scene.grant(grant("l", "bob", &[(at.0 + 1, 1)])).await), [""; 0]);
    assert_eq!(scene.everything().await, before);
}

pub async fn tasks_come_in_the_order_picked(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.submit(["a", "b", "c", "d", "e"].map(job)).await;
    let grants = vec![
        grant("l", "ann", &[at[3], at[0], at[4]]),
        grant("m", "bob", &[]),
        grant("n", "bob", &[at[2], at[3], at[1]]),
    ];
    let tasks = scene.write(Round { grants, ..Round::default() }).await.tasks;
    let picked: Vec<_> = tasks.iter().map(|tasks| ids(tasks)).collect();
    assert_eq!(picked[1], [""; 0]);
    let with_d = (vec!["d", "a", "e"], vec!["c", "b"]);
    let without_d = (vec!["a", "e"], vec!["c", "d", "b"]);
    let picked = (picked[0].clone(), picked[2].clone());
    assert!(picked == with_d || picked == without_d, "{picked:?}");
}

pub async fn a_lease_is_kept_unless_it_got_nothing(backend: &dyn Backend) {
    let scene = Scene::begin(backend).await;
    let at = scene.submit([job("a"), job("b")]).await;
    let grants =
        vec![grant("l", "ann", &at), grant("m", "bob", &[(at[0].0, 7)]), grant("n", "eve", &[])];
    scene.write(Round { grants, ..Round::default() }).await;
    let leases = backend.rows("tenure_job_leases").await;
    assert_eq!(leases.len(), 1, "{leases:?}");
    assert_eq!((&leases[0]["lease_id"], &leases[0]["agent"]), (&"l".into(), &"ann".into()));
    assert_eq!(leases[0]["namespace"], "default");
}
