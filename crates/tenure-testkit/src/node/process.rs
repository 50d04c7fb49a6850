//! The test's hold on a node's process.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tenure::{BootInstant, Epoch};

use super::{NodeSettings, Told};
use crate::{eventually, millis, pause};

/// A node's process, killed with this value.
#[derive(Debug)]
pub struct Node {
    pub holder: String,
    child: Child,
    heard: Arc<Mutex<Heard>>,
    /// Ends with the node's output.
    listener: Option<JoinHandle<()>>,
}

/// What a node has told.
#[derive(Debug, Default)]
struct Heard {
    told: Vec<Told>,
    /// Its last word that a gate is open still.
    last_open: Option<(Epoch, u64)>,
}

impl Heard {
    fn hear(&mut self, told: Told) {
        match told {
            Told::StillOpen { epoch, at_ns } => self.last_open = Some((epoch, at_ns)),
            told => self.told.push(told),
        }
    }
}

impl Node {
    /// Starts a node; `program` hands its first argument to [`super::serve`].
    pub fn start(program: &Path, settings: &NodeSettings) -> Result<Self> {
        let mut child = Command::new(program)
            .arg(serde_json::to_string(settings)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let output = child.stdout.take().context("the node's output")?;
        let heard = Arc::<Mutex<Heard>>::default();
        let listener = thread::spawn({
            let heard = Arc::clone(&heard);
            move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Ok(event) = serde_json::from_str(&line) {
                        heard.lock().unwrap_or_else(PoisonError::into_inner).hear(event);
                    }
                }
            }
        });
        Ok(Self { holder: settings.holder.clone(), child, heard, listener: Some(listener) })
    }

    /// All that it has told so far, but for the words that an open gate is open still.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.heard().told.clone()
    }

    /// The term whose gate it opened last, and when, if it has not shut since and the node lives.
    #[must_use]
    pub fn leads(&self) -> Option<(Epoch, BootInstant)> {
        self.listener.as_ref().and_then(|_| self.opened_last())
    }

    /// The term whose gate it opened last, and when, if it did not tell that it was shut.
    fn opened_last(&self) -> Option<(Epoch, BootInstant)> {
        let is_of_gate = |told: &&Told| matches!(told, Told::Opened { .. } | Told::Led { .. });
        match self.heard().told.iter().rev().find(is_of_gate) {
            Some(Told::Opened { epoch, at_ns }) => Some((*epoch, BootInstant::from_nanos(*at_ns))),
            _ => None,
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until its gate is open in a term after `after`.
    pub async fn leads_after(&self, after: Epoch, within: Duration) -> (Epoch, BootInstant) {
        let what = format!("{} leads in a term after {after}", self.holder);
        eventually(&what, within, async || self.leads().filter(|(epoch, _)| *epoch > after)).await
    }

    /// Waits until its gate of this term was found shut, and says when it last was open.
    pub async fn has_led(&self, term: Epoch, within: Duration) -> BootInstant {
        let what = format!("the gate of {} in term {term} is shut", self.holder);
        eventually(&what, within, async || {
            self.told().iter().rev().find_map(|told| match told {
                Told::Led { epoch, to_ns, .. } if *epoch == term => {
                    Some(BootInstant::from_nanos(*to_ns))
                }
                _ => None,
            })
        })
        .await
    }

    /// Waits until it says that it cannot go on, and why.
    pub async fn cannot_go_on(&self, within: Duration) -> String {
        eventually("the election ends", within, async || {
            self.told().into_iter().find_map(|told| match told {
                Told::Ended { reason } => Some(reason),
                _ => None,
            })
        })
        .await
    }

    /// SIGKILL; returns the moment before it was sent.
    pub fn kill(&mut self) -> Result<BootInstant> {
        let at = BootInstant::now();
        self.signal(Signal::KILL)?;
        self.child.wait()?;
        self.hear_the_rest();
        Ok(at)
    }

    /// A process that is gone has told all that it ever will.
    fn hear_the_rest(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.join().expect("the listener only listens");
        }
    }

    /// SIGSTOP; returns when every thread has stopped.
    pub fn freeze(&self) -> Result<BootInstant> {
        pause(self.pid()?)?;
        Ok(BootInstant::now())
    }

    /// SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM; returns the moment before it was sent.
    pub fn terminate(&self) -> Result<BootInstant> {
        let at = BootInstant::now();
        self.signal(Signal::TERM)?;
        Ok(at)
    }

    /// Waits for its end.
    pub async fn exit(&mut self, within: Duration) -> ExitStatus {
        let child = std::cell::RefCell::new(&mut self.child);
        let status = eventually("the node ends", within, async || {
            child.borrow_mut().try_wait().ok().flatten()
        })
        .await;
        self.hear_the_rest();
        status
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    fn pid(&self) -> Result<Pid> {
        let id = i32::try_from(self.child.id())?;
        Pid::from_raw(id).context("a process id")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A node that has ended already needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The node that leads in a term after `after`, whichever it is.
pub async fn somebody_leads(
    nodes: &[Node],
    after: Epoch,
    within: Duration,
) -> (usize, Epoch, BootInstant) {
    let what = format!("somebody leads in a term after {after}");
    eventually(&what, within, async || {
        nodes.iter().enumerate().find_map(|(at, node)| {
            let (epoch, since) = node.leads()?;
            (epoch > after).then_some((at, epoch, since))
        })
    })
    .await
}

/// Panics when two gates were open at the same moment, and says how many terms were compared. Nodes that led and
/// are dead must be among them: what they told counts.
#[must_use = "one term was open together with none"]
pub fn terms_never_open_together(nodes: &[Node]) -> usize {
    let mut all: Vec<_> = nodes.iter().flat_map(intervals).collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(before.to < after.from, "two gates were open together: {pair:?}");
    }
    all.iter().map(|open| open.epoch).collect::<BTreeSet<_>>().len()
}

/// An open gate, from the first to the last check that is known to have passed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    from: u64,
    to: u64,
    epoch: Epoch,
    holder: String,
}

fn intervals(node: &Node) -> Vec<Open> {
    let open = |epoch, from, to| Open { from, to, epoch, holder: node.holder.clone() };
    let last = node.opened_last().map(|(epoch, since)| {
        let (since, told) = (since.as_nanos(), node.heard().last_open);
        let to = told.filter(|(of, _)| *of == epoch).map_or(since, |(_, at)| at.max(since));
        open(epoch, since, to)
    });
    let led = node.told().into_iter().filter_map(|told| match told {
        Told::Led { epoch, from_ns, to_ns } => Some(open(epoch, from_ns, to_ns)),
        _ => None,
    });
    led.chain(last).collect()
}

/// A pause that a test needs because *nothing* is to happen in it.
pub async fn nothing_happens_for(pause_ms: u64) {
    tokio::time::sleep(millis(pause_ms)).await;
}
