//! How terms begin and end.

use std::time::Duration;

use tenure::{BootInstant, Role, Timing};
use tenure_testkit::{eventually_true, millis, secs};

use crate::scene::{Behaviour, Diary, Noted, Scene, becomes};

/// A lease that outlasts every wait of a test: what ends or returns did so for another reason.
fn lasting() -> Timing {
    Timing::lease(secs(600)).drain_grace(secs(2)).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_work_before_the_term_is_released() {
    let scene = std::sync::Arc::new(Scene::new());
    let diary = Diary::default();
    let mut work = Noted::new(&diary, Behaviour::RunsUntilStopped);
    let (seen, at_stop) = (std::sync::Arc::clone(&scene), diary.clone());
    work.on_stop = Box::new(move || {
        at_stop.note(format!("lease runs: {}", !seen.lease_left().is_zero()));
    });
    let election = scene.candidate("one").work(work).start().unwrap();
    let gate = election.gate();
    becomes(&election, Role::Leader).await;
    diary.holds("lead 1").await;
    election.stop().await.unwrap();
    assert_eq!(diary.notes(), ["prepare 1", "lead 1", "lease runs: true", "stopped 1"]);
    assert!(scene.lease_left().is_zero(), "the term was released");
    assert!(!gate.is_leader());
    assert_eq!(scene.history(), [(1, Some("drained".to_owned()))]);
}

/// The lease and the pause between two looks are so long that neither can have ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_released_term_is_taken_over_at_once() {
    let scene = Scene::with(lasting());
    let one = scene.candidate("one").start().unwrap();
    becomes(&one, Role::Leader).await;
    let two = scene.candidate("two").start().unwrap();
    eventually_true("the second has seen the first", secs(10), async || {
        two.leadership().borrow().leader.is_some()
    })
    .await;
    one.stop().await.unwrap();
    becomes(&two, Role::Leader).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_lets_running_work_finish_and_stays_out_until_it_is_told() {
    let timing = Timing::lease(millis(1_500)).drain_grace(secs(2)).drain_cooldown(secs(600));
    let scene = Scene::with(timing.build().unwrap());
    let diary = Diary::default();
    let mut work = Noted::new(&diary, Behaviour::RunsUntilStopped);
    work.on_stop = Box::new(|| std::thread::sleep(Duration::from_millis(300)));
    let one = scene.candidate("one").work(work).start().unwrap();
    let epoch = becomes(&one, Role::Leader).await.unwrap();
    diary.holds("lead 1").await;
    let two = scene.candidate("two").start().unwrap();
    one.drain();
    becomes(&one, Role::Draining).await;
    let gate = one.gate();
    assert!(gate.require_leader().is_err(), "nothing new begins");
    assert!(gate.ensure_epoch(epoch).is_ok(), "what runs may finish");
    becomes(&two, Role::Leader).await;
    diary.holds("stopped 1").await;
    two.stop().await.unwrap();
    eventually_true("the drained one has seen that nobody leads", secs(10), async || {
        let seen = one.leadership().borrow().clone();
        seen.leader.is_none() && seen.last_epoch == tenure::Epoch::new(2)
    })
    .await;
    assert_eq!(scene.history().len(), 2, "it contends all the same");
    one.end_drain();
    assert_eq!(becomes(&one, Role::Leader).await, Some(tenure::Epoch::new(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_comes_back_after_a_while_when_nobody_took_over() {
    let scene = Scene::new();
    let election = scene.candidate("one").start().unwrap();
    let first = becomes(&election, Role::Leader).await.unwrap();
    let asked = BootInstant::now();
    election.drain();
    becomes(&election, Role::Follower).await;
    let second = becomes(&election, Role::Leader).await.unwrap();
    assert_eq!(second, first.next());
    let stayed_out = BootInstant::now().since(asked);
    assert!(stayed_out >= scene.timing.drain_cooldown(), "after {stayed_out:?} already");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_does_not_stop_keeps_its_term_from_being_released() {
    let scene = std::sync::Arc::new(Scene::new());
    let diary = Diary::default();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let mut work = Noted::new(&diary, Behaviour::RunsUntilStopped);
    work.on_stop = Box::new(move || {
        let _ = wait.lock().unwrap().recv();
    });
    let election = scene.candidate("one").work(work).start().unwrap();
    becomes(&election, Role::Leader).await;
    // Work that was not begun is not waited for.
    diary.holds("lead 1").await;
    let gate = election.gate();
    election.drain();
    eventually_true("the grace ends and the gate shuts", secs(10), async || {
        gate.open_until().is_none()
    })
    .await;
    assert!(!diary.notes().contains(&"stopped 1".to_owned()));
    assert!(!scene.lease_left().is_zero(), "released while the work was running");
    drop(go_on);
    diary.holds("stopped 1").await;
    eventually_true("the term is released", secs(10), async || scene.lease_left().is_zero()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_cannot_be_prepared_gives_the_term_up_to_another() {
    let scene = Scene::new();
    let diary = Diary::default();
    let broken = Noted::new(&diary, Behaviour::CannotPrepare);
    let one = scene.candidate("one").work(broken).start().unwrap();
    diary.holds("prepare 1").await;
    let two = scene.candidate("two").start().unwrap();
    becomes(&two, Role::Leader).await;
    assert!(one.gate().require_leader().is_err());
    assert!(!diary.notes().iter().any(|note| note.starts_with("lead")));
    assert_eq!(scene.history()[0], (1, Some("stalled".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_panics_never_runs_twice_under_one_epoch() {
    let scene = Scene::new();
    let diary = Diary::default();
    let election =
        scene.candidate("one").work(Noted::new(&diary, Behaviour::Panics)).start().unwrap();
    diary.holds("lead 3").await;
    let notes = diary.notes();
    let each_once = ["prepare 1", "lead 1", "prepare 2", "lead 2", "prepare 3", "lead 3"];
    assert_eq!(notes[..6], each_once);
    assert_eq!(scene.history()[0], (1, Some("work_ended".to_owned())));
    drop(election);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_makes_no_progress_loses_the_term_with_that_reason() {
    let scene = Scene::new();
    let diary = Diary::default();
    let stuck = Noted::new(&diary, Behaviour::MakesNoProgress);
    let election = scene.candidate("one").work(stuck).stall_timeout(millis(200)).start().unwrap();
    diary.holds("stopped 1").await;
    diary.holds("lead 2").await;
    assert_eq!(scene.history()[0], (1, Some("stalled".to_owned())));
    drop(election);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_enabled_never_contends_and_sees_who_leads() {
    let scene = Scene::new();
    let idle = scene.candidate("idle").enabled(false).start().unwrap();
    let one = scene.candidate("one").start().unwrap();
    becomes(&one, Role::Leader).await;
    eventually_true("the idle one has seen the leader", secs(10), async || {
        let seen = idle.leadership().borrow().leader.clone();
        seen.is_some_and(|(holder, _)| holder == "one")
    })
    .await;
    one.stop().await.unwrap();
    eventually_true("the idle one has seen it go", secs(10), async || {
        let seen = idle.leadership().borrow().clone();
        seen.leader.is_none() && seen.last_epoch == tenure::Epoch::new(1)
    })
    .await;
    tokio::time::sleep(scene.timing.drain_cooldown() * 2).await;
    assert!(!idle.gate().is_leader());
    assert_eq!(scene.history().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_fence_ends_the_term_that_it_carried_and_no_newer_one() {
    let scene = Scene::new();
    let election = scene.candidate("one").start().unwrap();
    let first = becomes(&election, Role::Leader).await.unwrap();
    let refusal = |epoch| tenure::fence::FenceError::Refused {
        epoch,
        fence: tenure::Epoch::ZERO,
        message: "the fence stands elsewhere".to_owned(),
    };
    election.report(&refusal(first));
    becomes(&election, Role::Follower).await;
    let second = becomes(&election, Role::Leader).await.unwrap();
    assert!(second > first);
    election.report(&refusal(first));
    // Heard after it: what ends the term now is the stop, unless the refusal has ended it.
    election.stop().await.unwrap();
    let ends = [(1, Some("fence_refused".to_owned())), (2, Some("drained".to_owned()))];
    assert_eq!(scene.history(), ends);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_election_shuts_its_gate() {
    let scene = Scene::with(lasting());
    let diary = Diary::default();
    let work = Noted::new(&diary, Behaviour::RunsUntilStopped);
    let election = scene.candidate("one").work(work).start().unwrap();
    becomes(&election, Role::Leader).await;
    diary.holds("lead 1").await;
    let gate = election.gate();
    drop(election);
    eventually_true("the gate shuts", secs(10), async || !gate.is_leader()).await;
    diary.holds("stopped 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_another_host_ends_the_election_with_a_message() {
    let scene = Scene::new();
    let one = scene.candidate("one").start().unwrap();
    becomes(&one, Role::Leader).await;
    drop(one);
    let leases = rusqlite::Connection::open(scene.data().with_extension("db-lease")).unwrap();
    eventually_true("the file is free", secs(5), async || {
        leases.execute("UPDATE tenure_leases SET host = 'elsewhere'", []).is_ok()
    })
    .await;
    let mut two = scene.candidate("two").start().unwrap();
    let ended = two.ended().await.unwrap_err().to_string();
    assert!(ended.contains("elsewhere") && ended.contains("one machine"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_another_boot_has_expired() {
    let scene = Scene::new();
    let one = scene.candidate("one").start().unwrap();
    let first = becomes(&one, Role::Leader).await.unwrap();
    drop(one);
    let leases = rusqlite::Connection::open(scene.data().with_extension("db-lease")).unwrap();
    let reboot = "UPDATE tenure_leases SET boot_id = 'the last one', expires_at = 9000000000000";
    eventually_true("the file is free", secs(5), async || leases.execute(reboot, []).is_ok()).await;
    let two = scene.candidate("two").start().unwrap();
    assert_eq!(becomes(&two, Role::Leader).await, Some(first.next()));
}

/// The election has a thread and connections of its own: a runtime that is stuck costs it nothing.
#[test]
fn work_that_blocks_its_runtime_does_not_starve_the_renewals() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scene = Scene::new();
    runtime.block_on(async {
        let election = scene.candidate("one").start().unwrap();
        let epoch = becomes(&election, Role::Leader).await.unwrap();
        std::thread::sleep(scene.timing.lease_duration() * 2);
        assert!(election.gate().ensure_epoch(epoch).is_ok());
    });
}

/// Leases are in a file of their own, because SQLite's busy handler is unfair.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_write_to_the_data_does_not_block_the_renewals() {
    let scene = Scene::new();
    let election = scene.candidate("one").start().unwrap();
    let epoch = becomes(&election, Role::Leader).await.unwrap();
    let data = rusqlite::Connection::open(scene.data()).unwrap();
    data.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::time::sleep(scene.timing.lease_duration() * 2).await;
    assert!(election.gate().ensure_epoch(epoch).is_ok());
    data.execute_batch("ROLLBACK").unwrap();
}
