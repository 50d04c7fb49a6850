//! README's first command: two copies of the example, one acts, it is killed, the other acts.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use tenure_testkit::{eventually, secs};

/// The example beside this test. A run of all tests has built it; a run of this one may not have.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/singleton");
    if !program.exists() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let build = ["build", "--quiet", "--package", "tenure", "--example", "singleton"];
        assert!(Command::new(cargo).args(build).status().unwrap().success());
    }
    program
}

struct Copy {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Copy {
    fn start(folder: &std::path::Path) -> Self {
        let mut child =
            Command::new(example()).current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&lines);
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| told.lock().unwrap().push(line));
        });
        Self { child, lines }
    }

    fn acts_in(&self, term: u32) -> bool {
        let ending = format!("acts in term {term}");
        self.lines.lock().unwrap().iter().any(|line| line.ends_with(&ending))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn of_two_copies_one_acts_and_when_it_is_killed_the_other_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut copies = vec![Copy::start(folder.path()), Copy::start(folder.path())];
    let leader = eventually("a copy acts", secs(10), async || {
        copies.iter().position(|copy| copy.acts_in(1))
    })
    .await;
    drop(copies.remove(leader));
    eventually("the other acts", secs(10), async || copies[0].acts_in(2).then_some(())).await;
    assert!(!copies[0].acts_in(1), "two copies acted in one term");
}
