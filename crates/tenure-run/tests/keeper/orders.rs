//! What a keeper is told, and what it does with a child that does not want to end.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::process::{Signal, getpid, kill_process};
use tenure_database::BootInstant;
use tenure_run::{End, Exit, Program, StartError, family, family::Offspring};
use tenure_testkit::{eventually_true, millis, secs};

use crate::scene::{GRACE, Scene, assert_gone, exit_of, is_gone, pid_in};

#[tokio::test]
async fn the_exit_code_of_the_child_is_told() {
    let scene = Scene::new();
    let mut kept = scene.runs(&scene.program("exit $TENURE_EPOCH")).await;
    assert_eq!(exit_of(&mut kept).await, End::ByItself(Exit::Code(7)));
    kept.stop().await;
    let mut kept = scene.runs(&scene.program("kill -USR1 $$")).await;
    assert_eq!(exit_of(&mut kept).await, End::ByItself(Exit::Signal(10)));
    assert_eq!(Exit::Signal(10).code(), 128 + 10);
    kept.stop().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let scene = Scene::new();
    let missing = Program { arguments: vec!["no-such-program".to_owned()], ..scene.program("") };
    let input = File::open("/dev/null").unwrap();
    let refused = scene.nursery.keeper().unwrap().run(&missing, input.as_fd(), None).await;
    let error = refused.unwrap_err();
    assert!(matches!(&error, StartError::Refused { found: false, .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-program"), "{error}");
}

#[tokio::test]
async fn a_child_that_is_asked_to_end_may_do_so_in_its_own_way() {
    let scene = Scene::new();
    let script =
        "trap 'echo bye > said; exit 3' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let (kept, pids) = scene.runs_with(script, &["child"]).await;
    let (exit, lag) = kept.stop().await;
    assert_eq!(exit, Some(Exit::Code(3)));
    assert_eq!(fs::read_to_string(scene.path("said")).unwrap(), "bye\n");
    assert!(lag < GRACE, "{lag:?}");
    assert_gone(&pids);
}

#[tokio::test]
async fn a_child_that_ignores_being_asked_is_made_to_end() {
    let scene = Scene::new();
    let script = "trap '' TERM; echo $$ > child; while :; do sleep 1000; done";
    let (kept, pids) = scene.runs_with(script, &["child"]).await;
    let (exit, lag) = kept.stop().await;
    assert_eq!(exit, Some(Exit::Signal(9)));
    assert!(lag >= GRACE, "{lag:?}");
    assert_gone(&pids);
}

#[tokio::test]
async fn a_child_that_is_stopped_is_ended_too() {
    let scene = Scene::new();
    let (kept, pids) = scene.runs_with("echo $$ > child; exec sleep 1000", &["child"]).await;
    kill_process(pids[0], Signal::STOP).unwrap();
    let (exit, lag) = kept.stop().await;
    assert_eq!(exit, Some(Exit::Signal(15)), "woken up, it could be asked");
    assert!(lag < GRACE, "{lag:?}");
    assert_gone(&pids);
}

#[tokio::test]
async fn whoever_left_the_group_and_the_session_is_ended_too() {
    let scene = Scene::new();
    let script =
        "setsid sh -c 'trap \"\" TERM; echo $$ > grandchild; (echo $BASHPID; sleep 1000)' &
                  echo $$ > child; exec sleep 1000";
    let (kept, pids) = scene.runs_with(script, &["child", "grandchild"]).await;
    kept.stop().await;
    assert_gone(&pids);
}

#[tokio::test]
async fn what_the_child_leaves_behind_is_gone_before_the_keeper_says_so() {
    let scene = Scene::new();
    let script =
        "(setsid sh -c 'echo $$ > daemon; exec sleep 1000' &) ; while [ ! -s daemon ]; do :; done";
    let (mut kept, pids) = scene.runs_with(script, &["daemon"]).await;
    assert_eq!(exit_of(&mut kept).await, End::ByItself(Exit::Code(0)));
    kept.stop().await;
    assert_gone(&pids);
}

#[tokio::test]
async fn a_family_that_keeps_forking_is_ended() {
    let scene = Scene::new();
    let script = "echo $$ > child; trap '' TERM
                  f() { while :; do (sleep 0.02; :) & sleep 0.005; done; }; f & f & f";
    let (kept, pids) = scene.runs_with(script, &["child"]).await;
    kept.stop().await;
    assert_gone(&pids);
    eventually_true("its keeper has left too", secs(5), async || {
        family::descendants(getpid(), &HashSet::new()).unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn the_child_is_dead_at_its_deadline_though_nobody_says_a_word() {
    let scene = Scene::new();
    let until = BootInstant::now() + millis(400);
    let script = "trap '' TERM; echo $$ > child; while :; do sleep 1000; done";
    let program = Program { until: Some(until.as_nanos()), ..scene.program(script) };
    let mut kept = scene.runs(&program).await;
    let child = pid_in(&scene.path("child")).await;
    assert_eq!(exit_of(&mut kept).await, End::Asked(Exit::Signal(9)));
    assert!(BootInstant::now() >= until + GRACE, "not before it has to");
    eventually_true("it is gone", secs(5), async || is_gone(child)).await;
    kept.stop().await;
}

#[tokio::test]
async fn a_deadline_that_moves_ahead_keeps_the_child_alive() {
    let scene = Scene::new();
    let first = BootInstant::now() + millis(400);
    let script = "echo $$ > child; exec sleep 1000";
    let program = Program { until: Some(first.as_nanos()), ..scene.program(script) };
    let mut kept = scene.runs(&program).await;
    let child = pid_in(&scene.path("child")).await;
    let last = first + millis(800);
    assert!(kept.act_until(last));
    assert_eq!(exit_of(&mut kept).await, End::Asked(Exit::Signal(15)));
    assert!(BootInstant::now() >= last, "ended before its deadline");
    kept.stop().await;
    assert_gone(&[child]);
}

#[tokio::test]
async fn the_child_ends_when_its_supervisor_is_gone() {
    let scene = Scene::new();
    let script =
        "setsid sh -c 'echo $$ > grandchild; exec sleep 1000' & echo $$ > child; exec sleep 1000";
    let (kept, pids) = scene.runs_with(script, &["child", "grandchild"]).await;
    drop(kept);
    for pid in pids {
        eventually_true("it is gone", secs(5), async || is_gone(pid)).await;
    }
}

#[tokio::test]
async fn a_frozen_keeper_does_not_save_the_child() {
    let scene = Scene::new();
    let script =
        "trap '' TERM; setsid sh -c 'echo $$ > grandchild; exec sleep 1000' & echo $$ > child
                  while :; do sleep 1000; done";
    let (kept, mut pids) = scene.runs_with(script, &["child", "grandchild"]).await;
    kill_process(kept.keeper(), Signal::STOP).unwrap();
    pids.push(kept.keeper());
    let (_, lag) = kept.stop().await;
    assert!(lag < GRACE + millis(500), "{lag:?}");
    assert_gone(&pids);
}

#[tokio::test]
async fn a_killed_keeper_leaves_nobody_behind() {
    let scene = Scene::new();
    let script =
        "setsid sh -c 'echo $$ > grandchild; exec sleep 1000' & echo $$ > child; exec sleep 1000";
    let (mut kept, pids) = scene.runs_with(script, &["child", "grandchild"]).await;
    let other = scene.runs(&scene.program("exec sleep 1000")).await;
    kill_process(kept.keeper(), Signal::KILL).unwrap();
    assert_eq!(exit_of(&mut kept).await, End::Unknown, "nobody knows how it ended");
    kept.stop().await;
    assert_gone(&pids);
    let left = family::descendants(getpid(), &HashSet::new()).unwrap();
    assert_eq!(left.len(), 2, "the other child and its keeper live: {left:?}");
    other.stop().await;
}

#[tokio::test]
async fn signals_to_everybody_do_not_end_the_keeper() {
    let scene = Scene::new();
    let (kept, _) = scene.runs_with("echo $$ > child; exec sleep 1000", &["child"]).await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::PIPE] {
        kill_process(kept.keeper(), signal).unwrap();
    }
    let (exit, _) = kept.stop().await;
    assert_eq!(exit, Some(Exit::Signal(15)));
}

#[tokio::test]
async fn a_signal_is_passed_on() {
    let scene = Scene::new();
    let script = "trap 'exit 5' USR1; echo $$ > child; while :; do sleep 0.01; done";
    let (mut kept, _) = scene.runs_with(script, &["child"]).await;
    kept.signal(Signal::USR1.as_raw());
    assert_eq!(exit_of(&mut kept).await, End::ByItself(Exit::Code(5)));
    kept.stop().await;
}

#[tokio::test]
async fn the_child_has_its_input_and_a_clean_signal_mask_and_no_file_of_ours() {
    let scene = Scene::new();
    fs::write(scene.path("input"), "from the supervisor\n").unwrap();
    let script = "cat > output; grep SigBlk /proc/self/status > mask; ls /proc/self/fd > files";
    let program = scene.program(script);
    let input = File::open(scene.path("input")).unwrap();
    let (hold, _other) = UnixStream::pair().unwrap();
    let idle = scene.nursery.keeper().unwrap();
    let mut kept = idle.run(&program, input.as_fd(), Some(hold.as_fd())).await.unwrap();
    assert_eq!(exit_of(&mut kept).await, End::ByItself(Exit::Code(0)));
    kept.stop().await;
    let read = |name| fs::read_to_string(scene.path(name)).unwrap();
    assert_eq!(read("output"), "from the supervisor\n");
    assert_eq!(read("mask"), "SigBlk:\t0000000000000000\n");
    let listed = std::process::Command::new("sh")
        .args(["-c", "ls /proc/self/fd > files"])
        .current_dir(&scene.folder)
        .status();
    let ours = read("files");
    assert!(listed.unwrap().success());
    assert_eq!(ours, read("files"), "the same files as without a keeper");
}

/// The other end sees the end of the connection only after the last descendant is dead.
#[tokio::test]
async fn the_locks_connection_is_held_until_nobody_is_left() {
    let scene = Scene::new();
    let script = "trap '' TERM; echo $$ > child; while :; do sleep 1000; done";
    let (hold, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let hold = OwnedFd::from(hold);
    let input = File::open("/dev/null").unwrap();
    let idle = scene.nursery.keeper().unwrap();
    let kept = idle.run(&scene.program(script), input.as_fd(), Some(hold.as_fd())).await.unwrap();
    let child = pid_in(&scene.path("child")).await;
    drop(hold);
    // The supervisor dies: only the keeper has the connection now.
    drop(kept);
    let is_open = || {
        let read = (&server).read(&mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(is_open(), "held while the child lives");
    eventually_true("the connection ends", secs(5), async || {
        let is_open = is_open();
        assert!(is_open || is_gone(child), "freed before the child was dead");
        !is_open
    })
    .await;
}

#[tokio::test]
async fn a_child_whose_time_is_over_is_not_started() {
    let scene = Scene::new();
    let until = Some(BootInstant::now().as_nanos());
    let late = Program { until, ..scene.program("touch started") };
    let input = File::open("/dev/null").unwrap();
    let refused = scene.nursery.keeper().unwrap().run(&late, input.as_fd(), None).await;
    assert!(matches!(refused, Err(StartError::TooLate { .. })), "{refused:?}");
    assert!(!scene.path("started").exists());
}

#[tokio::test]
async fn a_keeper_that_is_frozen_before_it_starts_the_child_is_given_up() {
    let scene = Scene::new();
    let mut idle = scene.nursery.keeper().unwrap();
    assert!(idle.is_there());
    let keeper = family::descendants(getpid(), &HashSet::new()).unwrap();
    assert_eq!(keeper.len(), 1);
    kill_process(keeper[0].pid, Signal::STOP).unwrap();
    let input = File::open("/dev/null").unwrap();
    let program = scene.program("touch started");
    let lost = idle.run(&program, input.as_fd(), None).await;
    assert!(matches!(lost, Err(StartError::KeeperLost { .. })), "{lost:?}");
    assert_gone(&[keeper[0].pid]);
    assert!(!scene.path("started").exists());
}

#[tokio::test]
async fn a_keeper_that_was_killed_while_it_waited_is_noticed() {
    let scene = Scene::new();
    let mut idle = scene.nursery.keeper().unwrap();
    let keeper = family::descendants(getpid(), &HashSet::new()).unwrap();
    kill_process(keeper[0].pid, Signal::KILL).unwrap();
    let idle = std::sync::Mutex::new(&mut idle);
    eventually_true("it is not there", secs(5), async || !idle.lock().unwrap().is_there()).await;
}

#[tokio::test]
async fn a_keeper_that_is_frozen_while_its_child_runs_is_noticed() {
    let scene = Scene::new();
    let (mut kept, pids) = scene.runs_with("echo $$ > child; exec sleep 1000", &["child"]).await;
    kill_process(kept.keeper(), Signal::STOP).unwrap();
    let frozen = BootInstant::now();
    let until = BootInstant::now() + secs(60);
    assert!(kept.act_until(until), "the first order may still be heard");
    let kept = std::sync::Mutex::new(kept);
    eventually_true("it does not hear", secs(5), async || !kept.lock().unwrap().act_until(until))
        .await;
    assert!(BootInstant::now().since(frozen) >= secs(1), "not at the first delay");
    kept.into_inner().unwrap().stop().await;
    assert_gone(&pids);
}

#[tokio::test]
async fn a_keeper_that_hears_is_not_given_up() {
    let scene = Scene::new();
    let mut kept = scene.runs(&scene.program("exec sleep 1000")).await;
    for _ in 0..15 {
        assert!(kept.act_until(BootInstant::now() + secs(60)));
        tokio::select! {
            end = kept.exited() => panic!("{end:?}"),
            () = tokio::time::sleep(millis(100)) => {}
        }
    }
    kept.stop().await;
}

/// The kernel shows a process whose first thread has ended as a zombie, whatever its others do.
#[tokio::test]
async fn a_process_whose_first_thread_has_ended_is_ended_too() {
    let scene = Scene::new();
    let program = "import ctypes, os, signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
def act():
    print(os.getpid(), file=open('other', 'w'), flush=True)
    while True: time.sleep(0.01)
threading.Thread(target=act).start()
ctypes.CDLL(None).pthread_exit(None)";
    fs::write(scene.path("threads.py"), program).unwrap();
    let script = "/usr/bin/python3 threads.py & echo $$ > child; exec sleep 1000";
    let (kept, pids) = scene.runs_with(script, &["child", "other"]).await;
    eventually_true("its first thread has ended", secs(10), async || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pids[1].as_raw_pid()));
        stat.is_ok_and(|stat| stat.contains(") Z"))
    })
    .await;
    kept.stop().await;
    assert_gone(&pids);
}

#[tokio::test]
async fn a_command_line_that_is_too_long_is_refused_and_leaves_no_zombie() {
    let scene = Scene::new();
    let arguments = vec!["echo".to_owned(), "x".repeat(200_000)];
    let long = Program { arguments, ..scene.program("") };
    let input = File::open("/dev/null").unwrap();
    let missing = Program { arguments: vec!["no-such-program".to_owned()], ..scene.program("") };
    for program in [long, missing] {
        let idle = scene.nursery.keeper().unwrap();
        let refused = idle.run(&program, input.as_fd(), None).await;
        assert!(matches!(refused, Err(StartError::Refused { .. })), "{refused:?}");
        let mut left = Vec::new();
        Offspring::of_this_process().unwrap().each(|child| left.push(child)).unwrap();
        assert_eq!(left, [], "nobody has buried the keeper");
    }
}

#[tokio::test]
async fn whoever_was_there_before_is_left_alone() {
    let mut before = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let scene = Scene::new();
    let (kept, pids) = scene.runs_with("echo $$ > child; exec sleep 1000", &["child"]).await;
    kill_process(kept.keeper(), Signal::KILL).unwrap();
    kept.stop().await;
    assert_gone(&pids);
    assert!(before.try_wait().unwrap().is_none(), "it was none of our business");
    before.kill().unwrap();
    before.wait().unwrap();
}

#[tokio::test]
async fn a_terminals_stop_does_not_freeze_the_keeper() {
    let scene = Scene::new();
    let until = BootInstant::now() + millis(500);
    let script = "echo $$ > child; exec sleep 1000";
    let program = Program { until: Some(until.as_nanos()), ..scene.program(script) };
    let kept = scene.runs(&program).await;
    let child = pid_in(&scene.path("child")).await;
    for signal in [Signal::TSTP, Signal::TTIN, Signal::TTOU] {
        kill_process(kept.keeper(), signal).unwrap();
    }
    kill_process(child, Signal::STOP).unwrap();
    eventually_true("it is ended at its deadline", secs(5), async || is_gone(child)).await;
    kept.stop().await;
}

#[tokio::test]
async fn each_is_asked_once() {
    let scene = Scene::new();
    let counts = "count() { n=$((n + 1)); echo $n > asked-$1; }; trap 'count $0' TERM
                  echo $$ > $0; while [ -z \"$n\" ]; do sleep 0.01; done; sleep 0.1";
    fs::write(scene.path("counts.sh"), counts.replace("\\\"", "\"")).unwrap();
    let script = "sh -c '. ./counts.sh' inner & setsid sh -c '. ./counts.sh' outer & . ./counts.sh";
    let arguments = ["sh", "-c", script, "child"].map(str::to_owned).to_vec();
    let kept = scene.runs(&Program { arguments, ..scene.program("") }).await;
    let mut pids = Vec::new();
    for name in ["child", "inner", "outer"] {
        pids.push(pid_in(&scene.path(name)).await);
    }
    kept.stop().await;
    assert_gone(&pids);
    for name in ["child", "inner", "outer"] {
        let asked = fs::read_to_string(scene.path(&format!("asked-{name}"))).unwrap();
        assert_eq!(asked, "1\n", "{name}");
    }
}
