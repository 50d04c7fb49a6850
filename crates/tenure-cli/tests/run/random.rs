//! Five copies and one misfortune after another, on every lock, with children that behave badly.
//!
//! What is promised: with supervisor *or* keeper stopped or killed, and whatever happens to the database, no
//! two children of leaders live together, epochs grow, and somebody acts again within a bound.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    time::Duration,
};

use fastrand::Rng;
use rustix::process::{Pid, Signal, test_kill_process};
use tenure_database::BootInstant;
use tenure_run::family;
use tenure_testkit::{
    eventually, millis,
    postgres::{Postgres, Stop},
    proxy::{Direction, Proxy},
    secs,
};

use crate::{
    copies::{Copy, Scene, family_of, kill},
    records::Records,
};

const COPIES: usize = 5;
const LEASE: Duration = Duration::from_millis(1_500);
/// A frozen leader's advisory lock goes after the lease and the margin, and its successor may have to wait as
/// long again; the rest is for the machine.
const BOUND: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Misfortune {
    KillSupervisor,
    KillKeeper,
    KillChild,
    FreezeSupervisor,
    FreezeKeeper,
    FreezeBothInTurn,
    Terminate,
    CutOff,
    HoldAnswers,
    EndSessions,
    RestartDatabase,
}

use Misfortune::*;

const ANYWHERE: [Misfortune; 7] = [
    KillSupervisor,
    KillKeeper,
    KillChild,
    FreezeSupervisor,
    FreezeKeeper,
    FreezeBothInTurn,
    Terminate,
];
const ON_A_SERVER: [Misfortune; 4] = [CutOff, HoldAnswers, EndSessions, RestartDatabase];

/// One copy, and its way to the database.
struct Member {
    copy: Copy,
    proxy: Option<Proxy>,
}

struct Play {
    scene: Scene,
    records: Records,
    postgres: Option<Postgres>,
    options: &'static str,
    members: Vec<Member>,
    started: usize,
    random: Rng,
    /// What is still to strike, before each has struck once more.
    deck: Vec<Misfortune>,
}

impl Play {
    async fn begin(postgres: Option<Postgres>, options: &'static str) -> Self {
        let scene = Scene::on_sqlite();
        fs::write(scene.path("recorder.py"), include_str!("recorder.py")).unwrap();
        let records = Records(scene.folder.path().to_owned());
        let seed = std::env::var("TENURE_RUN_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("TENURE_RUN_SEED={seed}");
        let mut play = Self {
            scene,
            records,
            postgres,
            options,
            members: Vec::new(),
            started: 0,
            random: Rng::with_seed(seed),
            deck: Vec::new(),
        };
        play.fill_up().await;
        play
    }

    /// Starts a copy for everyone that has ended.
    async fn fill_up(&mut self) {
        while self.members.len() < COPIES {
            self.started += 1;
            let proxy = match &self.postgres {
                Some(postgres) => Some(Proxy::to(postgres.addr()).await.unwrap()),
                None => None,
            };
            if let Some(proxy) = &proxy {
                let address = proxy.addr();
                self.scene.db = format!("postgres://postgres@{address}/postgres");
            }
            let name = format!("c{}", self.started);
            let script = "exec /usr/bin/python3 -S -E recorder.py";
            let options = format!("{} --restart always --term-grace 200ms", self.options);
            let copy = self.scene.copy(&name, &options, script);
            self.members.push(Member { copy, proxy });
        }
    }

    /// Waits until one of the members acts at this moment or later, and returns which. The child of one that
    /// is gone may still act for a while: until its keeper has ended it.
    async fn acts_since(&self, moment: BootInstant) -> usize {
        eventually("somebody acts", BOUND, async || {
            let acting = self.records.acting_since(moment)?;
            self.members.iter().position(|member| member.copy.name == acting)
        })
        .await
    }

    async fn round(&mut self) -> (Misfortune, Duration) {
        let leader = self.acts_since(BootInstant::now()).await;
        let whom = match self.random.u8(..4) {
            0 => self.random.usize(..COPIES),
            _ => leader,
        };
        let what = self.draw();
        let since = BootInstant::now();
        self.strike(what, whom).await;
        // Whoever was frozen or cut off is itself again: from here on somebody must act in time.
        self.members.retain_mut(|member| !member.copy.has_ended());
        self.acts_since(BootInstant::now()).await;
        let gap = BootInstant::now().since(since);
        self.fill_up().await;
        (what, gap)
    }

    fn draw(&mut self) -> Misfortune {
        if self.deck.is_empty() {
            self.deck.extend(ANYWHERE);
            self.deck.extend(self.postgres.iter().flat_map(|_| ON_A_SERVER));
            self.random.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap()
    }

    async fn strike(&mut self, what: Misfortune, whom: usize) {
        let pause = LEASE.mul_f64(self.random.f64() * 2.0);
        let member = &self.members[whom];
        let copy = &member.copy;
        match what {
            KillSupervisor => copy.signal(Signal::KILL),
            Terminate => copy.signal(Signal::TERM),
            KillKeeper => {
                let struck = Struck::of(copy);
                kill(struck.keeper, Signal::KILL);
                struck.is_over().await;
            }
            KillChild => kill(child(copy), Signal::KILL),
            FreezeSupervisor => freeze(Some(copy.pid()), pause).await,
            FreezeKeeper => {
                let struck = Struck::of(copy);
                freeze(struck.keeper, pause).await;
                struck.is_over().await;
            }
            FreezeBothInTurn => {
                freeze(Some(copy.pid()), pause).await;
                let struck = Struck::of(copy);
                freeze(struck.keeper, pause).await;
                struck.is_over().await;
            }
            CutOff | HoldAnswers => {
                let proxy = member.proxy.as_ref().unwrap();
                match what {
                    CutOff => proxy.cut(),
                    _ => proxy.hold(Direction::ToClient),
                }
                tokio::time::sleep(pause).await;
                proxy.pass();
            }
            EndSessions => {
                let client = self.postgres.as_ref().unwrap().connect().await.unwrap();
                let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
                client.execute(all, &[]).await.unwrap();
            }
            RestartDatabase => {
                let stop = if self.random.bool() { Stop::Fast } else { Stop::Immediate };
                self.postgres.as_ref().unwrap().restart(stop).await.unwrap();
            }
        }
    }
}

/// A keeper that was struck, and those below it. Until it is itself again, or its supervisor has ended them,
/// nothing else may happen to that supervisor: both killed together is not promised.
struct Struck {
    keeper: Option<Pid>,
    below: Vec<Pid>,
}

impl Struck {
    fn of(copy: &Copy) -> Self {
        let keeper = keeper(copy);
        let below = keeper.map(|keeper| family::descendants(keeper, &HashSet::new()).unwrap());
        let below = below.unwrap_or_default().into_iter().map(|one| one.pid).collect();
        Self { keeper, below }
    }

    async fn is_over(&self) {
        // Longer than a supervisor waits for a keeper that does not answer.
        let itself_again = BootInstant::now() + millis(1_500);
        eventually("the supervisor has made up its mind", BOUND, async || {
            let is_gone = |pid: &Pid| test_kill_process(*pid).is_err();
            let is_ended = self.keeper.iter().chain(&self.below).all(is_gone);
            let is_there = self.keeper.is_some_and(|keeper| !is_gone(&keeper));
            (is_ended || is_there && BootInstant::now() > itself_again).then_some(())
        })
        .await;
    }
}

/// The keeper that has a child, or one that waits.
fn keeper(copy: &Copy) -> Option<Pid> {
    let keepers = family_of(copy.pid());
    let busy = keepers.iter().copied().find(|keeper| !family_of(*keeper).is_empty());
    busy.or_else(|| keepers.first().copied())
}

fn child(copy: &Copy) -> Option<Pid> {
    family_of(keeper(copy)?).first().copied()
}

async fn freeze(pid: Option<Pid>, pause: Duration) {
    kill(pid, Signal::STOP);
    tokio::time::sleep(pause).await;
    kill(pid, Signal::CONT);
}

fn rounds() -> usize {
    match std::env::var_os("TENURE_TEST_FULL") {
        Some(_) => 200,
        None => 12,
    }
}

async fn survives(postgres: Option<Postgres>, options: &'static str) {
    let mut play = Play::begin(postgres, options).await;
    let (mut struck, mut longest) = (BTreeMap::new(), (Duration::ZERO, KillSupervisor));
    let rounds = rounds();
    for _ in 0..rounds {
        let (what, gap) = play.round().await;
        *struck.entry(what).or_insert(0) += 1;
        longest = longest.max((gap, what));
        play.records.assert_in_turn();
    }
    let terms = play.records.terms();
    println!("{rounds} rounds (200 with TENURE_TEST_FULL=1), {} terms: {struck:?}", terms.len());
    println!("longest from misfortune to action: {longest:?}");
    assert!(terms.len() > rounds / 6, "many misfortunes end a term");
    drop(play.members);
    assert_nobody_is_left(play.scene.folder.path()).await;
    play.records.assert_in_turn();
}

/// Every child records in this folder, so it is where it works.
async fn assert_nobody_is_left(folder: &Path) {
    eventually("no child is left", secs(10), async || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let left = processes.filter(|process| {
            let at = fs::read_link(process.path().join("cwd"));
            at.is_ok_and(|at| at == folder)
        });
        (left.count() == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_timing_on_sqlite() {
    survives(None, "--lease 1500ms").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_timing_on_a_postgres_lease() {
    survives(Some(Postgres::start().await.unwrap()), "--lease 1500ms").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_timing_on_an_advisory_lock() {
    survives(Some(Postgres::start().await.unwrap()), "--lease 1500ms --lock advisory").await;
}
