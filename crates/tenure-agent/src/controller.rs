//! Calls of the controller: whoever leads is found, and what it answers is a value.

mod answer;
mod places;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::{
    Client, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use serde::Serialize;
use tenure_database::{BootInstant, error::chain};
use tokio::sync::watch;

use self::{
    answer::Answer,
    places::{Places, Search},
};
pub(crate) use self::{answer::Refusal, places::Place};
use crate::{
    agent::AgentError,
    backoff::{Backoff, LONGEST},
    settings::Settings,
};

/// How long a call may take that does not wait for anything.
pub(crate) const SHORT_CALL: Duration = Duration::from_secs(10);
const NOBODY: &str = "it does not lead, and knows nobody who does";
const ELSEWHERE: &str = "it did not answer, and somebody else leads by now";
const CONNECTS_WITHIN: Duration = Duration::from_secs(3);
/// The most that is read of an answer: as many tasks as a lease may have, with a large payload each.
const LARGEST_ANSWER: usize = 128 * 1024 * 1024;
/// How often it is told that the token is refused.
const COMPLAINS_EVERY: Duration = Duration::from_secs(30);

/// A client of whoever leads.
#[derive(Debug)]
pub(crate) struct Controller {
    client: Client,
    places: Mutex<Places>,
    /// Who has last done something that only the leader does.
    led_by: watch::Sender<Option<Place>>,
    complained: Mutex<Option<BootInstant>>,
}

/// What came of a call.
#[derive(Debug)]
#[must_use]
pub(crate) enum Reply {
    /// The leader has done it, and said this.
    Done { from: Place, body: Vec<u8> },
    /// The leader will not have this request, now or later.
    Refused(Refusal),
    /// Nobody who leads has heard it, or nobody knows whether somebody has.
    Unheard(Unheard),
}

/// Why a call is to be made again.
#[derive(Debug)]
pub(crate) struct Unheard {
    pub cause: Cause,
    why: String,
    retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    NotLeader,
    Forbidden,
    Failed,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotLeader => "not_leader",
            Self::Forbidden => "forbidden",
            Self::Failed => "failed",
        }
    }
}

impl Unheard {
    fn not_leader(why: String) -> Self {
        Self { cause: Cause::NotLeader, why, retry_after: None }
    }

    pub fn forbidden() -> Self {
        let why = "it does not let us in with this token".to_owned();
        Self { cause: Cause::Forbidden, why, retry_after: None }
    }

    /// How long to wait before the call is made again.
    pub fn pause(&self, backoff: &mut Backoff) -> Duration {
        match self.cause {
            // A token does not become right by being shown often.
            Cause::Forbidden => LONGEST,
            _ => backoff.pause().max(self.retry_after.unwrap_or_default()),
        }
    }
}

impl Controller {
    pub fn new(settings: &Settings) -> Result<Self, AgentError> {
        let client = Client::builder()
            .default_headers(headers(settings.token.as_deref())?)
            // Who leads is said by the controller in its own words, not by something in between.
            .redirect(Policy::none())
            .connect_timeout(CONNECTS_WITHIN)
            .no_proxy()
            .build()
            .map_err(AgentError::Client)?;
        let places = Mutex::new(Places::new(&settings.controllers));
        let led_by = watch::Sender::new(None);
        Ok(Self { client, places, led_by, complained: Mutex::default() })
    }

    /// Asks whoever leads, and looks for it where somebody else does not.
    pub async fn call(&self, path: &str, said: &impl Serialize, within: Duration) -> Reply {
        let body = serde_json::to_vec(said).expect("what an agent says is JSON");
        let mut search = Search::begin(self.places().current().clone());
        loop {
            let from = search.place().clone();
            let answer = tokio::select! {
                answer = self.ask(&from, path, &body, within) => answer,
                () = self.led_elsewhere(&from) => failed(ELSEWHERE.to_owned()),
            };
            let unheard = match answer {
                Answer::Done(body) => {
                    self.places().stay(&search);
                    self.led_by.send_replace(Some(from.clone()));
                    return Reply::Done { from, body };
                }
                Answer::Refused(refusal) => {
                    self.places().stay(&search);
                    return Reply::Refused(refusal);
                }
                Answer::NotLeader { leader_url: Some(named) } => match search.follow(&named) {
                    Ok(()) => continue,
                    Err(error) => Unheard::not_leader(error.to_string()),
                },
                Answer::NotLeader { leader_url: None } => Unheard::not_leader(NOBODY.to_owned()),
                Answer::Forbidden => Unheard::forbidden(),
                Answer::Failed { why, retry_after } => {
                    Unheard { cause: Cause::Failed, why, retry_after }
                }
            };
            self.leave(search.start());
            self.tell(&from, path, &unheard);
            return Reply::Unheard(unheard);
        }
    }

    /// Nobody leads there, and nobody there knows who does.
    pub fn leave(&self, place: &Place) {
        self.places().leave(place);
    }

    async fn ask(&self, place: &Place, path: &str, body: &[u8], within: Duration) -> Answer {
        let call = self.client.post(place.url(path)).header(CONTENT_TYPE, "application/json");
        let response = call.timeout(within).body(body.to_owned()).send().await;
        let answered = async {
            let response = response?;
            let (status, headers) = (response.status(), response.headers().clone());
            let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            Ok::<_, reqwest::Error>(match all(response).await? {
                Some(body) => answer::read(status, retry_after, body),
                None => failed("its answer is too long".to_owned()),
            })
        };
        answered.await.unwrap_or_else(|error| failed(chain(&error.without_url())))
    }

    /// Until somebody else turns out to lead: whoever is asked may be dead without a sound, and a poll would wait
    /// for it to the end.
    async fn led_elsewhere(&self, place: &Place) {
        let mut led_by = self.led_by.subscribe();
        while led_by.changed().await.is_ok() {
            if led_by.borrow_and_update().as_ref().is_some_and(|leader| leader != place) {
                return;
            }
        }
    }

    fn tell(&self, place: &Place, path: &str, unheard: &Unheard) {
        let (controller, why) = (place.as_str(), &unheard.why);
        if unheard.cause != Cause::Forbidden {
            tracing::info!(target: "tenure", controller, path, why, "agent_not_heard");
        } else if self.is_time_to_complain() {
            tracing::error!(target: "tenure", controller, path, why, "agent_token_refused");
        }
    }

    /// Somebody has to do something about it, and is told now and then.
    fn is_time_to_complain(&self) -> bool {
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        let now = BootInstant::now();
        let is_time = complained.is_none_or(|last| now.since(last) >= COMPLAINS_EVERY);
        if is_time {
            *complained = Some(now);
        }
        is_time
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn headers(token: Option<&str>) -> Result<HeaderMap, AgentError> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
            let problem = "holds characters that no header may have".to_owned();
            AgentError::Setting { setting: "token", problem }
        })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn failed(why: String) -> Answer {
    Answer::Failed { why, retry_after: None }
}

/// The whole body, unless it is longer than anybody has reason to send.
async fn all(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}
