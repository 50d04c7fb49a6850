//! Events, as they happen; and from where somebody left off, on this node or another.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::sse::{Event as Sent, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt, stream};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{
    Api, Shared,
    error::{ApiError, OtherError},
    read::Query,
};
use crate::event::{Event, Span};

/// How often a silent stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many numbers are looked at in one read.
const WINDOW: i64 = 2_000;
/// How soon after one look the next may come: many events are read together.
const REST: Duration = Duration::from_millis(20);
/// How long to leave a database alone that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// The first event of a stream.
#[derive(Serialize)]
struct Hello {
    node_id: String,
    role: &'static str,
    leader_epoch: i64,
    leader_id: Option<String>,
    /// What follows comes after this one.
    last_event_id: i64,
    /// Whether events between what was asked for and this are forgotten.
    missed: bool,
}

/// One who follows.
struct Follower {
    api: Arc<Api>,
    namespace: String,
    /// What was sent.
    position: i64,
    ready: VecDeque<Event>,
    news: watch::Receiver<u64>,
    _place: OwnedSemaphorePermit,
}

/// Follow what happens
///
/// Server-sent events: `hello`, then what happens in the namespace, each with its number as id. Whoever sends
/// `Last-Event-ID` gets all that came after it, from any node.
#[utoipa::path(
    get,
    path = "/v1/events",
    params(
        ("namespace" = Option<String>, Query, description = "Default: default"),
        ("Last-Event-ID" = Option<i64>, Header, description = "The last event that was seen"),
    ),
    responses(
        (status = 200, description = "A stream of events", content_type = "text/event-stream"),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 503, description = "The database does not answer, or too many follow", body = OtherError),
    )
)]
pub(crate) async fn follow(
    State(api): Shared,
    headers: HeaderMap,
    query: RawQuery,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, ApiError> {
    let namespace = Query::read(query).namespace()?;
    let seen = last_event_id(&headers)?;
    let place = Arc::clone(&api.followers).try_acquire_owned().map_err(|_| ApiError::crowded())?;
    // Before the look: what comes after it is news.
    let news = api.controller.news.clone();
    let span = api.controller.store.span().await.map_err(|error| ApiError::of_store(&error))?;
    let (position, missed) = begin(seen, span);
    let hello = hello(&api, position, missed);
    api.controller.metrics.followers.inc();
    let stop = api.controller.stop.clone();
    let follower =
        Follower { api, namespace, position, ready: VecDeque::new(), news, _place: place };
    let events = stream::unfold(follower, next);
    let all = stream::iter([hello]).chain(events).map(Ok).take_until(stop.cancelled_owned());
    Ok(Sse::new(all).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, ApiError> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let number = given.to_str().ok().and_then(|given| given.trim().parse().ok());
    let refused = || ApiError::invalid("Last-Event-ID must be the id of an event");
    number.filter(|number| *number >= 0).map(Some).ok_or_else(refused)
}

/// Where a stream begins, and whether something in between is forgotten. A number that was never given is of another
/// database: then nobody knows what was missed.
fn begin(seen: Option<i64>, span: Span) -> (i64, bool) {
    match seen {
        None => (span.last, false),
        Some(seen) if seen > span.last => (span.last, true),
        Some(seen) if seen < span.first - 1 => (span.first - 1, true),
        Some(seen) => (seen, false),
    }
}

fn hello(api: &Api, position: i64, missed: bool) -> Sent {
    let role = api.controller.stand.role();
    let hello = Hello {
        node_id: role.node_id,
        role: role.role,
        leader_epoch: role.leader_epoch,
        leader_id: role.leader_id,
        last_event_id: position,
        missed,
    };
    sent("hello", position, &hello)
}

/// A new leader is told in the words of `/role`.
#[derive(Serialize)]
struct RoleChanged<'e> {
    role: &'static str,
    leader_id: &'e Option<String>,
    leader_url: &'e Option<String>,
    leader_epoch: i64,
    at: Timestamp,
}

fn told(event: &Event) -> Sent {
    match event.kind.as_str() {
        "role.changed" => {
            let Event { agent: leader_id, detail: leader_url, leader_epoch, at, .. } = event;
            let changed = RoleChanged {
                role: "LEADER",
                leader_id,
                leader_url,
                leader_epoch: *leader_epoch,
                at: *at,
            };
            sent("role.changed", event.number, &changed)
        }
        kind => sent(kind, event.number, event),
    }
}

fn sent(kind: &str, number: i64, data: &impl Serialize) -> Sent {
    let event = Sent::default().event(kind).id(number.to_string());
    // A value of ours can always be written.
    event.json_data(data).unwrap_or_default()
}

async fn next(mut follower: Follower) -> Option<(Sent, Follower)> {
    loop {
        if let Some(event) = follower.ready.pop_front() {
            return Some((told(&event), follower));
        }
        match follower.look().await {
            Ok(Look::Some) => {}
            // Whoever comes again is told what it missed.
            Ok(Look::Forgotten) => return None,
            Ok(Look::Nothing) => {
                follower.news.changed().await.ok()?;
                tokio::time::sleep(REST).await;
            }
            Err(error) => {
                // It is told in the log; a follower waits until the database answers.
                drop(ApiError::of_store(&error));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What was there.
enum Look {
    Some,
    Nothing,
    /// What comes next is kept no more: this one was too slow.
    Forgotten,
}

impl Follower {
    /// Reads what comes next.
    async fn look(&mut self) -> Result<Look, crate::store::StoreError> {
        self.news.mark_unchanged();
        let store = &self.api.controller.store;
        let Span { first, last } = store.span().await?;
        if last <= self.position {
            return Ok(Look::Nothing);
        }
        if first - 1 > self.position {
            return Ok(Look::Forgotten);
        }
        let up_to = last.min(self.position + WINDOW);
        self.ready.extend(store.events(&self.namespace, self.position, up_to).await?);
        self.position = up_to;
        Ok(Look::Some)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.api.controller.metrics.followers.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_where_somebody_left_off_and_says_what_is_forgotten() {
        let span = Span { first: 11, last: 20 };
        assert_eq!(begin(None, span), (20, false));
        assert_eq!(begin(Some(15), span), (15, false));
        assert_eq!(begin(Some(10), span), (10, false));
        assert_eq!(begin(Some(9), span), (10, true));
        assert_eq!(begin(Some(21), span), (20, true));
        assert_eq!(begin(Some(0), Span { first: 1, last: 0 }), (0, false));
    }
}
