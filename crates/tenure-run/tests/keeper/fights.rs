//! Children that fight back, and a supervisor that has lost its keeper, its descriptors, or both.

use std::{
    fs::{self, File},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tenure_database::BootInstant;
use tenure_run::{End, Kept, Program, Standby};
use tenure_testkit::{
    eventually, eventually_true,
    fighter::{Acts, Fighter},
    node::nothing_happens_for,
    secs,
};

use crate::scene::{Scene, assert_gone, exit_of, is_gone, pid_in};

async fn fights(scene: &Scene, feats: &str) -> (Fighter, Kept) {
    let fighter = Fighter::build(scene.folder.path()).unwrap();
    let program = Program { arguments: fighter.arguments(feats), ..scene.program("") };
    let kept = scene.runs(&program).await;
    (fighter, kept)
}

async fn has_acted(fighter: &Fighter) {
    eventually("it has acted", secs(10), async || fighter.acts()).await;
}

/// Fights begin when they are told to, and are under way when this returns.
async fn is_at_it(fighter: &Fighter) {
    has_acted(fighter).await;
    let Acts { count, .. } = fighter.acts().unwrap();
    fighter.hurry().unwrap();
    let goes_on = async || fighter.acts().unwrap().count > count + 10;
    eventually_true("it goes on", secs(10), goes_on).await;
}

/// Whoever says that nobody is left has proven it.
async fn assert_over(fighter: &Fighter, since: BootInstant) {
    nothing_happens_for(300).await;
    let Acts { count, last } = fighter.acts().unwrap();
    assert!(last <= since, "it acted {:?} after its end, {count} times in all", last.since(since));
}

async fn ends(fighter: &Fighter, kept: Kept) {
    let (_, lag) = kept.stop().await;
    assert_over(fighter, BootInstant::now()).await;
    assert!(lag < secs(10), "it fought until it ended by itself: {lag:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_passes_itself_on_by_fork_and_exit_is_ended_by_its_keeper() {
    for feats in ["", "crowd", "files", "still"] {
        let scene = Scene::new();
        let (fighter, kept) = fights(&scene, feats).await;
        is_at_it(&fighter).await;
        ends(&fighter, kept).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_kills_its_keeper_and_passes_itself_on_is_ended_by_the_supervisor() {
    for feats in ["kill", "kill crowd", "kill files", "kill still"] {
        let scene = Scene::new();
        let (fighter, mut kept) = fights(&scene, feats).await;
        is_at_it(&fighter).await;
        assert_eq!(exit_of(&mut kept).await, End::Unknown);
        ends(&fighter, kept).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_its_keeper_and_passes_itself_on_is_ended_by_the_supervisor() {
    for feats in ["stop", "stop crowd", "stop still"] {
        let scene = Scene::new();
        let (fighter, kept) = fights(&scene, feats).await;
        is_at_it(&fighter).await;
        ends(&fighter, kept).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_traces_its_keeper_is_ended_by_the_supervisor() {
    for feats in ["trace still", "trace stop still"] {
        let scene = Scene::new();
        let (fighter, kept) = fights(&scene, feats).await;
        is_at_it(&fighter).await;
        ends(&fighter, kept).await;
    }
}

/// As many as the process may have; they are closed with this value.
struct Exhausted(Vec<File>);

impl Exhausted {
    fn descriptors() -> Self {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        Self(std::iter::from_fn(|| File::open("/dev/null").ok()).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_descriptor_left_the_supervisor_still_proves_that_nobody_is() {
    for feats in ["still", ""] {
        let scene = Scene::new();
        let (fighter, mut kept) = fights(&scene, feats).await;
        has_acted(&fighter).await;
        let is_told = fighter.about_to_hurry().unwrap();
        let exhausted = Exhausted::descriptors();
        assert!(exhausted.0.len() > 10, "there were none to begin with");
        kill_process(kept.keeper(), Signal::KILL).unwrap();
        assert_eq!(exit_of(&mut kept).await, End::Unknown);
        is_told.hurry().unwrap();
        kept.stop().await;
        let since = BootInstant::now();
        drop(exhausted);
        assert_over(&fighter, since).await;
    }
}

/// A keeper is taken for an orphan by nobody, however young it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_keeper_is_not_ended_with_what_a_lost_one_left_behind() {
    let scene = Scene::new();
    let nursery = scene.nursery.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let young = tokio::spawn(async move {
        while !told.load(Ordering::Relaxed) {
            let mut keeper = nursery.keeper().unwrap();
            let mut looks = 0..20;
            while looks.next().is_some() {
                assert!(keeper.is_there(), "somebody has ended a keeper that waited");
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..40 {
        let kept = scene.runs(&scene.program("exec sleep 1000")).await;
        kill_process(kept.keeper(), Signal::KILL).unwrap();
        kept.stop().await;
    }
    is_over.store(true, Ordering::Relaxed);
    young.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn generations_end_one_after_the_other() {
    let scene = Scene::new();
    let script = "trap '' TERM
                  f() { sh -c 'echo $PPID' >> all; [ $1 = 1 ] || (f $(($1 - 1))); sleep 1000; }; f 20";
    let kept = scene.runs(&scene.program(script)).await;
    let all = || fs::read_to_string(scene.path("all")).unwrap_or_default();
    eventually_true("all are there", secs(10), async || all().lines().count() == 20).await;
    kill_process(kept.keeper(), Signal::KILL).unwrap();
    kept.stop().await;
    let pids =
        all().lines().map(|line| Pid::from_raw(line.parse().unwrap()).unwrap()).collect::<Vec<_>>();
    assert_gone(&pids);
}

/// Whoever loses the supervisor too, a moment later, finds nobody left.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_standbys_lost_keeper_leaves_behind_is_ended_at_once() {
    let scene = Scene::new();
    let script = "echo $PPID > keeper; echo $$ > standby; exec sleep 1000";
    let standby = Standby::start(scene.nursery.clone(), scene.program(script));
    let (keeper, first) =
        (pid_in(&scene.path("keeper")).await, pid_in(&scene.path("standby")).await);
    fs::remove_file(scene.path("standby")).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    let killed = BootInstant::now();
    eventually_true("it is gone", secs(5), async || is_gone(first)).await;
    let gone = BootInstant::now();
    let second = pid_in(&scene.path("standby")).await;
    let down = BootInstant::now().since(gone);
    assert!(gone.since(killed) < down, "ended after {:?}, down {down:?}", gone.since(killed));
    standby.pause().await;
    assert_gone(&[first, second]);
}
