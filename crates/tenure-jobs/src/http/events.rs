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
use crate::{
    event::{Event, Position, Span},
    store::{Store, StoreError},
};

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
    last_event_id: String,
    /// Whether there may be events after what was asked for that do not follow: they are forgotten, or the database
    /// was restored since.
    missed: bool,
}

/// One who follows.
struct Follower {
    api: Arc<Api>,
    namespace: String,
    /// What was sent.
    position: i64,
    /// How the events go by name there: another name, and they are others.
    history: String,
    ready: VecDeque<Event>,
    news: watch::Receiver<u64>,
    _place: OwnedSemaphorePermit,
}

/// Follow what happens
///
/// Server-sent events: `hello`, then what happens in the namespace, each with an id. Whoever sends `Last-Event-ID` gets
/// all that came after it, from any node; `missed` in the first one says that this could not be.
#[utoipa::path(
    get,
    path = "/v1/events",
    params(
        ("namespace" = Option<String>, Query, description = "Default: default"),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that was seen"),
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
    let (position, history, missed) =
        start(&*api.controller.store, seen).await.map_err(|error| ApiError::of_store(&error))?;
    let hello = hello(&api, position, &history, missed);
    api.controller.metrics.followers.inc();
    let stop = api.controller.stop.clone();
    let ready = VecDeque::new();
    let follower = Follower { api, namespace, position, history, ready, news, _place: place };
    let events = stream::unfold(follower, next);
    let all = stream::iter([hello]).chain(events).map(Ok).take_until(stop.cancelled_owned());
    Ok(Sse::new(all).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Position>, ApiError> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let position = given.to_str().ok().and_then(|given| Position::read(given.trim()));
    let refused = || ApiError::invalid("Last-Event-ID must be the id of an event");
    position.map(Some).ok_or_else(refused)
}

/// Where a stream begins, how events go by name there, and whether something may have been missed.
async fn start(
    store: &dyn Store,
    seen: Option<Position>,
) -> Result<(i64, String, bool), StoreError> {
    let span = store.span(seen.as_ref().map_or(0, |seen| seen.number)).await?;
    let (position, missed) = begin(seen.as_ref(), &span);
    let history = match position == span.last {
        true => span.history,
        false => store.span(position).await?.history_there,
    };
    Ok((position, history, missed))
}

/// A place that is not in this history is of another database, or of this one before it was restored: then nobody
/// knows what was missed. Whoever names no history is served, and told that it may be another.
fn begin(seen: Option<&Position>, span: &Span) -> (i64, bool) {
    let Some(Position { history, number }) = seen else { return (span.last, false) };
    let is_known = match history {
        Some(history) => *history == span.history_there,
        None => *number == 0,
    };
    if *number > span.last || history.is_some() && !is_known {
        (span.last, true)
    } else if *number < span.first - 1 {
        (span.first - 1, true)
    } else {
        (*number, !is_known)
    }
}

fn hello(api: &Api, position: i64, history: &str, missed: bool) -> Sent {
    let place = Position { history: Some(history.to_owned()), number: position };
    let role = api.controller.stand.role();
    let hello = Hello {
        node_id: role.node_id,
        role: role.role,
        leader_epoch: role.leader_epoch,
        leader_id: role.leader_id,
        last_event_id: place.to_string(),
        missed,
    };
    sent("hello", &place, &hello)
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
            sent("role.changed", &event.position(), &changed)
        }
        kind => sent(kind, &event.position(), event),
    }
}

fn sent(kind: &str, place: &Position, data: &impl Serialize) -> Sent {
    let event = Sent::default().event(kind).id(place.to_string());
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
    /// What comes next is kept no more, or the database was restored: this one must begin anew.
    Forgotten,
}

impl Follower {
    /// Reads what comes next.
    async fn look(&mut self) -> Result<Look, crate::store::StoreError> {
        self.news.mark_unchanged();
        let store = &self.api.controller.store;
        let Span { first, last, history, history_there } = store.span(self.position).await?;
        if last < self.position || history_there != self.history || first - 1 > self.position {
            return Ok(Look::Forgotten);
        }
        if last == self.position {
            return Ok(Look::Nothing);
        }
        let up_to = last.min(self.position + WINDOW);
        self.ready.extend(store.events(&self.namespace, self.position, up_to).await?);
        self.history = match up_to == last {
            true => history,
            false => store.span(up_to).await?.history_there,
        };
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
        let [history, history_there] = ["b", "a"].map(str::to_owned);
        let span = Span { first: 11, last: 20, history, history_there };
        let begin = |seen: &str| begin(Position::read(seen).as_ref(), &span);
        assert_eq!(begin("a-15"), (15, false));
        assert_eq!(begin("a-10"), (10, false));
        assert_eq!(begin("a-9"), (10, true));
        assert_eq!(begin("a-21"), (20, true));
        assert_eq!(begin("other-15"), (20, true), "of another history");
        assert_eq!(begin("15"), (15, true), "nobody knows of which history");
        assert_eq!(super::begin(None, &span), (20, false));
        let empty = Span { first: 1, ..Span::default() };
        assert_eq!(super::begin(Position::read("0").as_ref(), &empty), (0, false));
    }
}
