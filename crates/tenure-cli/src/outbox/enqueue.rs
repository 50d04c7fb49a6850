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
        Some(Enqueued::Conflict { outbox_id, differs }) => bail!(
            "{outbox_id} was enqueued before under this instruction and key, with another {differs}: nothing was \
             enqueued; another payment needs another key"
        ),
        Some(Enqueued::Invalid) | None => {
            bail!("an instruction has no blank fields, and its payload is a JSON object")
        }
    }
}

async fn many(store: &Store, path: &Path, batch: usize) -> Result<()> {
    let shown = path.display();
    let (input, size) = open(path).with_context(|| format!("cannot read {shown} (--file)"))?;
    let progress = progress(size);
    let mut lines = (1_u64..).zip(BufReader::new(progress.wrap_read(input)).lines());
    let mut count = Count::default();
    loop {
        let mut instructions = Vec::with_capacity(batch);
        // What comes before a line that is wrong is enqueued all the same.
        let mut wrong = None;
        while instructions.len() < batch && wrong.is_none() {
            let Some((number, line)) = lines.next() else { break };
            match line.map_err(anyhow::Error::from).and_then(|line| read(&line)) {
                Ok(Some(instruction)) => instructions.push((number, instruction)),
                Ok(None) => {}
                Err(error) => wrong = Some(error.context(format!("line {number}"))),
            }
        }
        let is_last = instructions.is_empty() || wrong.is_some();
        let sent = send(store, &instructions, &mut count).await;
        progress.set_message(format!("{} enqueued", count.enqueued));
        if let Some(error) = sent.err().or(wrong) {
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

/// In one transaction; where the database refuses what one of them has, one by one, so that it can be named.
async fn send(store: &Store, instructions: &[(u64, Instruction)], count: &mut Count) -> Result<()> {
    let (Some((first, _)), Some((last, _))) = (instructions.first(), instructions.last()) else {
        return Ok(());
    };
    let all: Vec<_> = instructions.iter().map(|(_, instruction)| instruction.clone()).collect();
    let answers = match store.enqueue(&all).await {
        Ok(answers) => answers,
        Err(error) if error.is_about_data() && instructions.len() > 1 => {
            for one in instructions {
                Box::pin(send(store, std::slice::from_ref(one), count)).await?;
            }
            return Ok(());
        }
        Err(error) if error.is_about_data() => {
            return Err(error).with_context(|| format!("line {first}"));
        }
        Err(error) => {
            return Err(error).with_context(|| {
                format!("lines {first} to {last} may be enqueued or not: send the file again")
            });
        }
    };
    let mut wrong = None;
    for ((number, _), answer) in instructions.iter().zip(answers) {
        let why = match answer {
            Enqueued::Done { .. } => {
                count.enqueued += 1;
                continue;
            }
            Enqueued::Repeat { .. } => {
                count.repeats += 1;
                continue;
            }
            Enqueued::Conflict { differs, .. } => {
                format!(
                    "was enqueued before with another {differs}: another payment needs another key"
                )
            }
            Enqueued::Invalid => "has a blank field, or a payload that is no object".to_owned(),
        };
        wrong = wrong.or_else(|| Some(format!("line {number} {why}")));
    }
    wrong.map_or(Ok(()), |wrong| bail!(wrong))
}

/// Blank lines are none.
fn read(line: &str) -> Result<Option<Instruction>> {
    match line.trim() {
        "" => Ok(None),
        line => Ok(Some(serde_json::from_str(line)?)),
    }
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
