//! What other instances, and this one, have stored and recorded: SQL Server tells nobody, so it is asked.

use std::time::Duration;

use tokio::sync::mpsc;

use super::SqlServerStore;
use crate::store::{News, Position, Refreshed, Store, StoreError};

/// How often.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Tells until nobody listens any more.
pub(super) fn watch(store: SqlServerStore) -> mpsc::UnboundedReceiver<News> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut known: Option<Position> = None;
        while !tell.is_closed() {
            match look(&store, known.as_ref()).await {
                Ok((position, news)) => {
                    known = Some(position);
                    // Whether anybody listens is asked above.
                    news.into_iter().for_each(|news| drop(tell.send(news)));
                }
                // Whatever happens until the next look that succeeds may be missed.
                Err(_) => known = None,
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    told
}

/// What is new since the last look, and where the next one goes on.
async fn look(
    store: &SqlServerStore,
    known: Option<&Position>,
) -> Result<(Position, Vec<News>), StoreError> {
    let Some(known) = known else {
        // Nothing is above that: only where things stand is asked.
        let stands = store.written_since(i64::MAX).await?;
        return Ok((stands.position, vec![News::Missed]));
    };
    let Refreshed { changes, position, .. } = store.refresh(known).await?;
    if position.server != known.server {
        return Ok((position, vec![News::Missed]));
    }
    let mut news = Vec::new();
    if changes.iter().any(|change| change.version == 1) {
        news.push(News::Stored);
    }
    let done: Vec<_> =
        changes.iter().filter(|change| change.version > 1).map(|change| change.row).collect();
    if !done.is_empty() {
        news.push(News::Done(done));
    }
    Ok((position, news))
}
