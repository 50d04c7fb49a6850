//! Hears what other instances, and this one, have stored and recorded.

use std::time::Duration;

use tenure_database::postgres::{self, Heard, PostgresUrl};
use tokio::sync::mpsc;

use crate::store::News;

const LISTEN: &str = "LISTEN submission_intents; LISTEN submission_done";
const DONE: &str = "submission_done";

/// Tells until nobody listens any more.
pub(super) fn listen(url: PostgresUrl, patience: Duration) -> mpsc::UnboundedReceiver<News> {
    let (tell, told) = mpsc::unbounded_channel();
    let mut heard = postgres::listen(url, LISTEN, patience);
    tokio::spawn(async move {
        loop {
            let news = tokio::select! {
                () = tell.closed() => return,
                heard = heard.recv() => match heard {
                    Some(Heard::Connected) => News::Missed,
                    Some(Heard::Told(told)) if told.channel() == DONE => {
                        News::Done(rows(told.payload()))
                    }
                    Some(Heard::Told(_)) => News::Stored,
                    None => return,
                },
            };
            // Whether anybody listens is asked above.
            let _ = tell.send(news);
        }
    });
    told
}

fn rows(payload: &str) -> Vec<i64> {
    payload.split(',').filter_map(|row| row.parse().ok()).collect()
}
