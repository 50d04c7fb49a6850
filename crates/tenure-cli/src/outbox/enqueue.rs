//! `tenure outbox enqueue`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tenure_outbox::{
    instruction::{Enqueued, Instruction},
    store::Store,
};

use crate::output;

/// What to enqueue, and how many in one transaction.
#[derive(Debug)]
pub struct Enqueue {
    pub source: Source,
    pub batch: usize,
}

#[derive(Debug)]
pub enum Source {
    One(Box<Instruction>),
    File(PathBuf),
}

#[derive(Default)]
struct Count {
    enqueued: u64,
    repeats: u64,
}

impl Enqueue {
    pub async fn run(self, store: &Store) -> Result<()> {
        match self.source {
            Source::One(instruction) => one(store, *instruction).await,
            Source::File(path) => many(store, &path, self.batch).await,
        }
    }
}

async fn one(store: &Store, instruction: Instruction) -> Result<()> {
    let answers = store.enqueue(&[instruction]).await?;
    match answers.into_iter().next() {
        Some(Enqueued::Done { outbox_id, sequence_id }) => output::print(&format!(
            "enqueued {outbox_id} as number {sequence_id} of its participant\n"
        )),
        Some(Enqueued::Repeat { outbox_id, sequence_id, state }) => output::print(&format!(
            "enqueued before: {outbox_id}, number {sequence_id} of its participant, {state}\n"
        )),
        Some(Enqueued::Invalid) | None => {
            bail!("an instruction has no blank fields, and its payload is a JSON object")
        }
    }
}

async fn many(store: &Store, path: &Path, batch: usize) -> Result<()> {
    let shown = path.display();
    let (input, size) = open(path).with_context(|| format!("cannot read {shown} (--file)"))?;
    let progress = progress(size);
    let mut lines = BufReader::new(progress.wrap_read(input)).lines();
    let (mut number, mut count) = (0, Count::default());
    loop {
        let first = number + 1;
        let mut instructions = Vec::with_capacity(batch);
        // What comes before a line that is wrong is enqueued all the same.
        let mut wrong = None;
        while instructions.len() < batch {
            let Some(line) = lines.next() else { break };
            number += 1;
            match read(&line.with_context(|| format!("cannot read {shown}"))?, number) {
                Ok(Some(instruction)) => instructions.push((number, instruction)),
                Ok(None) => {}
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        let is_last = number < first || wrong.is_some();
        send(store, instructions, &mut count).await.map_err(|error| {
            error.context(format!(
                "from line {first} of {shown} on nothing more is known to be enqueued"
            ))
        })?;
        progress.set_message(format!("{} enqueued", count.enqueued));
        if let Some(error) = wrong {
            progress.abandon();
            return Err(error.context(told(&count)));
        }
        if is_last {
            break;
        }
    }
    progress.finish_and_clear();
    output::print(&format!("{}\n", told(&count)))
}

async fn send(
    store: &Store,
    instructions: Vec<(u64, Instruction)>,
    count: &mut Count,
) -> Result<()> {
    if instructions.is_empty() {
        return Ok(());
    }
    let (numbers, instructions): (Vec<_>, Vec<_>) = instructions.into_iter().unzip();
    let answers = store.enqueue(&instructions).await?;
    let mut invalid = None;
    for (number, answer) in numbers.iter().zip(answers) {
        match answer {
            Enqueued::Done { .. } => count.enqueued += 1,
            Enqueued::Repeat { .. } => count.repeats += 1,
            Enqueued::Invalid => invalid = invalid.or(Some(*number)),
        }
    }
    match invalid {
        Some(number) => bail!("line {number} has a blank field, or a payload that is no object"),
        None => Ok(()),
    }
}

/// Blank lines are none.
fn read(line: &str, number: u64) -> Result<Option<Instruction>> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some).with_context(|| format!("line {number}"))
}

fn told(count: &Count) -> String {
    let Count { enqueued, repeats } = count;
    match repeats {
        0 => format!("enqueued {enqueued}"),
        _ => format!("enqueued {enqueued}, and {repeats} were enqueued before"),
    }
}

/// With its size, where it has one.
fn open(path: &Path) -> io::Result<(Box<dyn Read>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path)?;
    let size = file.metadata().map(|data| data.len()).ok().filter(|size| *size > 0);
    Ok((Box::new(file), size))
}

/// Only for people who watch.
fn progress(size: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match size {
        Some(size) => (ProgressBar::new(size), "{bar:40} {bytes}/{total_bytes}  {msg}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
