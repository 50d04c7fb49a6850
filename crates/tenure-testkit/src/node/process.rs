//! The test's hold on a node's process.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
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
    told: Arc<Mutex<Vec<Told>>>,
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
        let told = Arc::new(Mutex::new(Vec::new()));
        thread::spawn({
            let told = Arc::clone(&told);
            move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Ok(event) = serde_json::from_str(&line) {
                        told.lock().unwrap_or_else(PoisonError::into_inner).push(event);
                    }
                }
            }
        });
        Ok(Self { holder: settings.holder.clone(), child, told })
    }

    /// All that it has told so far.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The term whose gate it opened last, and when, if it has not shut since.
    #[must_use]
    pub fn leads(&self) -> Option<(Epoch, BootInstant)> {
        match self
            .told()
            .iter()
            .rev()
            .find(|told| matches!(told, Told::Opened { .. } | Told::Led { .. }))
        {
            Some(Told::Opened { epoch, at_ns }) => Some((*epoch, BootInstant::from_nanos(*at_ns))),
            _ => None,
        }
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
        Ok(at)
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
        eventually("the node ends", within, async || child.borrow_mut().try_wait().ok().flatten())
            .await
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

/// Panics when two gates were open at the same moment. A gate that was not found shut is open still, so
/// every node must be running.
pub fn assert_never_open_together(nodes: &[Node]) {
    let mut all: Vec<_> = nodes.iter().flat_map(intervals).collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        let ((_, to, _), (from, _, _)) = (&pair[0], &pair[1]);
        assert!(to < from, "two gates were open together: {pair:?}");
    }
}

fn intervals(node: &Node) -> Vec<(u64, u64, String)> {
    let name = |epoch: Epoch| format!("{} in term {epoch}", node.holder);
    let (told, open) = (node.told(), node.leads());
    let led = told.iter().filter_map(|told| match told {
        Told::Led { epoch, from_ns, to_ns } => Some((*from_ns, *to_ns, name(*epoch))),
        _ => None,
    });
    let now = BootInstant::now().as_nanos();
    led.chain(open.map(|(epoch, since)| (since.as_nanos(), now, name(epoch)))).collect()
}

/// A pause that a test needs because *nothing* is to happen in it.
pub async fn nothing_happens_for(pause_ms: u64) {
    tokio::time::sleep(millis(pause_ms)).await;
}
