//! Hears what the instances on this file, this one too, have stored and recorded.

use std::time::Duration;

use rusqlite::{Connection, named_params};
use tenure_database::sqlite::watch;
use tokio::sync::mpsc;

use super::{SqliteStore, stand};
use crate::store::{News, StoreError};

const NEWS: &str = include_str!("../../../sql/sqlite/schedule/news.sql");
/// How often to look where nothing was heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells until nobody listens any more.
pub(super) fn listen(store: SqliteStore) -> mpsc::UnboundedReceiver<News> {
    let (tell, told) = mpsc::unbounded_channel();
    let (changed, mut changes) = mpsc::unbounded_channel();
    watch(store.path.clone(), changed, || ());
    tokio::spawn(async move {
        let mut seen = None;
        loop {
            let clients = store.clients.clone();
            match store.on(&clients, move |file| look(file, seen)).await {
                Ok((number, news)) => {
                    seen = Some(number);
                    for news in news {
                        // Whether anybody listens is asked below.
                        let _ = tell.send(news);
                    }
                }
                Err(error) => {
                    let sql_error = tenure_database::error::chain(&error);
                    tracing::warn!(target: "tenure", sql_error, "submission_news_failed");
                }
            }
            tokio::select! {
                () = tell.closed() => return,
                Some(()) = changes.recv() => while changes.try_recv().is_ok() {},
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
    told
}

/// What was written after a transaction; and the last one that wrote.
fn look(file: &mut Connection, seen: Option<i64>) -> Result<(i64, Vec<News>), StoreError> {
    let transaction = file.transaction()?;
    let (number, _) = stand(&transaction)?;
    let Some(seen) = seen.filter(|seen| *seen <= number) else {
        // Nobody knows what was told before.
        return Ok((number, vec![News::Missed]));
    };
    if seen == number {
        return Ok((number, Vec::new()));
    }
    let mut query = transaction.prepare_cached(NEWS)?;
    let mut rows = query.query(named_params! {":number": seen})?;
    let (mut is_stored, mut done) = (false, Vec::new());
    while let Some(row) = rows.next()? {
        is_stored |= row.get::<_, bool>("is_new")?;
        if row.get("is_answered")? {
            done.push(row.get("row_number")?);
        }
    }
    let mut news = Vec::new();
    if is_stored {
        news.push(News::Stored);
    }
    if !done.is_empty() {
        news.push(News::Done(done));
    }
    Ok((number, news))
}
