//! What a program is told, and what it says.

use std::{io, process::ExitStatus, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
};

use super::family::Family;
use crate::job::LARGEST_RESULT;

/// What is shown of a program's complaint.
const SHOWN: usize = 2_000;
/// What is kept of it: a character has four bytes at most.
const KEPT: usize = 4 * SHOWN;
/// How long output is read once the program has ended: what it said itself is there at once, and somebody who left
/// its group may hold the pipe for ever.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// What a program said.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub output: Vec<u8>,
    /// The end of it.
    errors: Vec<u8>,
}

/// Why a program was not heard to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unheard {
    #[error("it wrote more than 1 MiB to its output")]
    TooMuch,
    #[error("its output could not be read: {0}")]
    Broken(#[from] io::Error),
}

impl Heard {
    /// The end of what it wrote to its standard error.
    pub fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors);
        let text = text.trim();
        let skipped = text.chars().count().saturating_sub(SHOWN);
        text.chars().skip(skipped).collect()
    }
}

/// Tells the program its job, and listens until it has ended.
pub(super) async fn attend(
    family: &mut Family,
    job: Vec<u8>,
    heard: &mut Heard,
) -> Result<ExitStatus, Unheard> {
    let child = &mut family.child;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let talk = async {
        let ((), (), ()) = tokio::try_join!(
            tell(input, job),
            listen(output, &mut heard.output),
            keep_the_end(errors, &mut heard.errors)
        )?;
        Ok::<(), Unheard>(())
    };
    tokio::pin!(talk);
    tokio::select! {
        told = &mut talk => {
            told?;
            Ok(family.wait().await?)
        }
        status = family.wait() => {
            tokio::select! {
                told = &mut talk => told?,
                () = tokio::time::sleep(AFTERWARDS) => {}
            }
            Ok(status?)
        }
    }
}

async fn tell(input: Option<ChildStdin>, job: Vec<u8>) -> Result<(), Unheard> {
    if let Some(mut input) = input {
        // A program may have heard enough before the end.
        let _ = input.write_all(&job).await;
    }
    Ok(())
}

async fn listen(stream: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> Result<(), Unheard> {
    if let Some(stream) = stream {
        stream.take(LARGEST_RESULT as u64 + 1).read_to_end(into).await?;
    }
    match into.len() > LARGEST_RESULT {
        true => Err(Unheard::TooMuch),
        false => Ok(()),
    }
}

async fn keep_the_end(
    stream: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
) -> Result<(), Unheard> {
    let Some(mut stream) = stream else { return Ok(()) };
    while stream.read_buf(into).await? > 0 {
        // Cut now and then, not at every byte.
        if into.len() > 4 * KEPT {
            into.drain(..into.len() - KEPT);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_a_long_complaint_the_end_is_shown() {
        let long = format!("{}é the reason\n", "é".repeat(100_000));
        let mut heard = Heard::default();
        keep_the_end(Some(long.as_bytes()), &mut heard.errors).await.unwrap();
        assert!(heard.errors.len() <= 5 * KEPT);
        let complaint = heard.complaint();
        assert_eq!(complaint.chars().count(), SHOWN);
        assert!(complaint.ends_with("é the reason"));
    }

    #[tokio::test]
    async fn output_above_the_limit_is_not_cut_but_refused() {
        let fits = vec![b'1'; LARGEST_RESULT];
        let mut into = Vec::new();
        listen(Some(&*fits), &mut into).await.unwrap();
        let too_much = vec![b'1'; LARGEST_RESULT + 1];
        let refused = listen(Some(&*too_much), &mut Vec::new()).await;
        assert!(matches!(refused, Err(Unheard::TooMuch)));
    }
}
