//! What a person sees while it runs: a few lines that are drawn over again, or one line per event in a file.

use std::{fmt::Write as _, io::IsTerminal, time::Duration};

use anyhow::Result;
use tenure::{BootInstant, DatabaseUrl};

use super::{
    gateway::Gateway,
    instances::{Instance, Instances},
    load::Load,
};
use crate::output::print;

/// Over how long a rate is taken.
const RATE_OVER: Duration = Duration::from_secs(1);

enum Shown {
    /// Drawn over again.
    Lines {
        drawn: usize,
    },
    Events,
    Nothing,
}

/// What is drawn, and what it is compared with.
pub struct View {
    shown: Shown,
    headline: String,
    last_event: String,
    counted: Counted,
    rates: (usize, usize),
}

#[derive(Clone, Copy)]
struct Counted {
    at: BootInstant,
    submitted: usize,
    effects: usize,
}

impl View {
    pub fn new(db: &DatabaseUrl, is_quiet: bool) -> Self {
        let shown = match (is_quiet, std::io::stdout().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, true) => Shown::Lines { drawn: 0 },
            (false, false) => Shown::Events,
        };
        let counted = Counted { at: BootInstant::now(), submitted: 0, effects: 0 };
        let headline = format!("Three instances on {db}; one leads, and is killed.");
        Self { shown, headline, last_event: String::new(), counted, rates: (0, 0) }
    }

    /// Something has happened.
    pub fn say(&mut self, event: &str) -> Result<()> {
        event.clone_into(&mut self.last_event);
        match self.shown {
            Shown::Events => print(&format!("{event}\n")),
            Shown::Lines { .. } | Shown::Nothing => Ok(()),
        }
    }

    pub fn draw(
        &mut self,
        instances: &Instances,
        gateway: &Gateway,
        load: &Load,
        left: Duration,
    ) -> Result<()> {
        let Shown::Lines { drawn } = self.shown else { return Ok(()) };
        self.count(load.submitted(), gateway.effects());
        let lines = self.lines(instances, gateway, load, left)?;
        self.shown = Shown::Lines { drawn: lines.lines().count() };
        print(&format!("{}{lines}", over(drawn)))
    }

    /// Takes away what was drawn.
    pub fn clear(&mut self) -> Result<()> {
        let Shown::Lines { drawn } = self.shown else { return Ok(()) };
        self.shown = Shown::Lines { drawn: 0 };
        print(&over(drawn))
    }

    fn count(&mut self, submitted: usize, effects: usize) {
        let now = BootInstant::now();
        let gone = now.since(self.counted.at);
        if gone < RATE_OVER {
            return;
        }
        let per_second = |count: usize, before: usize| {
            (count.saturating_sub(before) as f64 / gone.as_secs_f64()).round() as usize
        };
        let before = self.counted;
        self.rates = (per_second(submitted, before.submitted), per_second(effects, before.effects));
        self.counted = Counted { at: now, submitted, effects };
    }

    fn lines(
        &self,
        instances: &Instances,
        gateway: &Gateway,
        load: &Load,
        left: Duration,
    ) -> Result<String> {
        let mut lines = format!("{}\n\n", self.headline);
        for (at, instance) in instances.all.iter().enumerate() {
            writeln!(lines, "  instance {}  {}", at + 1, described(instance))?;
        }
        let (submitted_rate, effects_rate) = self.rates;
        writeln!(lines, "\n  submitted  {:>8}  {submitted_rate:>5}/s", load.submitted())?;
        writeln!(lines, "  executed   {:>8}  {effects_rate:>5}/s", gateway.effects())?;
        writeln!(lines, "  repeats    {:>8}", gateway.repeats())?;
        writeln!(lines, "  duplicates {:>8}", gateway.duplicates())?;
        writeln!(lines, "  kills      {:>8}  {}", instances.kills.len(), self.last_event)?;
        writeln!(lines, "\n  {}s left; Ctrl-C ends it with a verdict", left.as_secs())?;
        Ok(lines)
    }
}

fn described(instance: &Instance) -> String {
    let pid = instance.process.id().unwrap_or_default();
    match &instance.role {
        Some(role) if role.role == "LEADER" => {
            format!("pid {pid:<8} leads term {}", role.leader_epoch)
        }
        Some(_) => format!("pid {pid:<8} follows"),
        None => format!("pid {pid:<8} starts"),
    }
}

/// Back to the first of so many lines, and nothing below.
fn over(lines: usize) -> String {
    match lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\x1b[J"),
    }
}
