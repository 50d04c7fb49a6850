//! Waiting for something to become true, which is what a test does instead of sleeping.

use std::{panic::Location, time::Duration};

use tokio::time::sleep;

const POLL: Duration = Duration::from_millis(5);

/// `count` seconds, short enough to be read inside a call.
#[must_use]
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// `count` milliseconds.
#[must_use]
pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Asks `condition` again and again until it answers with a value.
///
/// A condition that hangs, say on a held connection, does not extend the deadline.
/// It is an `FnMut` of futures and not an `AsyncFnMut`, so that spawned tasks may wait as well.
///
/// # Panics
/// When `within` passes first, naming `what` was awaited and the line that awaited it.
#[track_caller]
pub fn eventually<T, Answer>(
    what: &str,
    within: Duration,
    mut condition: impl FnMut() -> Answer,
) -> impl Future<Output = T>
where
    Answer: Future<Output = Option<T>>,
{
    let caller = Location::caller();
    async move {
        let answer = async {
            loop {
                if let Some(value) = condition().await {
                    return value;
                }
                sleep(POLL).await;
            }
        };
        tokio::select! {
            biased;
            value = answer => value,
            () = sleep(within) => panic!("{what}: not within {within:?}, as awaited at {caller}"),
        }
    }
}

/// Asks `condition` again and again until it holds; panics as [`eventually`] does.
#[track_caller]
pub fn eventually_true<Answer>(
    what: &str,
    within: Duration,
    mut condition: impl FnMut() -> Answer,
) -> impl Future<Output = ()>
where
    Answer: Future<Output = bool>,
{
    eventually(what, within, move || {
        let answer = condition();
        async { answer.await.then_some(()) }
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending, sync::Arc};

    use tokio::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn the_value_comes_back_once_it_is_there() {
        let asked = Cell::new(0);
        let value = eventually("the third answer", secs(1), async || {
            asked.update(|count| count + 1);
            (asked.get() == 3).then_some("here")
        })
        .await;
        assert_eq!((value, asked.get()), ("here", 3));
    }

    #[tokio::test]
    #[should_panic(expected = "a leader: not within 20ms, as awaited at ")]
    async fn a_deadline_names_what_was_awaited_and_where() {
        eventually("a leader", millis(20), async || None::<()>).await;
    }

    #[tokio::test]
    #[should_panic(expected = "an answer: not within 20ms")]
    async fn a_condition_that_hangs_does_not_extend_the_deadline() {
        eventually_true("an answer", millis(20), pending).await;
    }

    #[tokio::test]
    async fn a_spawned_task_may_wait() {
        let count = Arc::new(Mutex::new(0));
        let counting = tokio::spawn({
            let count = count.clone();
            async move {
                eventually_true("a count of three", secs(1), async || {
                    let mut count = count.lock().await;
                    *count += 1;
                    *count == 3
                })
                .await;
            }
        });
        counting.await.unwrap();
        assert_eq!(*count.lock().await, 3);
    }
}
